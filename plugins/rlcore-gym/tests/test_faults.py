"""What environments and callers do wrong, and the error that says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled
from gymnasium.vector import SyncVectorEnv

from rlcore.env import DEFAULT_GROUP, BatchedEnv
from rlcore.errors import EnvError, SpaceError
from rlcore.testing.environments import (
    ArrayRewardEnv,
    CountEnv,
    ExtraKeyEnv,
    InfoEnv,
    MissingKeyEnv,
    NaNRewardEnv,
    RaisingEnv,
    RaisingResetEnv,
    ReversedKeysEnv,
    WrongShapeEnv,
)
from rlcore_gym import InProcessEnv, VectorEnvAdapter


def copies(*envs: Any) -> InProcessEnv:
    return InProcessEnv(envs, "Toy")


def failing(env: BatchedEnv, play: Any, steps: int = 10) -> str:
    with pytest.raises(EnvError) as caught:
        play(env, steps)
    return str(caught.value)


def test_B046_an_exception_in_step_names_slot_and_step_and_repeats_the_trace(play: Any) -> None:
    env = copies(CountEnv(100), CountEnv(100), CountEnv(100), RaisingEnv(5))
    with pytest.raises(EnvError) as caught:
        play(env, 10)
    said = str(caught.value)
    assert said.startswith("Toy, slot 3, step 5: step() raised ValueError: boom\n  File ")
    assert said.endswith('raise ValueError("boom")')
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_exception_in_reset(play: Any) -> None:
    said = failing(copies(RaisingResetEnv()), play)
    assert said.startswith("Toy, slot 0, step 0: reset(seed=...) raised RuntimeError: no start\n  File ")


def test_an_exception_in_a_later_reset(play: Any) -> None:
    class Second(CountEnv):
        resets = 0

        def reset(self, **keywords: Any) -> Any:
            self.resets += 1
            if self.resets == 2:
                raise OSError
            return super().reset(**keywords)

    assert failing(copies(Second(), Second(9)), play).startswith("Toy, slot 0, step 0: reset() raised OSError\n")


def test_after_an_error_only_reset_is_possible(play: Any) -> None:
    env = copies(RaisingEnv(2))
    failing(env, play)
    with pytest.raises(RuntimeError, match="reset"):
        env.poll(None)
    assert env.get_state() is None
    env.reset(0)
    assert np.asarray(env.poll(None)[DEFAULT_GROUP].obs).tolist() == [[10]]


def test_an_exception_in_a_vector_environment(play: Any) -> None:
    source = SyncVectorEnv([lambda: CountEnv(100), lambda: RaisingEnv(5)])
    said = failing(VectorEnvAdapter(source, "Toy"), play)
    assert said.startswith("Toy, 2 copies in one, step 5: step() raised ValueError: boom\n  File ")


@pytest.mark.parametrize("step", [0, 7])
def test_wrong_shape(step: int, play: Any) -> None:
    said = failing(copies(CountEnv(100), WrongShapeEnv(step)), play)
    call = "step()" if step else "reset()"
    assert (
        said
        == f"Toy, slot 1, step {step}: {call} returned a bad value: the observation is of shape (2,), expected (1,)"
    )


def test_wrong_shapes_that_fit_together_are_noticed(play: Any) -> None:
    class Odd(CountEnv):
        def __init__(self, size: int) -> None:
            super().__init__(100)
            self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
            self.size = size

        def observe(self) -> Any:
            return np.zeros(self.size if self.t == 2 else 4, np.float32)

    said = failing(copies(Odd(3), Odd(5)), play)
    assert said.startswith("Toy, slot 0, step 2: ")
    assert "shape (3,), expected (4,)" in said


@pytest.mark.parametrize("step", [0, 7])
def test_B102_missing_and_extra_keys(step: int, play: Any) -> None:
    good = ReversedKeysEnv(100)
    assert failing(copies(good, MissingKeyEnv(step)), play).endswith("the observation lacks the key 'b'")
    assert failing(copies(good, ExtraKeyEnv(step)), play).endswith("has the key 'c', unknown to its space")
    assert failing(copies(MissingKeyEnv(step)), play).startswith(f"Toy, slot 0, step {step}: ")


def test_B102_the_order_of_keys_is_free(play: Any) -> None:
    played = play(copies(ReversedKeysEnv(3)), 3)
    assert [obs["a"].item() for obs, *_ in played.transitions[0]] == [10, 11, 12]
    assert [obs["b"].tolist() for obs, *_ in played.transitions[0]] == [[0, 0], [-1, -1], [-2, -2]]


class Returning(CountEnv):
    """Returns ``result`` from its second step on; ``space`` is its observation space."""

    def __init__(self, result: Callable[[CountEnv], Any], space: gymnasium.Space[Any] | None = None) -> None:
        super().__init__(100)
        self.result = result
        if space is not None:
            self.observation_space = space
            self.observe = lambda: np.zeros(space.shape, space.dtype)  # type: ignore[method-assign]

    def step(self, action: Any) -> Any:
        result = super().step(action)
        return self.result(self) if self.t == 2 else result


class Exiting(CountEnv):
    """Ends the program in its ``step``-th step, or in its reset."""

    def __init__(self, step: int, how: type[BaseException] = SystemExit) -> None:
        super().__init__(100)
        self.fault, self.how = step, how

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if self.fault == 0:
            raise self.how(3)
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        if self.t + 1 == self.fault:
            raise self.how(3)
        return super().step(action)


def test_an_environment_that_ends_the_program_is_one_that_raises(play: Any) -> None:
    said = failing(copies(CountEnv(100), Exiting(2)), play)
    assert said.startswith("Toy, slot 1, step 2: step() raised SystemExit: 3\n  File ")
    assert failing(copies(Exiting(0)), play).startswith("Toy, slot 0, step 0: reset(seed=...) raised SystemExit: 3\n")
    for step in (0, 2):
        vector = VectorEnvAdapter(SyncVectorEnv([lambda step=step: Exiting(step)]), "Toy")  # type: ignore[misc]
        assert f", step {step}: " in failing(vector, play)
    for step in (0, 2):
        with pytest.raises(KeyboardInterrupt):
            play(copies(Exiting(step, KeyboardInterrupt)), 3)


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (
            DependencyNotInstalled("pygame is not installed, run `pip install pygame`"),
            "a package: pygame is not installed",
        ),
        (ModuleNotFoundError("No module named 'cv2'", name="cv2"), "the module 'cv2', which is not installed"),
    ],
)
def test_a_package_that_drawing_needs_is_named_in_one_line(cause: Exception, said: str) -> None:
    class Drawn(CountEnv):
        render_mode = "rgb_array"

        def render(self) -> Any:
            raise cause

    source = SyncVectorEnv([Drawn])
    source.render_mode = "rgb_array"
    for env in (copies(Drawn()), VectorEnvAdapter(source, "Toy")):
        env.reset(0)
        with pytest.raises(EnvError) as caught:
            env.render(0)
        assert f", step 0: render() needs {said}" in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("error")
def test_values_too_large_for_float32_are_named_without_a_warning(play: Any) -> None:
    small = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    for given in (np.array([0.0, -1e300]), [0.0, -1e300], np.array([np.nan, -1e300])):
        env = copies(Returning(lambda env, given=given: (given, 0.0, False, False, {}), small))
        assert failing(env, play) == (
            "Toy, slot 0, step 2: step() returned a bad value: the observation holds -1e+300, too large for float32"
        )
    for reward, said in ((1e300, "1e+300"), (np.float64(-4e38), "np.float64(-4e+38)")):
        env = copies(CountEnv(100), Returning(lambda env, r=reward: (env.observe(), r, False, False, {})))
        assert failing(env, play).endswith(f"slot 1, step 2: step() returned the reward {said}, too large for float32")
    assert "which is no number" in failing(
        copies(Returning(lambda env: (env.observe(), 10**400, False, False, {}))), play
    )
    vector = VectorEnvAdapter(
        SyncVectorEnv([lambda: CountEnv(9), lambda: Returning(lambda env: (env.observe(), 1e300, False, False, {}))]),
        "Toy",
    )
    assert failing(vector, play).endswith("returned the reward 1e+300 for slot 1, too large for float32")
    # float64 spaces hold it, and infinity is for others to judge.
    wide = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    env = copies(Returning(lambda env: (np.array([1e300, np.inf]), 0.0, False, False, {}), wide))
    assert play(env, 2).column(4)[-1].tolist() == [1e300, np.inf]
    env = copies(Returning(lambda env: (np.array([1.0, np.inf]), 0.0, False, False, {}), small))
    assert play(env, 2).column(4)[-1].tolist() == [1.0, np.inf]


def test_wrong_kind_of_values(play: Any) -> None:
    pixels = gymnasium.spaces.Box(0, 255, (2,), np.uint8)

    def gives(value: Any) -> InProcessEnv:
        return copies(Returning(lambda env: (value, 0.0, False, False, {}), pixels))

    said = failing(gives(np.array([0.5, 1.0])), play)
    assert said.endswith("the observation holds float64 values, its space says uint8")
    assert failing(gives(np.array([0, 256])), play).endswith("holds int64 values, its space says uint8")
    assert failing(gives({"a": 1}), play).endswith("the observation is a dict, expected (2,)")
    assert failing(gives(None), play).endswith("the observation is a NoneType, expected (2,)")
    # The same numbers in another integer type, or in a list, are none the worse.
    assert play(gives(np.array([7, 255])), 2).column(4)[-1].tolist() == [7, 255]
    assert play(gives([7, 255]), 2).column(4)[-1].tolist() == [7, 255]


def test_tuple_observations(play: Any) -> None:
    space = gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(5), gymnasium.spaces.Box(0, 9, (2,), np.float32)])

    class Pair(CountEnv):
        def __init__(self, fault: Any = None) -> None:
            super().__init__(100)
            self.observation_space = space
            self.fault = fault

        def observe(self) -> Any:
            pair = (self.t % 5, np.full(2, self.t, np.float32))
            return self.fault if self.t == 2 and self.fault is not None else pair

    played = play(copies(Pair(), Pair()), 3)
    assert [(obs["0"].item(), obs["1"].tolist()) for obs, *_ in played.transitions[1]] == [
        (0, [0, 0]),
        (1, [1, 1]),
        (2, [2, 2]),
    ]
    assert failing(copies(Pair(), Pair((1,))), play).endswith("the observation has 1 parts, its space says 2")
    assert failing(copies(Pair(3)), play).endswith("the observation is a int, its space says a tuple")
    assert failing(copies(Pair((0.5, np.zeros(2)))), play).endswith("'0' holds float64 values, its space says int64")


def test_B042_rewards_as_arrays_of_one_number(play: Any) -> None:
    for env in (
        copies(ArrayRewardEnv()),
        copies(ArrayRewardEnv(), CountEnv()),
        copies(ArrayRewardEnv(), ArrayRewardEnv()),
        VectorEnvAdapter(SyncVectorEnv([CountEnv]), "Toy"),
    ):
        played = play(env, 3)
        assert played.column(1) == [1.0, 1.0, 1.0]
        assert played.polls[1].reward.dtype == np.float32


def test_B115_rewards_that_are_no_finite_numbers(play: Any) -> None:
    assert failing(copies(CountEnv(1000), NaNRewardEnv(100)), play, 101).endswith(
        "Toy, slot 1, step 100: step() returned the reward nan"
    )
    for reward, said in ((np.inf, "inf"), (None, "None"), ("x", "'x', which is no number")):
        env = copies(CountEnv(100), Returning(lambda env, reward=reward: (env.observe(), reward, False, False, {})))
        assert failing(env, play).endswith(f"slot 1, step 2: step() returned the reward {said}")
    env = copies(Returning(lambda env: (env.observe(), np.zeros(2), False, False, {})))
    assert failing(env, play).endswith("which is no number")
    # Large is not infinite, and opposites do not hide each other.
    big = copies(*(Returning(lambda env, r=r: (env.observe(), r, False, False, {})) for r in (1e30, -1e30)))
    assert play(big, 3).column(1, 1)[1] == np.float32(-1e30)


def test_old_gym_results(play: Any) -> None:
    four = copies(CountEnv(100), Returning(lambda env: (env.observe(), 0.0, False, {})))
    assert failing(four, play).startswith("Toy, slot 1, step 2: step() returned 4 values: the Gym API before 0.26")

    class OldReset(CountEnv):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return super().reset(seed=seed)[0]

    assert failing(copies(OldReset()), play).startswith(
        "Toy, slot 0, step 0: reset() returned a ndarray: the Gym API before 0.26"
    )

    class Seedless(CountEnv):
        def reset(self) -> Any:  # type: ignore[override]
            return super().reset()

    assert "reset(seed=...) raised TypeError" in failing(copies(Seedless()), play)


@pytest.mark.parametrize("flag", ["no", "", 2, 1, 0, 0.0, np.int64(0), None, [], np.array([True, False])], ids=repr)
def test_flags_that_are_no_booleans(flag: Any, play: Any) -> None:
    """Gymnasium's checker, which is switched off, does not take numbers for them either."""
    for name, result in (("terminated", (flag, False)), ("truncated", (False, flag))):
        faulty = Returning(lambda env, result=result: (env.observe(), 0.0, *result, {}))
        said = f"Toy, slot 1, step 2: step() returned {flag!r} for {name}, which is no boolean"
        assert failing(copies(CountEnv(100), faulty), play) == said


