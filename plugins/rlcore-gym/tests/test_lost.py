"""Environments that raise, hang, or take their worker with them: what is said, what begins anew, what is kept."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

from rlcore import restarts
from rlcore.env import DEFAULT_GROUP
from rlcore.envs import build_env
from rlcore.errors import EnvError
from rlcore.testing.environments import CountEnv

KINDS = ("sync", "thread", "process")

# Classes of this file cannot be imported elsewhere; those of a script or a notebook travel by value just as these.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Builds environments of four slots and two workers, without pauses where these are in this process."""
    monkeypatch.setattr(restarts, "PAUSE", 0.01)
    made: list[Any] = []

    def make(source: Any, num_envs: int = 4, **settings: Any) -> Any:
        own = {"workers": 2, "on_failure": "restart"} | settings
        made.append(build_env(source, num_envs, {"folder": str(tmp_path)} | own))
        return made[-1]

    yield make
    for env in made:
        env.close()


class Moody(CountEnv):
    """Ten steps; has a fault in step ``step`` of slot 2, the first ``times`` times that it gets there.

    It knows its slot by its seed, and the past by a file.
    """

    def __init__(self, folder: str, fault: str = "raise", step: int = 5, times: int = 1) -> None:
        super().__init__(10)
        self.path = Path(folder) / "faults"
        self.fault, self.step_, self.times = fault, step, times
        self.mine = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            from rlcore_gym.seeds import Follow, following_seed, slot_seeds

            own = slot_seeds(3, 3)[2]
            self.mine = False
            for _ in range(6):
                self.mine |= seed == own
                own = following_seed(own, Follow.RESTART)
        if self.mine and self.step_ == 0:
            self.strike()
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        if self.mine and self.t + 1 == self.step_:
            self.strike()
        return super().step(action)

    def strike(self) -> None:
        so_far = self.path.read_text() if self.path.exists() else ""
        if len(so_far) >= self.times:
            return
        self.path.write_text(so_far + ".")
        match self.fault:
            case "raise":
                raise ValueError(f"boom {len(so_far)}")
            case "hang":
                time.sleep(3600)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                os._exit(3)


def go_on(env: Any, steps: int) -> list[tuple[list[float], list[bool], list[bool]]]:
    """Observations, ``first`` and ``episode_over`` after each step."""
    seen = []
    for _ in range(steps):
        env.send({DEFAULT_GROUP: (np.arange(env.num_slots), np.zeros(env.num_slots, np.int64))})
        step = env.poll(None)[DEFAULT_GROUP]
        seen.append((np.asarray(step.obs).ravel().tolist(), step.first.tolist(), step.episode_over.tolist()))
    return seen


def begin(env: Any) -> Any:
    env.reset(3)
    env.poll(None)
    return env


RAISED = r"(?s)slot 2, step 5: step\(\) raised ValueError: boom 0\n  File "
WORKER = r"slot 2, step 5: worker 1, process \d+ \(slots 2 to 3\) "
LATE = r"did not come back for 0.\d+ s \(step_timeout: 0.3\)"


