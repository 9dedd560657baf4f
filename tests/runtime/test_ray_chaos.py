"""PPO learns CartPole on Ray while an evaluator is killed every few seconds."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore.resolve import resolve
from rlcore.trainer import Trainer

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_torch")
pytest.importorskip("rlcore_gym")

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("local_ray")]

KILLS = 20
#: Seconds between two kills, drawn anew each time.
PAUSE_S = (2.0, 4.0)
#: Rows of a round: two evaluators, eight environments, so many steps.
FRAGMENT = 32
ROWS = 2 * 8 * FRAGMENT

#: Seconds that a step takes more: 20 kills are to fit in before the policy is learnt, or soon after.
STEP_S = 0.001

#: Bytes by which memory may grow between the second and the last quarter of the run, both averaged.
FLAT = 16 << 20


def own_memory(pid: int) -> int:
    """Bytes of a process that no other one shares; 0 where it is gone."""
    try:
        lines = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    except OSError:
        return 0
    return sum(int(line[1]) << 10 for line in lines if line[0] in ("Private_Clean:", "Private_Dirty:"))


class Killer:
    """Kills an evaluator at a random moment, again and again, from a thread of its own.

    A pause passes between two kills, and at least three iterations: one that is lost three times without two samples in
    between ends the run, rightly.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._random = random.Random(1)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live)
        self.iterations = 0
        self.killed: list[int] = []

    def evaluators(self) -> list[int]:
        """The processes that have environments, but for this one."""
        pids = [int(path.name.partition("-")[2]) for path in self._folder.iterdir()]
        return [pid for pid in pids if pid != os.getpid() and own_memory(pid)]

    def _live(self) -> None:
        while not self._over.wait(self._random.uniform(*PAUSE_S)):
            due = self.iterations + 3
            while self.iterations < due and not self._over.wait(0.01):
                pass
            alive = self.evaluators()
            if alive and not self._over.is_set():
                victim = self._random.choice(alive)
                os.kill(victim, signal.SIGKILL)
                self.killed.append(victim)

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *given: object) -> None:
        self._over.set()
        self._thread.join()


class Counting:
    """Follows each episode through the batches that are learnt from: no row twice, none out of its order."""

    def __init__(self, trainer: Trainer) -> None:
        (optimizer,) = trainer.optimizers
        self.rows = 0
        self._next: dict[int, int] = {}
        self._pin = optimizer.learner.pin  # type: ignore[attr-defined]
        optimizer.learner.pin = self.pin  # type: ignore[attr-defined]

    def pin(self, batch: Any) -> Any:
        own = batch["default"]
        self.rows += len(own)
        begin, length = own.cuts["start"], own.cuts["length"]
        for eps_id, start, end in zip(own.cuts["eps_id"].tolist(), begin, begin + length, strict=True):
            t = own["t"][start:end]
            assert t[0] == self._next.get(eps_id, 0) and np.array_equal(t, np.arange(t[0], t[0] + len(t)))
            self._next[eps_id] = int(t[-1]) + 1
        return self._pin(batch)


class Lost:
    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []

    def worker_lost(self, index: int, cause: str) -> None:
        self.told.append((index, cause))


def grown(samples: list[int]) -> int:
    """How much more the last quarter has than the second: the first is that of starting."""
    quarter = len(samples) // 4
    return int(np.mean(samples[-quarter:]) - np.mean(samples[quarter : 2 * quarter]))


@pytest.mark.learning
def test_ppo_learns_cartpole_while_evaluators_are_killed(tmp_path: Path) -> None:
    like = resolve({"algorithm": "ppo", "framework": "torch", "env": "CartPole-v1"}).config
    config = {
        "algorithm": "ppo",
        "framework": "torch",
        "env": "support.doomed_env:KnownCartPole",
        "env_settings": {"folder": str(tmp_path), "step_s": STEP_S},
        "seed": 1,
        "policy": like.policy,
        "optimizer": {"name": like.optimizer.name, **like.optimizer.settings},
        "evaluators": {"count": 2, "envs": 8, "fragment": FRAGMENT},
        "runtime": "ray",
    }
    lost = Lost()
    driver, workers, store = [], [], []
    import ray

    with Trainer(config, hooks=[lost]) as trainer, Killer(tmp_path) as killer:
        counting = Counting(trainer)
        started, learnt = time.monotonic(), False
        while not (learnt and len(killer.killed) >= KILLS):
            row = trainer.step()
            killer.iterations += 1
            assert row["env_steps"] == killer.iterations * ROWS == counting.rows
            assert row["missing_samples"] == 0
            learnt = row["episodes"] >= 100 and row["episode_return_mean"] >= 475
            driver.append(own_memory(os.getpid()))
            workers.append(max(map(own_memory, killer.evaluators()), default=0))
            used = ray.cluster_resources()["object_store_memory"] - ray.available_resources()["object_store_memory"]
            store.append(int(used))
            assert row["env_steps"] < 400_000, f"{row['episode_return_mean']} after {len(killer.killed)} kills"
        seconds = time.monotonic() - started
        trainer.step()
    assert len(lost.told) >= KILLS and {index for index, _ in lost.told} == {0, 1}
    figures = {name: grown(own) for name, own in (("driver", driver), ("workers", workers), ("store", store))}
    print(f"{len(killer.killed)} kills in {seconds:.0f} s, {row['env_steps']} steps, {row['episode_return_mean']:.1f}")
    for name, own in (("driver", driver), ("workers", workers), ("store", store)):
        print(name, [value >> 10 for value in own[:: max(1, len(own) // 12)]], "KiB, grown", figures[name] >> 10)
    assert all(value < FLAT for value in figures.values()), figures