@pytest.mark.parametrize("kind", [bool, np.bool_, np.array, lambda flag: np.array([flag])])
def test_flags_that_are_booleans(kind: Callable[[bool], Any], play: Any) -> None:
    """An array of one will do, as it does for rewards."""
    for flags in ((True, False), (False, True), (False, False)):
        faulty = Returning(lambda env, flags=flags: (env.observe(), 0.0, kind(flags[0]), kind(flags[1]), {}))
        played = play(copies(faulty, CountEnv(100)), 2)
        assert (played.column(2)[-1], played.column(3)[-1]) == flags


class Flagging(SyncVectorEnv):
    """Its second step returns ``flags`` as its terminations."""

    def __init__(self, flags: Any) -> None:
        super().__init__([lambda: CountEnv(100)] * 2)
        self.steps, self.flags = 0, flags

    def step(self, actions: Any) -> Any:
        self.steps += 1
        obs, reward, terminated, truncated, info = super().step(actions)
        return obs, reward, terminated if self.steps < 2 else self.flags, truncated, info


@pytest.mark.parametrize(
    ("flags", "kind"), [([False, None], "object"), (["no", "no"], "<U2"), (np.zeros(2, np.int64), "int64")]
)
def test_flags_of_a_vector_environment_that_are_no_booleans(flags: Any, kind: str, play: Any) -> None:
    said = failing(VectorEnvAdapter(Flagging(flags), "Toy"), play)
    assert said == f"Toy, 2 copies in one, step 2: step() returned terminations of type {kind}, not bool"
    assert play(VectorEnvAdapter(Flagging([False, True]), "Toy"), 2).column(2, 1)[-1] is True


