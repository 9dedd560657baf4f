"""Sampling through remote evaluators, beside as many bare processes with the same environments and network.

    python benchmarks/remote_sampling.py [--evaluators 1 2 4]

An evaluator is an actor on Ray with CartPoles and the two networks of PPO; the driver asks all for a sample, round by
round, as optimizers do: once it leaves the samples where they are, once it fetches them and broadcasts the weights, as
``multi_gpu`` does. A bare process has the same CartPoles in Gymnasium's vector environment, as ``gymnasium.make_vec``
makes it, and networks of the same sizes in numpy; it computes and stores the columns that the evaluators' samples have,
and exchanges nothing. Contestants take turns of as many rounds. Given are environment steps by second, medians over the
turns and the best turns, and by second of processor time, with all that is spent in the driver and by Ray: where a
machine has other work, that is what can be compared.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
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
NUM_ENVS, HIDDEN = 64, (64, 64)
ENV_ID, GAMMA, LAMBDA = "CartPole-v1", 0.99, 0.95


#: Of whom processor time is told.
ALL, WORKERS = "all", "workers"


# -- bare processes


class Networks:
    """Two tanh networks and a draw, in numpy: the least that acting and its values take."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.policy, self.value = self._layers(2), self._layers(1)

    def _layers(self, outputs: int) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        sizes = [4, *HIDDEN, outputs]
        shapes = itertools.pairwise(sizes)
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

    def __init__(self, seed: int, fragment: int) -> None:
        self.fragment = fragment
        mode = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
        self.envs = gymnasium.make_vec(ENV_ID, NUM_ENVS, vectorization_mode="sync", vector_kwargs=mode)
        self.networks = Networks(seed)
        self.obs, _ = self.envs.reset(seed=seed)

    def sample(self) -> dict[str, Any]:
        """A fragment of steps of every environment."""
        shape = (self.fragment, NUM_ENVS)
        columns: dict[str, Any] = {
            "obs": np.empty((*shape, 4), np.float32),
            "actions": np.empty(shape, np.int64),
            "action_logp": np.empty(shape, np.float32),
            "rewards": np.empty(shape, np.float32),
            "terminated": np.empty(shape, np.bool_),
            "truncated": np.empty(shape, np.bool_),
        }
        after = np.empty((*shape, 4), np.float32)
        for step in range(self.fragment):
            actions, logp = self.networks.act(self.obs)
            columns["obs"][step], columns["actions"][step], columns["action_logp"][step] = self.obs, actions, logp
            self.obs, reward, terminated, truncated, info = self.envs.step(actions)
            columns["rewards"][step] = reward
            columns["terminated"][step], columns["truncated"][step] = terminated, truncated
            after[step] = self.obs
            if "final_obs" in info:
                for slot in np.flatnonzero(terminated | truncated):
                    after[step, slot] = info["final_obs"][slot]
        return {**columns, **self._advantages(columns, after)}

    def _advantages(self, columns: dict[str, Any], after: NDArray[np.float32]) -> dict[str, Any]:
        """Values of all steps at once, and GAE from the last step to the first."""
        values = self.networks.values(columns["obs"].reshape(-1, 4)).reshape(self.fragment, NUM_ENVS)
        ended = columns["terminated"] | columns["truncated"]
        successors = np.empty_like(values)
        successors[:-1] = values[1:]
        # Where a piece ends it is not the next row that follows.
        last = ended.copy()
        last[-1] = True
        successors[last] = self.networks.values(after[last])
        deltas = columns["rewards"] + GAMMA * np.where(columns["terminated"], 0.0, successors) - values
        advantages, running = np.empty_like(values), np.zeros(NUM_ENVS, np.float32)
        for step in reversed(range(self.fragment)):
            running = deltas[step] + GAMMA * LAMBDA * np.where(ended[step], 0.0, running)
            advantages[step] = running
        return {"vf_preds": values, "advantages": advantages, "value_targets": advantages + values}


def serve_bare(pipe: Connection, seed: int, fragment: int) -> None:
    """In its process: samples as often as it is told to, and answers with the processor time of that."""
    loop = BareLoop(seed, fragment)
    for rounds in iter(pipe.recv, 0):
        before = time.process_time()
        for _ in range(rounds):
            loop.sample()
        pipe.send(time.process_time() - before)


