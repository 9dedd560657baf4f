"""Copies in threads and in worker processes: the same batches, the same states, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore.columns import map_columns
from rlcore.env import DEFAULT_GROUP, BatchedEnv, StepBatch
from rlcore.envs import build_env
from rlcore.errors import ConfigError, EnvError, SpaceError
from rlcore.testing.environments import AliasingCountEnv, ArrayRewardEnv, CountEnv, DictCountEnv
from rlcore_gym.parallel import ParallelEnv

KINDS = ("thread", "process")
SLOTS = 5


@pytest.fixture
def build() -> Iterator[Callable[..., Any]]:
    """Builds environments that are closed after the test, and sees that no process is left."""
    made: list[BatchedEnv] = []

    def make(source: Any, num_envs: int = SLOTS, **settings: Any) -> Any:
        made.append(build_env(source, num_envs, {"workers": 2, **settings}))
        return made[-1]

    yield make
    processes = [pid for env in made for pid in pids(env)]
    for env in made:
        env.close()
        env.close()
    assert not [pid for pid in processes if Path(f"/proc/{pid}").exists()]


class Interrupted(CountEnv):
    """Raises what is meant for whoever runs it."""

    def step(self, action: Any) -> Any:
        raise KeyboardInterrupt("pressed by nobody")


def test_a_thread_that_ends_by_an_exception_says_so_at_once(build: Callable[..., Any]) -> None:
    env = build(Interrupted, vectorization="thread")
    env.reset(1)
    step = env.poll(None)[DEFAULT_GROUP]
    env.send({DEFAULT_GROUP: (step.slot, np.zeros(SLOTS, np.int64))})
    with pytest.raises(EnvError, match=r"Interrupted: a worker failed: KeyboardInterrupt: pressed by nobody"):
        env.poll(20.0)


@pytest.fixture(scope="module")
def pool() -> Iterator[Callable[..., Any]]:
    """The same, kept for all tests of this file: starting a process takes longer than most of them."""
    made: dict[Any, BatchedEnv] = {}

    def make(source: Any, kind: str) -> Any:
        if (source, kind) not in made:
            settings = {"vectorization": kind, "workers": 2} | ({"time_limit": 20} if source == "CartPole-v1" else {})
            made[source, kind] = build_env(source, SLOTS, settings)
        return made[source, kind]

    yield make
    for env in made.values():
        env.close()


def pids(env: Any) -> list[int]:
    workers = getattr(env, "_workers", [])
    return [worker._process.pid for worker in workers if hasattr(worker, "_process")]


def copied(step: StepBatch) -> StepBatch:
    return StepBatch(**{name: map_columns(np.array, getattr(step, name)) for name in StepBatch.__slots__})


def roll(env: BatchedEnv, steps: int, seed: int | None = 3, timeout: float | None = 30.0) -> list[StepBatch]:
    """Random actions that follow from the number of the step; copies of what was handed over."""
    if seed is not None:
        env.reset(seed)
    step = env.poll(timeout)[DEFAULT_GROUP]
    seen = [copied(step)]
    space = env.groups[DEFAULT_GROUP][1]
    for time_ in range(steps):
        space.seed(time_)
        actions = np.array([space.sample() for _ in step.slot], space.dtype)
        env.send({DEFAULT_GROUP: (step.slot, actions)})
        step = env.poll(timeout)[DEFAULT_GROUP]
        seen.append(copied(step))
    return seen


def alike(one: list[StepBatch], other: list[StepBatch], same_step: Any) -> bool:
    return len(one) == len(other) and all(map(same_step, one, other))


class Paged(gymnasium.Env[Any, Any]):
    """Nested observations and random numbers, of lengths that differ between episodes."""

    def __init__(self) -> None:
        spaces = gymnasium.spaces
        self.observation_space = spaces.Dict(
            a=spaces.Box(0, 1, (2, 3), np.float64), b=spaces.Tuple([spaces.Discrete(9), spaces.MultiBinary(3)])
        )
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        self.left = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(2, 12))
        return self.observe(), {}

    def observe(self) -> Any:
        rng = self.np_random
        return {"a": rng.random((2, 3)), "b": (rng.integers(9), rng.integers(0, 2, 3, dtype=np.int8))}

    def step(self, action: Any) -> Any:
        self.left -= 1
        reward = float(action.sum() + self.np_random.normal())
        return self.observe(), reward, self.left == 0, bool(self.np_random.random() < 0.1), {}


# Classes of this file cannot be imported elsewhere; those of a script or a notebook travel by value just as these.
import cloudpickle  # noqa: E402

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", ["CartPole-v1", Paged, DictCountEnv], ids=["CartPole", "Paged", "DictCount"])
def test_the_batches_are_those_of_one_process(source: Any, kind: str, pool: Any, same_step: Any) -> None:
    expected = roll(pool(source, "sync"), 60)
    assert sum(int(step.episode_over.sum()) for step in expected) > 9
    assert alike(expected, roll(pool(source, kind), 60), same_step)


@pytest.mark.parametrize("workers", [1, 3, 5])
def test_the_number_of_workers_makes_no_difference(workers: int, build: Any, pool: Any, same_step: Any) -> None:
    expected = roll(pool(Paged, "sync"), 60)
    assert alike(expected, roll(build(Paged, vectorization="thread", workers=workers), 60), same_step)


def test_native_cartpole_gives_the_same_batches_too(build: Any, same_step: Any) -> None:
    settings = {"sutton_barto_reward": True, "max_episode_steps": 21}
    expected = roll(build_env("CartPole-v1", 7, settings), 400)
    assert alike(expected, roll(build_env("CartPole-v1", 7, {**settings, "vectorization": "native"}), 400), same_step)
    assert sum(int(step.truncated.sum()) for step in expected) > 20


@pytest.mark.parametrize(
    ("source", "target"), [("sync", "process"), ("process", "thread"), ("thread", "sync"), ("process", "process")]
)
@pytest.mark.parametrize("env_id", ["CartPole-v1", Paged])
def test_B088_states_go_from_any_kind_to_any_other(
    env_id: Any, source: str, target: str, pool: Any, same_step: Any
) -> None:
    one, other = pool(env_id, source), pool(env_id, target)
    last = roll(one, 37)[-1]
    state = one.get_state()
    unbroken = _after(one, 40)
    assert other.set_state(state) == []
    again = copied(other.poll(None)[DEFAULT_GROUP])
    assert np.array_equal(again.env_step, last.env_step)
    assert np.array_equal(again.first, last.env_step == 0)
    assert not again.reward.any()
    assert alike(_after(other, 40), unbroken, same_step)


def _after(env: BatchedEnv, steps: int) -> list[StepBatch]:
    space, seen = env.groups[DEFAULT_GROUP][1], []
    for time_ in range(steps):
        space.seed(time_)
        actions = np.array([space.sample() for _ in range(env.num_slots)], space.dtype)
        env.send({DEFAULT_GROUP: (np.arange(env.num_slots), actions)})
        step = env.poll(None)[DEFAULT_GROUP]
        seen.append(copied(step))
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_B021_B022_rows_are_not_overwritten(kind: str, pool: Any, play: Any) -> None:
    played = play(pool(AliasingCountEnv, kind), 6)
    assert played.column(0, 3) == [10, 11, 12] * 2
    assert played.column(4, 3) == [11, 12, 13] * 2
    nested = play(pool(DictCountEnv, kind), 3)
    assert [float(row[4]["a"][0]) for row in nested.transitions[2]] == [11, 12, 13]
    assert [float(row[4]["b"][1]) for row in nested.transitions[2]] == [-1, -2, -3]


@pytest.mark.parametrize("kind", ["sync", *KINDS])
def test_B042_rewards_that_are_arrays_of_one_number(kind: str, build: Any, play: Any) -> None:
    assert play(build(ArrayRewardEnv, 2, vectorization=kind), 3).transitions[0][0][1] == 1.0


def test_B056_what_a_worker_process_needs_travels(build: Any) -> None:
    class Local(CountEnv):
        pass

    assert len(roll(build(lambda: Local(4), workers=1, vectorization="process"), 5)) == 6
    lock = threading.Lock()
    env = build(lambda: (lock, Local(4))[1], vectorization="process")
    with pytest.raises(EnvError, match=r"cannot be pickled: TypeError: .*lock"):
        env.reset(0)


def test_B057_ids_that_the_script_registers_are_there_in_workers(build: Any) -> None:
    class Local(CountEnv):
        pass

    gymnasium.register("Local-v0", Local, max_episode_steps=2)
    steps = roll(build("Local-v0", workers=1, vectorization="process"), 2)
    assert steps[-1].truncated.all()


@pytest.mark.parametrize("kind", KINDS)
def test_B041_B060_B062_waiting_has_a_bound_and_nothing_is_lost(kind: str, build: Any) -> None:
    class Slow(CountEnv):
        def step(self, action: Any) -> Any:
            time.sleep(0.15)
            return super().step(action)

    env = build(Slow, 2, vectorization=kind)
    env.reset(0)
    env.reset(0)
    step = env.poll(None)[DEFAULT_GROUP]
    with pytest.raises(TimeoutError, match="2 slots wait for actions"):
        env.poll(0.01)
    with pytest.raises(ValueError, match="actions for 1 slots, but 2 wait for one"):
        env.send({DEFAULT_GROUP: (step.slot[:1], np.zeros(1, np.int64))})
    env.send({DEFAULT_GROUP: (step.slot, np.zeros(2, np.int64))})
    with pytest.raises(TimeoutError):
        env.poll(0.01)
    with pytest.raises(RuntimeError, match="after poll"):
        env.get_state()
    assert np.asarray(env.poll(None)[DEFAULT_GROUP].obs).ravel().tolist() == [11, 11]
    # A reset while a step is under way waits for it.
    env.send({DEFAULT_GROUP: (step.slot, np.zeros(2, np.int64))})
    env.reset(0)
    assert np.asarray(env.poll(None)[DEFAULT_GROUP].obs).ravel().tolist() == [10, 10]


@pytest.mark.parametrize("kind", KINDS)
def test_faults_of_spaces_and_streams_are_found(kind: str, build: Any) -> None:
    class Fixed(CountEnv):
        def __init__(self) -> None:
            super().__init__()
            self.dice = np.random.default_rng(0)

        def observe(self) -> Any:
            return np.full(1, self.dice.random(), np.float32)

    with pytest.raises(EnvError, match="all 5 copies start from the same observation"):
        build(Fixed, vectorization=kind).reset(0)

    class Growing(CountEnv):
        made = 0

        def __init__(self) -> None:
            super().__init__()
            path = os.environ["RLCORE_TEST_COUNTER"]
            with open(path, "a") as file:
                file.write(".")
            self.action_space = gymnasium.spaces.Discrete(1 + os.path.getsize(path))

    with pytest.raises(SpaceError, match=r"action space of copy \d is Discrete\(\d\), that of copy 0 is Discrete\(2\)"):
        build(Growing, vectorization=kind).reset(0)


@pytest.fixture(autouse=True)
def _counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLCORE_TEST_COUNTER", str(tmp_path / "counter"))


def test_settings_that_have_no_effect_are_refused(build: Any) -> None:
    with pytest.raises(ConfigError, match="makes all its copies by itself"):
        build_env(lambda num_envs=1, **rest: gymnasium.vector.SyncVectorEnv([CountEnv]), 1, {"other": 1}).close()
        build_env(lambda: gymnasium.vector.SyncVectorEnv([CountEnv]), 1, {"vectorization": "process"})
    with pytest.raises(ConfigError, match="has no native implementation"):
        build(CountEnv, vectorization="native")


def test_a_callable_gets_the_settings_that_it_names(build: Any) -> None:
    class Crowd(CountEnv):
        def __init__(self, workers: int) -> None:
            super().__init__(workers)

    assert isinstance(build(Crowd, vectorization="thread", workers=7), ParallelEnv)
    assert roll(build(Crowd, workers=2), 2)[-1].terminated.all()


def test_rendering_in_workers(build: Any) -> None:
    class Drawn(CountEnv):
        render_mode = "rgb_array"
        metadata = {"render_modes": ["rgb_array"], "render_fps": 12}

        def render(self) -> Any:
            return np.full((2, 3, 3), self.t, np.uint8)

    for kind in KINDS:
        env = build(Drawn, 3, vectorization=kind)
        with pytest.raises(EnvError, match="after reset"):
            env.render(0)
        roll(env, 2)
        assert (env.render(2).shape, int(env.render(1).max()), env.frames_per_second) == ((2, 3, 3), 2, 12.0)


SCRIPT = """
import os, sys, time
import numpy as np
from rlcore.envs import build_env
from rlcore.testing.environments import CountEnv