def test_B109_nothing_depends_on_info(play: Any) -> None:
    assert play(copies(InfoEnv(), InfoEnv()), 6).column(0, 1) == [10, 11, 12] * 2


def started(count: int) -> InProcessEnv:
    env = copies(*(CountEnv(100) for _ in range(count)))
    env.reset(0)
    env.poll(None)
    return env


@pytest.mark.parametrize(
    ("slots", "actions", "message"),
    [
        ([0, 1, 2, 3], [0, 0, 0], "Toy: 3 actions for 4 environments"),
        ([0, 1, 2], [0, 0, 0], "Toy: actions for 3 slots, but 4 wait for one"),
        ([0, 1, 2, 2], [0, 0, 0, 0], r"Toy: actions for slots \[0, 1, 2, 2\], but \[0, 1, 2, 3\] wait for one"),
        ([0, 1, 2, 3], [[0], [0], [0], [0]], r"Toy: actions of shape \(4, 1\), expected \(4,\) for Discrete\(2\)"),
        ([0, 1, 2, 3], [0.5, 0, 0, 0], r"Toy: actions of type float64 do not fit int64 of Discrete\(2\)"),
    ],
)
def test_B041_actions_that_do_not_answer_the_rows(slots: Any, actions: Any, message: str) -> None:
    env = started(4)
    with pytest.raises(EnvError, match=message) as caught:
        env.send({DEFAULT_GROUP: (np.array(slots), np.array(actions))})
    assert isinstance(caught.value, ValueError)
    # Nothing is lost: the right ones are still taken.
    env.send({DEFAULT_GROUP: (np.arange(4), np.zeros(4, np.int64))})
    assert env.poll(None)[DEFAULT_GROUP].reward.tolist() == [1.0] * 4


