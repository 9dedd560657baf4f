"""SGD of ``multi_gpu`` on pinned samples beside a bare loop of torch: samples learnt from by second.

    python benchmarks/multi_gpu_sgd.py [--device cuda] [--minibatch 32768 4096]

The shapes of Humanoid (376 observations, 17 actions, two networks of 256 x 256), PPO, fixed samples. Ours is what
``multi_gpu`` does with each minibatch that it has drawn, by way of the ``Learner``: select, loss, backward, clip, Adam,
statistics, progress. The bare loop does the same to the same samples with ``torch.nn``, ``torch.optim`` and autograd,
as somebody writes it who needs nothing else; on CUDA it is captured as a CUDA graph, which is replayed. After the
first epoch both have the same weights, which is checked. They take turns, with the same number of threads, and are
measured by CPU time on a CPU, which others on the machine disturb less.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from rlcore.batch import MultiAgentBatch, SampleBatch
from rlcore.graph_spec import GraphSpec
from rlcore.learner import Learner
from rlcore.minibatches import shuffled
from rlcore_torch import PPO

OBSERVATIONS, ACTIONS, HIDDEN = 376, 17, 256
LEARNING_RATE, CLIP, VALUE, MAX_GRAD_NORM, EPSILON = 3e-4, 0.2, 0.5, 0.5, 1e-5
COLUMNS = ("obs", "actions", "action_logp", "advantages", "value_targets")
#: One epoch.
Epoch = Callable[[Sequence[np.ndarray]], None]


def samples(rows: int) -> dict[str, np.ndarray]:
    """By column, drawn as if a fresh policy had acted."""
    rng = np.random.default_rng(0)
    actions = rng.standard_normal((rows, ACTIONS)).astype(np.float32)
    logp = -0.5 * (actions**2).sum(1) - 0.5 * ACTIONS * np.log(2 * np.pi)
    return {
        "obs": rng.standard_normal((rows, OBSERVATIONS)).astype(np.float32),
        "actions": actions,
        "action_logp": (logp + 0.05 * rng.standard_normal(rows)).astype(np.float32),
        "advantages": rng.standard_normal(rows).astype(np.float32),
        "value_targets": rng.standard_normal(rows).astype(np.float32),
    }


# -- ours


def learner(activation: str, devices: Sequence[str]) -> Learner:
    config = PPO.Config(
        model={"hidden": [HIDDEN, HIDDEN], "activation": activation},
        learning_rate=LEARNING_RATE,
        clip=CLIP,
        vf_loss_coeff=VALUE,
        max_grad_norm=MAX_GRAD_NORM,
        epsilon=EPSILON,
    )
    spaces = gymnasium.spaces.Box(-np.inf, np.inf, (OBSERVATIONS,)), gymnasium.spaces.Box(-0.4, 0.4, (ACTIONS,))
    return Learner({"default": GraphSpec(PPO, *spaces, config, np.random.SeedSequence(1))}, devices)


def ours(own: Learner, rows: dict[str, np.ndarray]) -> Epoch:
    """An epoch of ``multi_gpu``."""
    count = len(rows["obs"])
    batch = SampleBatch(rows, {"start": np.array([0]), "length": np.array([count])})
    pinned = own.pin(MultiAgentBatch.of(batch))

    def epoch(minibatches: Sequence[np.ndarray]) -> None:
        for units in minibatches:
            own.learn(pinned, {"default": units})

    return epoch


# -- the bare loop


class Networks(nn.Module):
    """A policy and a value network."""

    def __init__(self, activation: str) -> None:
        super().__init__()
        kind = {"tanh": nn.Tanh, "relu": nn.ReLU}[activation]

        def network(outputs: int) -> nn.Sequential:
            first, second = nn.Linear(OBSERVATIONS, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
            return nn.Sequential(first, kind(), second, kind(), nn.Linear(HIDDEN, outputs))

        self.policy, self.value = network(ACTIONS), network(1)
        self.log_std = nn.Parameter(torch.zeros(ACTIONS))

    def load(self, weights: dict[str, Any]) -> None:
        """Ours, to start from the same."""
        with torch.no_grad():
            for name, network in (("policy", self.policy), ("value", self.value)):
                for layer, module in zip(("hidden_0", "hidden_1", "out"), network[::2], strict=True):
                    module.weight.copy_(torch.tensor(weights[f"{name}.{layer}.weight"].T))
                    module.bias.copy_(torch.tensor(weights[f"{name}.{layer}.bias"]))
            self.log_std.copy_(torch.tensor(weights["policy.log_std"]))


def loss(networks: Networks, obs: Tensor, actions: Tensor, old: Tensor, advantages: Tensor, targets: Tensor) -> Tensor:
    """The clipped surrogate and the squared error of the values; advantages normalised in the minibatch."""
    policy = torch.distributions.Normal(networks.policy(obs), networks.log_std.exp(), validate_args=False)
    ratio = (policy.log_prob(actions).sum(1) - old).exp()
    advantages = (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-8)
    surrogate = torch.min(advantages * ratio, advantages * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
    return VALUE * (networks.value(obs).squeeze(1) - targets).square().mean() - surrogate


def bare(networks: Networks, rows: dict[str, np.ndarray], minibatch: int, device: torch.device) -> Epoch:
    """An epoch of the bare loop. Fused Adam, and no number is read back from the device but the loss of an epoch."""
    columns = [torch.tensor(rows[name], device=device) for name in COLUMNS]
    captured = device.type == "cuda"
    optimizer = torch.optim.Adam(
        networks.parameters(), lr=LEARNING_RATE, eps=EPSILON, fused=True, capturable=captured
    )
    index = torch.zeros(minibatch, dtype=torch.int64, device=device)

    def update() -> Tensor:
        optimizer.zero_grad(set_to_none=not captured)
        found = loss(networks, *(column[index] for column in columns))
        found.backward()
        nn.utils.clip_grad_norm_(networks.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        return found.detach()

    run = _captured(update, networks, optimizer) if captured else update

    def epoch(minibatches: Sequence[np.ndarray]) -> None:
        found = index.new_zeros((), dtype=torch.float32)
        for units in minibatches:
            index.copy_(torch.from_numpy(units))
            found = run()
        found.item()

    return epoch


def _captured(update: Callable[[], Tensor], networks: Networks, optimizer: torch.optim.Adam) -> Callable[[], Tensor]:
    """``update`` as a CUDA graph; weights and moments are afterwards what they were before."""
    before = {name: value.clone() for name, value in networks.state_dict().items()}
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            update()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = update()
    networks.load_state_dict(before)
    for state in optimizer.state.values():
        for tensor in state.values():
            tensor.zero_()

    def run() -> Tensor:
        graph.replay()
        return found

    return run


# -- turns


def compare(minibatch: int, options: argparse.Namespace) -> None:
    """Prints one line of the table."""
    device = torch.device(options.device)
    clock = time.perf_counter if options.wall or device.type == "cuda" else time.process_time
    rows = samples(options.updates * minibatch)
    own, networks = learner(options.activation, (options.device,)), Networks(options.activation).to(device)
    networks.load(own.get_weights()["default"])
    contestants = {"ours": ours(own, rows), "bare": bare(networks, rows, minibatch, device)}
    rng = np.random.default_rng(0)
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(options.rounds + 1):
        minibatches = list(shuffled(np.ones(len(rows["obs"]), np.int64), minibatch, rng))
        for name, epoch in contestants.items():
            _synchronise(device)
            started = clock()
            epoch(minibatches)
            _synchronise(device)
            if turn:  # the first warms up
                rates[name].append(len(rows["obs"]) / (clock() - started))
        if not turn:
            _check_same(own, networks)
    ratio = statistics.median(one / other for one, other in zip(rates["ours"], rates["bare"], strict=True))
    median = {name: statistics.median(found) for name, found in rates.items()}
    figures = f"{median['ours']:,.0f} | {median['bare']:,.0f} | {ratio:.2f}"
    print(f"| {minibatch} | {options.device} | {figures} |", flush=True)


def _check_same(own: Learner, networks: Networks) -> None:
    """After an epoch both have the same weights but for rounding."""
    theirs = networks.policy[2].weight.detach().cpu().numpy().T
    np.testing.assert_allclose(own.get_weights()["default"]["policy.hidden_1.weight"], theirs, rtol=0.0, atol=1e-3)


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="(default: %(default)s)")
    parser.add_argument("--minibatch", type=int, nargs="+", default=[32768, 4096], help="rows (default: %(default)s)")
    parser.add_argument("--activation", choices=["tanh", "relu"], default="tanh", help="(default: %(default)s)")
    parser.add_argument("--updates", type=int, default=4, help="of an epoch (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="turns (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of torch on CPUs (default: %(default)s)")
    parser.add_argument("--wall", action="store_true", help="by the clock on a CPU as well: for several threads")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print("| minibatch | device | rlcore samples/s | bare torch samples/s | ratio |\n| --: | --- | --: | --: | --: |")
    for minibatch in options.minibatch:
        compare(minibatch, options)


if __name__ == "__main__":
    main()