@pytest.mark.parametrize(
    ("kind", "fault", "said"),
    [
        ("sync", "raise", RAISED),
        ("thread", "raise", RAISED + r".*\(in worker 1, a thread\)"),
        ("process", "raise", RAISED + r".*\(in worker 1, process \d+\)"),
        ("thread", "hang", r"slot 2, step 5: worker 1, a thread \(slots 2 to 3\) " + LATE),
        ("process", "hang", WORKER + LATE),
        ("process", "kill", WORKER + "was killed by SIGKILL"),
        ("process", "exit", WORKER + "ended with exit code 3"),
    ],
)
def test_B046_B051_what_happened_where_and_when(kind: str, fault: str, said: str, build: Any) -> None:
    env = begin(build(Moody, vectorization=kind, fault=fault, step_timeout=0.3, on_failure="raise"))
    go_on(env, 4)
    with pytest.raises(EnvError, match=said) as caught:
        go_on(env, 1)
    if fault == "raise":
        trace = str(caught.value.__cause__)
        assert "boom 0" in trace
        assert kind == "sync" or ", in strike" in trace
    # It can be used again, from a reset on.
    with pytest.raises(RuntimeError, match=r"reset\(\) has to come first"):
        env.poll(None)
    begin(env)
    assert go_on(env, 6)[-1][0] == [16, 16, 16, 16]


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("sync", "raise"),
        ("thread", "raise"),
        ("process", "raise"),
        ("thread", "hang"),
        ("process", "hang"),
        ("process", "kill"),
    ],
)
def test_B049_what_failed_begins_anew_and_the_others_go_on(
    kind: str, fault: str, build: Any, caplog: pytest.LogCaptureFixture
) -> None:
    env = begin(build(Moody, vectorization=kind, fault=fault, step_timeout=0.3))
    steps = go_on(env, 10)
    assert steps[3] == ([14, 14, 14, 14], [False] * 4, [False] * 4)
    # With a worker all its slots are lost, with an exception the one that raised.
    lost = [False, False, True, fault != "raise"]
    assert steps[4] == ([10 if own else 15 for own in lost], lost, [False] * 4)
    assert steps[9][2] == [not own for own in lost]
    assert "slot 2, step 5: " in caplog.text
    assert "anew" in caplog.text
    # The next episode of what was lost ends, and a state is exact again.
    rest = go_on(env, 5)
    assert rest[4][2] == lost
    state = env.get_state()
    assert env.set_state(state) == []


@pytest.mark.parametrize(("kind", "fault"), [("sync", "raise"), ("process", "raise"), ("process", "kill")])
def test_B047_restarts_have_a_bound_and_the_first_error_is_told(
    kind: str, fault: str, build: Any, tmp_path: Path
) -> None:
    env = begin(build(Moody, vectorization=kind, fault=fault, times=99))
    first = "boom 0" if fault == "raise" else "SIGKILL"
    with pytest.raises(EnvError, match=rf"(?s)step 5: .*{first}.*began anew 3 times and failed again"):
        go_on(env, 40)
    assert (tmp_path / "faults").read_text() == "...."


@pytest.mark.parametrize("kind", ["sync", "process"])
def test_B047_an_environment_that_can_never_be_reset(kind: str, build: Any) -> None:
    env = build(Moody, vectorization=kind, step=0, times=99)
    with pytest.raises(EnvError, match=r"(?s)step 0: reset\(seed=...\) raised ValueError: boom 0.*began anew 3 times"):
        env.reset(3)


def test_an_episode_that_ends_makes_up_for_failures(build: Any) -> None:
    class Rare(CountEnv):
        def __init__(self, folder: str) -> None:
            super().__init__(3)
            self.path = Path(folder) / "steps"

        def step(self, action: Any) -> Any:
            count = len(self.path.read_text()) if self.path.exists() else 0
            self.path.write_text("." * (count + 1))
            if count % 7 == 6:
                raise ValueError("now and then")
            return super().step(action)

    env = begin(build(Rare, 1))
    assert len(go_on(env, 70)) == 70


def test_B040_B051_a_worker_that_is_killed_while_nothing_is_asked_of_it(build: Any) -> None:
    env = begin(build(CountEnvOf, vectorization="process"))
    go_on(env, 4)
    env._workers[0]._process.kill()
    state = env.get_state()
    assert go_on(env, 1) == [([10, 10, 15, 15], [True, True, False, False], [False] * 4)]
    other = build(CountEnvOf, vectorization="sync")
    assert other.set_state(state) == [0, 1]
    assert np.asarray(other.poll(None)[DEFAULT_GROUP].obs).ravel().tolist() == [10, 10, 14, 14]


class CountEnvOf(CountEnv):
    def __init__(self, folder: str) -> None:
        super().__init__(10)


def test_a_replacement_that_cannot_be_built(build: Any) -> None:
    class Once(CountEnv):
        def __init__(self, folder: str) -> None:
            super().__init__(10)
            path = Path(folder) / "built"
            count = len(path.read_text()) if path.exists() else 0
            path.write_text("." * (count + 1))
            if count >= 2:  # one to look at, one to use
                raise OSError("no more licences")

        def step(self, action: Any) -> Any:
            os._exit(1)

    env = begin(build(Once, 1, vectorization="process"))
    with pytest.raises(EnvError, match=r"(?s)ended with exit code 1.*began anew 3 times"):
        go_on(env, 1)