def test_actions_out_of_turn_and_for_other_groups() -> None:
    env = started(1)
    action = (np.array([0]), np.array([0]))
    with pytest.raises(ValueError, match="there is one group"):
        env.send({"other": action})
    env.send({DEFAULT_GROUP: action})
    with pytest.raises(ValueError, match=r"poll\(\) has to come first"):
        env.send({DEFAULT_GROUP: action})


def test_B040_polling_twice_does_not_wait_for_ever() -> None:
    env = started(2)
    with pytest.raises(TimeoutError, match="2 slots wait for actions"):
        env.poll(0.01)
    with pytest.raises(TimeoutError):
        env.poll(None)
    env.send({DEFAULT_GROUP: (np.arange(2), np.zeros(2, np.int64))})
    assert env.poll(None)[DEFAULT_GROUP].env_step.tolist() == [1, 1]


def test_actions_in_another_order_reach_their_slots() -> None:
    received: list[tuple[int, int]] = []

    class Noting(CountEnv):
        def __init__(self, number: int) -> None:
            super().__init__(100)
            self.number = number

        def step(self, action: Any) -> Any:
            received.append((self.number, int(action)))
            return super().step(action)

    env = copies(*(Noting(number) for number in range(3)))
    env.reset(0)
    env.poll(None)
    env.send({DEFAULT_GROUP: (np.array([2, 0, 1]), np.array([1, 0, 1]))})
    env.poll(None)
    assert received == [(0, 0), (1, 1), (2, 1)]


def test_B054_the_same_object_twice() -> None:
    env = CountEnv()
    with pytest.raises(EnvError, match="copies 0 and 1 are the same CountEnv object"):
        copies(env, env)
    with pytest.raises(EnvError, match="copies 0 and 2 are the same CountEnv object"):
        copies(gymnasium.wrappers.TimeLimit(env, 3), CountEnv(), gymnasium.wrappers.TimeLimit(env, 3))


def test_copies_with_other_spaces_are_refused() -> None:
    other = CountEnv()
    other.action_space = gymnasium.spaces.Discrete(3)
    with pytest.raises(
        SpaceError, match=r"the action space of copy 1 is Discrete\(3\), that of copy 0 is Discrete\(2\)"
    ):
        copies(CountEnv(), other)
