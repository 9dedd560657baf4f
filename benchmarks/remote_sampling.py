"""Sampling through remote evaluators, beside as many bare processes with the same environments and network.

    python benchmarks/remote_sampling.py [--evaluators 1 2 4]

An evaluator is an actor on Ray with CartPoles and the two networks of PPO; the driver asks all for a sample, round by
round, as optimizers do: once it leaves the samples where they are, once it fetches them and broadcasts the weights, as
``multi_gpu`` does. A bare process has Gymnasium's vector environment of the same CartPoles, without their checker, and
networks of the same sizes in numpy; it stores every column that the evaluators' samples have but advantages, and
exchanges nothing. Contestants take turns; a turn is as many rounds, and the bare processes work for as long as theirs
take. Given are medians over the turns and the best turns, by the clock, and environment steps by second of processor
time: on a machine with other work on it that is what can be compared.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.hooks import load_hooks
from rlcore.parts import build_parts
from rlcore.policy_graph import Progress
from rlcore.resolve import resolve

#: What each evaluator, and each bare process, has.
NUM_ENVS, FRAGMENT, HIDDEN = 32, 128, (64, 64)
ENV_ID = "CartPole-v1"
GOAL = 0.9


# -- bare processes


class Networks:
    """Two tanh networks and a draw, in numpy: the least that acting and its values take."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.policy, self.value = self._layers(2), self._layers(1)

    def _layers(self, outputs: int) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        sizes = [4, *HIDDEN, outputs]
        shapes = zip(sizes, sizes[1:], strict=False)
        return [
            (self.rng.normal(0, 0.1, shape).astype(np.float32), np.zeros(shape[1], np.float32)) for shape in shapes
        ]

    def act(self, obs: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Actions, and their log-probabilities."""
        logits = _through(self.policy, obs)
        logits -= logits.max(1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(1, keepdims=True))
        actions = (logits + self.rng.gumbel(size=logits.shape)).argmax(1)
        return actions, logits[np.arange(len(actions)), actions]

    def values(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Of all steps at once."""
        return _through(self.value, obs)[:, 0]


def _through(layers: list[Any], x: NDArray[np.float32]) -> NDArray[np.float32]:
    for weight, bias in layers[:-1]:
        x = x @ weight
        x += bias
        np.tanh(x, out=x)
    weight, bias = layers[-1]
    x = x @ weight
    x += bias
    return x


class BareLoop:
    """A vector environment, networks, and one column for each thing that happens."""

    def __init__(self, seed: int) -> None:
        def make() -> Any:
            return gymnasium.make(ENV_ID, disable_env_checker=True)

        mode = gymnasium.vector.AutoresetMode.SAME_STEP
        self.envs = gymnasium.vector.SyncVectorEnv([make] * NUM_ENVS, autoreset_mode=mode)
        self.networks = Networks(seed)
        self.obs, _ = self.envs.reset(seed=seed)

    def sample(self) -> dict[str, Any]:
        """``FRAGMENT`` steps of every environment."""
        shape = (FRAGMENT, NUM_ENVS)
        columns: dict[str, Any] = {
            "obs": np.empty((*shape, 4), np.float32),
            "actions": np.empty(shape, np.int64),
            "action_logp": np.empty(shape, np.float32),
            "rewards": np.empty(shape, np.float32),
            "terminated": np.empty(shape, np.bool_),
            "truncated": np.empty(shape, np.bool_),
        }
        final_obs = []
        for step in range(FRAGMENT):
            actions, logp = self.networks.act(self.obs)
            columns["obs"][step], columns["actions"][step], columns["action_logp"][step] = self.obs, actions, logp
            self.obs, reward, terminated, truncated, info = self.envs.step(actions)
            columns["rewards"][step] = reward
            columns["terminated"][step], columns["truncated"][step] = terminated, truncated
            if "final_obs" in info:
                final_obs += [(step, slot, info["final_obs"][slot]) for slot in np.flatnonzero(terminated | truncated)]
        columns["vf_preds"] = self.networks.values(columns["obs"].reshape(-1, 4)).reshape(shape)
        return {**columns, "final_obs": final_obs}


def serve_bare(pipe: Connection, seed: int) -> None:
    """In its process: samples as often as it is told to, and answers with the processor time of that."""
    loop = BareLoop(seed)
    for rounds in iter(pipe.recv, 0):
        before = time.process_time()
        for _ in range(rounds):
            loop.sample()
        pipe.send(time.process_time() - before)


class BareProcesses:
    """So many of them; they start a turn together."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes, self._processes = [], []
        for seed in range(count):
            here, there = context.Pipe()
            process = context.Process(target=serve_bare, args=(there, seed), daemon=True)
            process.start()
            self._pipes.append(here)
            self._processes.append(process)

    def turn(self, rounds: int) -> float:
        """Processor time of all of them."""
        for pipe in self._pipes:
            pipe.send(rounds)
        return sum(pipe.recv() for pipe in self._pipes)

    def close(self) -> None:
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.send(0)
            process.join()


# -- evaluators


class RemoteEvaluators:
    """The evaluators of a run of PPO, driven as its optimizer drives them."""

    def __init__(self, count: int, cpus: int) -> None:
        settings = {
            "algorithm": "ppo",
            "env": ENV_ID,
            "model": {"hidden": list(HIDDEN)},
            "evaluators": {"count": count, "envs": NUM_ENVS, "fragment": FRAGMENT},
            "runtime": {"name": "ray", "cpus": cpus},
        }
        self._parts = build_parts(resolve(settings), load_hooks([]), {})
        (self._optimizer,) = self._parts.optimizers
        self._weights, self._progress = self._optimizer.get_weights(), Progress(0, 0, 0, {})

    def leave(self) -> None:
        """A round whose samples stay where they are."""
        self._optimizer.reader.round()

    def fetch(self) -> None:
        """A round whose samples are put together here; weights go out, and news of episodes come in."""
        evaluators = self._parts.evaluators
        batch = evaluators.fetch(self._optimizer.reader.round(), tuple(self._weights))
        assert batch.env_steps == len(evaluators.handles) * NUM_ENVS * FRAGMENT
        evaluators.broadcast(self._weights, {policy_id: self._progress for policy_id in self._weights})
        evaluators.metrics()

    def close(self) -> None:
        self._parts.close()


def processor_time() -> float:
    """Seconds of this process and of all that it has started, Ray's own among them, while they live."""
    spent: dict[int, float] = {}
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid = int(stat.parent.name)
        parents[pid], spent[pid] = int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return sum(seconds for pid, seconds in spent.items() if _descends(pid, parents))


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid > 1 and pid != os.getpid():
        pid = parents.get(pid, 0)
    return pid == os.getpid()


# -- turns


@dataclass
class Turns:
    """Environment steps by second of each turn."""

    by_clock: list[float] = field(default_factory=list)
    by_processor: list[float] = field(default_factory=list)

    def take(self, steps: int, work: Callable[[], Any]) -> None:
        """One turn."""
        spent, started = processor_time(), time.perf_counter()
        work()
        self.by_clock.append(steps / (time.perf_counter() - started))
        self.by_processor.append(steps / (processor_time() - spent))


def ratio(some: list[float], others: list[float]) -> float:
    """The median of the turns' ratios."""
    return statistics.median(a / b for a, b in zip(some, others, strict=True))


LEFT, FETCHED, BARE = "samples stay", "samples fetched", "bare processes"


def measure(counts: list[int], turns: int, rounds: int) -> dict[tuple[int, str], Turns]:
    remotes = {count: RemoteEvaluators(count, sum(counts)) for count in counts}
    bare = {count: BareProcesses(count) for count in counts}
    work: dict[tuple[int, str], Callable[[], Any]] = {}
    for count in counts:
        work[count, LEFT] = functools.partial(repeated, remotes[count].leave, rounds)
        work[count, BARE] = functools.partial(bare[count].turn, rounds)
        work[count, FETCHED] = functools.partial(repeated, remotes[count].fetch, rounds)
    measured = {key: Turns() for key in work}
    for call in work.values():
        call()
    for _ in range(turns):
        for (count, what), call in work.items():
            measured[count, what].take(rounds * count * NUM_ENVS * FRAGMENT, call)
    for one in (*remotes.values(), *bare.values()):
        one.close()
    return measured


def repeated(call: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        call()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = os.cpu_count() or 1
    powers = [1 << i for i in range(cores.bit_length())]
    parser.add_argument("--evaluators", type=int, nargs="+", default=powers, help="(default: %(default)s)")
    parser.add_argument("--turns", type=int, default=11, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=6, help="samples of each evaluator in a turn (default: %(default)s)")
    options = parser.parse_args()
    measured = measure(options.evaluators, options.turns, options.rounds)
    print(f"{'':>10}{'':<17}{'steps/s':>9}{'best':>9}{'efficiency':>12}{'of bare':>9}{'best':>6}{'by processor time':>19}")
    for (count, what), turns in measured.items():
        bare, first = measured[count, BARE], measured[options.evaluators[0], what]
        line = f"{count:>10} {what:<16}{statistics.median(turns.by_clock):>9,.0f}{max(turns.by_clock):>9,.0f}"
        line += f"{ratio(turns.by_clock, first.by_clock) * options.evaluators[0] / count:>12.2f}"
        if what != BARE:
            line += f"{ratio(turns.by_clock, bare.by_clock):>9.2f}{max(turns.by_clock) / max(bare.by_clock):>6.2f}"
            line += f"{ratio(turns.by_processor, bare.by_processor):>19.2f}"
        print(line)


if __name__ == "__main__":
    main()