class Mine(CountEnv):
    def step(self, action):
        print("noise")
        {body}
        return super().step(action)

env = build_env(Mine, 4, {{"vectorization": "process", "workers": 2}})
env.reset(0)
step = env.poll(None)["default"]
print(*[worker._process.pid for worker in env._workers], flush=True)
while True:
    env.send({{"default": (step.slot, np.zeros(4, np.int64))}})
    step = env.poll(None)["default"]
    {after}
"""


def _script(tmp_path: Path, body: str = "pass", after: str = "pass") -> subprocess.Popen[str]:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(body=body, after=after))
    return subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _gone(pid: int, seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, None], ids=["ctrl-c", "killed", "ended"])
def test_no_worker_outlives_a_script_and_none_prints_to_its_output(tmp_path: Path, how: Any) -> None:
    """The script has no ``if __name__ == "__main__"``, and does not close its environment."""
    hangs = "time.sleep(3600)" if how is signal.SIGKILL else "pass"
    script = _script(tmp_path, hangs, "break" if how is None else "pass")
    assert script.stdout is not None
    workers = [int(pid) for pid in script.stdout.readline().split()]
    assert len(workers) == 2
    if how is not None:
        time.sleep(0.2)
        script.send_signal(how)
    out, err = script.communicate(timeout=30)
    assert out == ""
    assert all(map(_gone, workers))
    if how is signal.SIGINT:
        # Workers may still finish their step, and print, while the script ends.
        assert "\nKeyboardInterrupt\n" in err
        assert err.count("Traceback") == 1
