"""Pong with a policy: sampling with the networks of Mnih et al. 2015, beside bare loops with the same network.

    python benchmarks/pong_policy.py

Contestants step the same vector environments, Gymnasium's and ALE's own. The bare loop computes what rlcore does, in
plain ``torch``: actions drawn from the logits, their log-probabilities and the values by one pass forward, every
observation, action, log-probability, value, reward and flag written into arrays made before, and the values of the last
observations. A second loop takes the action that is rated highest, and keeps nothing. rlcore besides makes advantages,
episodes and a batch of it. Contestants take turns; the ratios are medians over the turns, by the clock and by the time
of processors, which other work on the machine disturbs less. The goal: at least 0.9 of the bare loop, on one core and
on two (so many threads of torch, and of ALE).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import ale_py
import gymnasium
import numpy as np
import torch
from ale_py.vector_env import AtariVectorEnv

from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Fragment
from rlcore_torch import PPO

STEPS, ACTIONS = 32, 6
LEAST = 0.9
#: Plays on for ever; each ``next`` takes ``STEPS`` decisions in all copies.
Play = Iterator[None]


def one_game() -> Any:
    env = gymnasium.wrappers.AtariPreprocessing(gymnasium.make("ALE/Pong-v5", frameskip=1))
    return gymnasium.wrappers.FrameStackObservation(env, 4)


class Network(torch.nn.Module):
    """A body of convolutions for logits and values."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(4, 32, 8, 4),
            torch.nn.ReLU(),
            torch.nn.Conv2d(32, 64, 4, 2),
            torch.nn.ReLU(),
            torch.nn.Conv2d(64, 64, 3, 1),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(3136, 512),
            torch.nn.ReLU(),
        )
        self.policy = torch.nn.Linear(512, ACTIONS)
        self.value = torch.nn.Linear(512, 1)

    def read(self, obs: Any) -> torch.Tensor:
        features: torch.Tensor = self.body(torch.from_numpy(obs).float().mul_(1 / 255))
        return features


def recorded(env: Any, copies: int) -> Play:
    """The loop that computes and keeps what rlcore does."""
    network = Network().eval()
    whole = (STEPS, copies)
    observed = np.empty((*whole, 4, 84, 84), np.uint8)
    actions, last = np.empty(whole, np.int64), np.empty(copies, np.float32)
    log_probs, values, rewards = (np.empty(whole, np.float32) for _ in range(3))
    terminated, truncated = (np.empty(whole, np.bool_) for _ in range(2))
    obs, _ = env.reset(seed=0)
    while True:
        for t in range(STEPS):
            observed[t] = obs
            with torch.inference_mode():
                features = network.read(obs)
                log_softmax = network.policy(features).log_softmax(1)
                drawn = torch.multinomial(log_softmax.exp(), 1)
                actions[t], log_probs[t] = drawn[:, 0], log_softmax.gather(1, drawn)[:, 0]
                values[t] = network.value(features)[:, 0]
            obs, rewards[t], terminated[t], truncated[t], _ = env.step(actions[t])
        with torch.inference_mode():
            last[:] = network.value(network.read(obs))[:, 0]
        yield


def greedy(env: Any) -> Play:
    """The loop that only plays."""
    network = Network().eval()
    obs, _ = env.reset(seed=0)
    while True:
        for _ in range(STEPS):
            with torch.inference_mode():
                actions = network.policy(network.read(obs)).argmax(1).numpy()
            obs = env.step(actions)[0]
        yield


def ours(copies: int, **settings: Any) -> Play:
    evaluator = PolicyEvaluator(
        env="ALE/Pong-v5",
        env_settings={"atari": True, "frame_stack": 4, **settings},
        graph=PPO,
        num_envs=copies,
        collect=Fragment(STEPS),
        rng=0,
    )
    while True:
        evaluator.sample()
        yield


class Turns(NamedTuple):
    """Seconds of each turn."""

    clock: list[float]
    processor: list[float]


def turns(contestants: Mapping[str, Callable[[], Play]], threads: int, rounds: int) -> dict[str, Turns]:
    plays = {name: make() for name, make in contestants.items()}
    # After the graphs are built, which may set another number.
    for play in plays.values():
        next(play)
    torch.set_num_threads(threads)
    for play in plays.values():
        next(play)
    taken = {name: Turns([], []) for name in plays}
    for _ in range(rounds):
        for name, play in plays.items():
            clock, processor = time.perf_counter(), time.process_time()
            next(play)
            taken[name].processor.append(time.process_time() - processor)
            taken[name].clock.append(time.perf_counter() - clock)
    return taken


def ratio(others: list[float], own: list[float]) -> float:
    return statistics.median(other / mine for other, mine in zip(others, own, strict=True))


def report(library: str, taken: Mapping[str, Turns], decisions: int) -> None:
    own = taken["rlcore"]
    for name, other in taken.items():
        rate = f"{decisions / statistics.median(other.clock):6.0f} decisions/s"
        by_both = ratio(other.clock, own.clock), ratio(other.processor, own.processor)
        of = "" if name == "rlcore" else "rlcore is {:.2f} of it, by time of processors {:.2f}".format(*by_both)
        print(f"  {library:10} {name:15} {rate}  {of}".rstrip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="turns (default: %(default)s)")
    parser.add_argument("--games", type=int, default=8, help="copies of Pong (default: %(default)s)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of torch and ALE (default: 1 2)")
    options = parser.parse_args()
    gymnasium.register_envs(ale_py)
    copies = options.games
    for threads in options.threads:
        print(f"Pong with a convolutional policy, {copies} copies, {threads} threads (goal: {LEAST} of the bare loop):")

        def vector(threads: int = threads) -> Any:
            return AtariVectorEnv("pong", copies, num_threads=threads)

        def native(threads: int = threads) -> Play:
            return ours(copies, vectorization="native", workers=threads)

        loops = {
            "bare": lambda vector=vector: recorded(vector(), copies),
            "bare, greedy": lambda vector=vector: greedy(vector()),
            "rlcore": native,
        }
        report("ALE", turns(loops, threads, options.rounds), copies * STEPS)
        if threads == 1:
            loops = {
                "bare": lambda: recorded(gymnasium.vector.SyncVectorEnv([one_game] * copies), copies),
                "rlcore": lambda: ours(copies),
            }
            report("Gymnasium", turns(loops, threads, options.rounds), copies * STEPS)


if __name__ == "__main__":
    main()
