"""What simulators and pools hand over that is ruled out: one error that names the environment, whatever the source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

import rlcore
from rlcore.columns import Columns
from rlcore.env import DEFAULT_GROUP, BatchedEnv
from rlcore.errors import BadValueError, EnvError
from rlcore.sampling.collect import Fragment
from rlcore.testing.linear import LinearPG
from rlcore_batched import Outcome, Simulator, SimulatorEnv, SimulatorSettings
from rlcore_batched.duel_env import DuelEnv
from rlcore_batched.envpool_env import LockstepEnvPool, ReadyEnvPool
from rlcore_batched.envpool_reading import Reading
from rlcore_batched.noise import Bits
from rlcore_batched.simulator import State

SLOTS, STEP = 3, 4
BOX = gymnasium.spaces.Box(-1e30, 1e30, (2,), np.float32)
SPACES = BOX, gymnasium.spaces.Discrete(2)

#: What a step of three copies gives for good: observations, rewards, endings.
Given = tuple[Any, Any, Any]
GOOD: Given = (np.zeros((SLOTS, 2), np.float32), np.ones(SLOTS, np.float32), np.zeros(SLOTS, np.bool_))


def instead(place: int, value: Any) -> Given:
    parts = list(GOOD)
    parts[place] = value
    return parts[0], parts[1], parts[2]


def spoilt(array: Any, value: float) -> Any:
    wrong = np.array(array, np.float64)
    wrong[1, ...] = value
    return wrong


class Broken(Simulator[SimulatorSettings]):
    """Three copies that see zeros and earn 1, and in their fourth step hand over something else."""

    observation_space, action_space = SPACES

    def __init__(self, wrong: Given) -> None:
        super().__init__(SimulatorSettings())
        self.wrong = wrong

    def start(self, seeds: Bits) -> State:
        return {"t": np.zeros(len(seeds), np.int64)}

    def given(self, state: State) -> Given:
        return self.wrong if state["t"][0] == STEP else GOOD

    def step(self, state: State, actions: Any) -> Outcome:
        after = {"t": state["t"] + 1}
        return Outcome(after, *self.given(after)[1:])

    def observe(self, state: State) -> Columns:
        seen: Columns = self.given(state)[0]
        return seen

    def terminal(self, state: State) -> Any:
        return np.zeros(len(state["t"]), np.bool_)

    def draw(self, state: State) -> Any:
        return np.zeros((1, 1, 3), np.uint8)


class Pool:
    """What EnvPool gives, from a list of answers without EnvPool: all copies, in order."""

    def __init__(self, wrong: Given) -> None:
        self.wrong = wrong
        self.t = 0

    def async_reset(self) -> None:
        self.t = 0

    def send(self, actions: Any, slots: Any) -> None:
        self.t += 1

    def recv(self) -> Any:
        obs, rewards, terminated = self.wrong if self.t == STEP else GOOD
        return obs, rewards, terminated, np.zeros(SLOTS, np.bool_), {"env_id": np.arange(SLOTS)}


def simulator(wrong: Given) -> BatchedEnv:
    return SimulatorEnv(Broken(wrong), SLOTS, "mine")


def lockstep_pool(wrong: Given) -> BatchedEnv:
    return LockstepEnvPool(lambda seeds: Pool(wrong), SPACES, SLOTS, "mine", Reading())


def ready_pool(wrong: Given) -> BatchedEnv:
    return ReadyEnvPool(lambda seeds: Pool(wrong), SPACES, SLOTS, "mine", Reading(), SLOTS)


Make = Callable[[Given], BatchedEnv]
SOURCES = pytest.mark.parametrize("make", [simulator, lockstep_pool, ready_pool])


def play(env: BatchedEnv) -> None:
    env.reset(0)
    for _ in range(STEP + 1):
        step = env.poll(None)[DEFAULT_GROUP]
        env.send({DEFAULT_GROUP: (step.slot, np.zeros(len(step.slot), np.int64))})


NAN = rf"^mine, slot 1, step {STEP} of its episode: the reward is not finite: "


@SOURCES
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (instead(1, spoilt(GOOD[1], np.nan)), NAN + "nan$"),
        (instead(1, spoilt(GOOD[1], -np.inf)), NAN + "-inf$"),
        (instead(1, spoilt(GOOD[1], 1e39)), NAN + r"1e\+39, too large for float32$"),
        (instead(1, np.ones(2)), r"^mine: the rewards are of shape \(2,\), expected \(3,\)$"),
        (instead(1, np.ones((3, 1))), r"^mine: the rewards are of shape \(3, 1\), expected \(3,\)$"),
        (instead(1, np.array(["a", "b", "c"])), "^mine: the rewards hold <U1 values, and are numbers$"),
        (instead(0, np.zeros((3, 3), np.float32)), r"^mine: the observation is of shape \(3, 3\), expected \(3, 2\)$"),
        (instead(0, np.zeros((3, 2), np.complex64)), "^mine: the observation holds complex64 values, .* float32$"),
        (instead(0, np.full((3, 2), 1e39)), "^mine: the observation holds float64 values, its space says float32$"),
        (instead(0, {"a": GOOD[0]}), "^mine: the observation has the parts 'a', its space has ''$"),
        (instead(2, np.zeros(2, np.bool_)), r"^mine: terminated is bool of shape \(2,\), expected .* \(3,\)$"),
        (instead(2, np.full(3, np.nan)), "^mine: terminated is float64 of shape"),
    ],
)
def test_B103_B115_bad_values_are_named_at_once(make: Make, wrong: Given, message: str) -> None:
    with pytest.raises(BadValueError, match=message) as caught:
        play(make(wrong))
    assert "\n" not in str(caught.value)


@SOURCES
def test_B103_what_is_not_finite_is_no_observation(make: Make) -> None:
    """The sampler says where, for every source alike."""
    for value, where in ((np.nan, "is not finite"), (2e30, "is outside its space")):
        wrong = instead(0, spoilt(GOOD[0], value))

        def made(num_envs: int, wrong: Given = wrong) -> BatchedEnv:
            return make(wrong)

        evaluator = rlcore.PolicyEvaluator(
            env=made, graph=LinearPG, num_envs=SLOTS, collect=Fragment(STEP + 2), rng=0
        )
        with pytest.raises(BadValueError, match=rf"slot 1, step {STEP} of its episode: 'obs' {where}"):
            evaluator.sample()


@SOURCES
def test_types_that_fit_are_converted(make: Make) -> None:
    """Integers as rewards and flags, float64 observations."""
    env = make((np.full((SLOTS, 2), 0.5), np.array([1, 2, 3]), np.zeros(SLOTS, np.int8)))
    env.reset(0)
    for _ in range(STEP):
        step = env.poll(None)[DEFAULT_GROUP]
        env.send({DEFAULT_GROUP: (step.slot, np.zeros(SLOTS, np.int64))})
    step = env.poll(None)[DEFAULT_GROUP]
    assert isinstance(step.obs, np.ndarray)
    assert (step.obs.dtype, step.reward.dtype, step.terminated.dtype) == (np.float32, np.float32, np.bool_)
    assert step.reward.tolist() == [1.0, 2.0, 3.0]
    assert (step.obs == 0.5).all()


def test_a_step_without_three_parts() -> None:
    class Two(Broken):
        def step(self, state: State, actions: Any) -> Any:
            return state, GOOD[1]

    with pytest.raises(BadValueError, match=r"^mine: step\(\) returned a tuple, not an Outcome of three parts"):
        play(SimulatorEnv(Two(GOOD), SLOTS, "mine"))


@pytest.mark.parametrize("call", ["start", "step", "observe"])
def test_B046_what_a_simulator_raises_names_it(call: str) -> None:
    def fails(self: Any, *arguments: Any) -> Any:
        raise ValueError("boom")

    failing = type("Failing", (Broken,), {call: fails})
    with pytest.raises(EnvError, match=rf"^mine: {call}\(\) raised ValueError: boom$") as caught:
        play(SimulatorEnv(failing(GOOD), SLOTS, "mine"))
    assert isinstance(caught.value.__cause__, ValueError)


def test_what_a_pool_raises_names_it() -> None:
    class Failing(Pool):
        def recv(self) -> Any:
            raise RuntimeError("boom")

    env = LockstepEnvPool(lambda seeds: Failing(GOOD), SPACES, SLOTS, "mine", Reading())
    env.reset(0)
    for timeout in (None, 5.0):
        with pytest.raises(EnvError, match=r"^mine: recv\(\) of the pool raised RuntimeError: boom$"):
            env.poll(timeout)


class Duellists(Broken):
    """The same for two players."""

    def step(self, state: State, actions: Any) -> Outcome:
        after = {"t": state["t"] + 1}
        _, rewards, terminated = self.given(after)
        return Outcome(after, np.stack([np.ones_like(rewards), rewards], 1), terminated)

    def view(self, state: State, players: Any) -> Any:
        return self.given(state)[0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (instead(1, spoilt(GOOD[1], np.nan)), NAN + "nan$"),
        (instead(1, np.ones(2)), r"^mine: the rewards are of shape \(2, 2\), expected \(3, 2\)$"),
        (instead(0, np.zeros((3, 3), np.float32)), r"^mine: the observation is of shape \(3, 3\), expected \(3, 2\)$"),
        (instead(2, np.zeros(2, np.bool_)), r"^mine: terminated is bool of shape \(2,\)"),
    ],
)
def test_bad_values_of_games_for_two(wrong: Given, message: str) -> None:
    env = DuelEnv(Duellists(wrong), SLOTS, "mine")
    with pytest.raises(BadValueError, match=message):
        play(env)


@SOURCES
@pytest.mark.parametrize(
    ("slots", "actions", "message"),
    [
        ([0, 1], [0, 0], "actions for 2 rows, but 3 wait"),
        ([0, 1, 2], [0, 2, 0], r"action 2 is none of Discrete\(2\)"),
        ([0, 1, 2], [0.0, 1.0, 0.0], r"actions of type float64 do not fit Discrete\(2\)"),
        ([0, 1, 2], [[0], [1], [0]], r"actions of shape \(3, 1\)"),
        ([0, 1, 1], [0, 1, 0], "actions for slots"),
        ([0, 1, 7], [0, 1, 0], "actions for slots"),
    ],
)
def test_B041_wrong_actions_change_nothing(make: Make, slots: list[int], actions: Any, message: str) -> None:
    env = make(GOOD)
    env.reset(0)
    step = env.poll(None)[DEFAULT_GROUP]
    if make is ready_pool and len(slots) < SLOTS:
        pytest.skip("it takes the actions of any rows that wait")
    with pytest.raises(ValueError, match=message):
        env.send({DEFAULT_GROUP: (np.array(slots), np.array(actions))})
    env.send({DEFAULT_GROUP: (step.slot, np.zeros(SLOTS, np.int64))})
    assert len(env.poll(None)[DEFAULT_GROUP].slot) == SLOTS