class BareProcesses:
    """So many of them; they start a turn together."""

    def __init__(self, count: int, fragment: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes, self._processes = [], []
        for seed in range(count):
            here, there = context.Pipe()
            process = context.Process(target=serve_bare, args=(there, seed, fragment), daemon=True)
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

    def __init__(self, count: int, fragment: int, cpus: int) -> None:
        self._steps = count * NUM_ENVS * fragment
        settings = {
            "algorithm": "ppo",
            "env": ENV_ID,
            "model": {"hidden": list(HIDDEN)},
            "evaluators": {"count": count, "envs": NUM_ENVS, "fragment": fragment},
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
        assert batch.env_steps == self._steps
        evaluators.broadcast(self._weights, {policy_id: self._progress for policy_id in self._weights})
        evaluators.metrics()

    def close(self) -> None:
        self._parts.close()


def processor_time() -> dict[str, float]:
    """Seconds of this process and of all that it has started, Ray's own among them, while they live: of all together,
    and of the workers on Ray alone.
    """
    spent: dict[int, float] = {}
    parents: dict[int, int] = {}
    workers: set[int] = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid, fields = int(stat.parent.name), rest.split()
        parents[pid], spent[pid] = int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        if name.startswith("ray::Worker"):
            workers.add(pid)
    ours = {pid for pid in spent if _descends(pid, parents)}
    return {ALL: sum(spent[pid] for pid in ours), WORKERS: sum(spent[pid] for pid in ours & workers)}


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid > 1 and pid != os.getpid():
        pid = parents.get(pid, 0)
    return pid == os.getpid()


# -- turns


@dataclass
class Turns:
    """Environment steps by second of each turn: of the clock, of processor time, and of that of workers on Ray."""

    by_clock: list[float] = field(default_factory=list)
    by_processor: list[float] = field(default_factory=list)
    by_workers: list[float] = field(default_factory=list)

    def take(self, steps: int, work: Callable[[], Any]) -> None:
        """One turn."""
        before, started = processor_time(), time.perf_counter()
        work()
        self.by_clock.append(steps / (time.perf_counter() - started))
        spent = {name: seconds - before[name] for name, seconds in processor_time().items()}
        self.by_processor.append(steps / spent[ALL])
        self.by_workers.append(steps / max(spent[WORKERS], 1e-9))


def ratio(some: list[float], others: list[float]) -> float:
    """The median of the turns' ratios."""
    return statistics.median(a / b for a, b in zip(some, others, strict=True))


LEFT, FETCHED, BARE = "samples stay", "samples fetched", "bare processes"


def measure(options: argparse.Namespace) -> dict[tuple[int, str], Turns]:
    """By how many and what."""
    work: dict[tuple[int, str], Callable[[], Any]] = {}
    with contextlib.ExitStack() as started:
        for count in options.evaluators:
            remote = RemoteEvaluators(count, options.fragment, sum(options.evaluators))
            started.callback(remote.close)
            bare = BareProcesses(count, options.fragment)
            started.callback(bare.close)
            work[count, LEFT] = functools.partial(repeated, remote.leave, options.rounds)
            work[count, BARE] = functools.partial(bare.turn, options.rounds)
            work[count, FETCHED] = functools.partial(repeated, remote.fetch, options.rounds)
        measured = {key: Turns() for key in work}
        for call in work.values():
            call()
        for _ in range(options.turns):
            for (count, what), call in work.items():
                measured[count, what].take(options.rounds * count * NUM_ENVS * options.fragment, call)
    return measured


def repeated(call: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        call()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = os.cpu_count() or 1
    powers = [1 << i for i in range(cores.bit_length())]
    parser.add_argument("--evaluators", type=int, nargs="+", default=powers, help="(default: %(default)s)")
    parser.add_argument("--fragment", type=int, default=256, help="steps of each environment (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=11, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=4, help="samples of each in a turn (default: %(default)s)")
    options = parser.parse_args()
    measured = measure(options)
    print(f"{'':28}steps/s by the clock              by processor     of bare processes: clock  processor")
    print(f"{'':28}   median      best  efficiency        median     median  best   all  workers")
    for (count, what), turns in measured.items():
        bare, first = measured[count, BARE], measured[options.evaluators[0], what]
        line = f"{count:>3} x {NUM_ENVS:<4} {what:<17}{statistics.median(turns.by_clock):>9,.0f}"
        line += f"{max(turns.by_clock):>10,.0f}"
        line += f"{ratio(turns.by_clock, first.by_clock) * options.evaluators[0] / count:>12.2f}"
        line += f"{statistics.median(turns.by_processor):>14,.0f}"
        if what != BARE:
            line += f"{ratio(turns.by_clock, bare.by_clock):>11.2f}"
            line += f"{max(turns.by_clock) / max(bare.by_clock):>6.2f}"
            line += f"{ratio(turns.by_processor, bare.by_processor):>6.2f}"
            line += f"{ratio(turns.by_workers, bare.by_processor):>9.2f}"
        print(line)


if __name__ == "__main__":
    main()
