"""Wrappers by name, frame stacks, time limits: what goes around a copy because its settings say so."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple

from rlcore.columns import leaf_spaces
from rlcore.env import DEFAULT_GROUP, BatchedEnv
from rlcore.envs import build_env, settings_imports
from rlcore.errors import ConfigError, EnvError, UnknownPluginError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Fragment
from rlcore.sampling.filters import MeanStd
from rlcore.testing.constant import TableValue
from rlcore.testing.environments import CountEnv
from rlcore_gym import GymProvider
from rlcore_gym.frame_stack import FrameStack

KINDS = ("sync", "thread")


class Pictures(gymnasium.Env[Any, Any]):
    """Of a picture and a vector, both of which show the step of the episode; three steps."""

    def __init__(self) -> None:
        self.observation_space = Dict(img=Box(0, 255, (8, 8, 3), np.uint8), vec=Box(-1e3, 1e3, (4,), np.float32))
        self.action_space = Discrete(2)
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 10
        return self.observe(), {}

    def observe(self) -> Any:
        return {"img": np.full((8, 8, 3), self.t, np.uint8), "vec": np.full(4, self.t, np.float32)}

    def step(self, action: Any) -> Any:
        self.t += 1
        return self.observe(), 1.0, False, self.t == 13, {}


@pytest.mark.parametrize("kind", [*KINDS, "process"])
def test_B023_B024_stacks_hold_what_was_seen_in_their_episode(kind: str, play: Any) -> None:
    source = "rlcore.testing.environments:CountEnv"
    env = build_env(source, 2, {"length": 3, "truncate": True, "frame_stack": 4, "vectorization": kind, "workers": 2})
    assert env.groups[DEFAULT_GROUP][0].shape == (4, 1)
    played = play(env, 6)
    env.close()
    for slot in range(2):
        seen = [row[0].ravel().tolist() for row in played.transitions[slot]]
        assert seen == [[0, 0, 0, 10], [0, 0, 10, 11], [0, 10, 11, 12]] * 2
        assert [row[4].ravel().tolist() for row in played.transitions[slot]][2::3] == [[10, 11, 12, 13]] * 2


def test_B101_each_key_by_its_own_rule(play: Any) -> None:
    env = build_env(Pictures, 2, {"frame_stack": {"img": 3}})
    spaces = leaf_spaces(env.groups[DEFAULT_GROUP][0])
    assert {leaf: (space.shape, space.dtype) for leaf, space in spaces.items()} == {
        "img": ((3, 8, 8, 3), np.uint8),
        "vec": ((4,), np.float32),
    }
    last = play(env, 3).transitions[1][-1][4]
    assert last["img"][:, 0, 0, 0].tolist() == [11, 12, 13]
    assert last["vec"].tolist() == [13] * 4
    both = build_env(Pictures, 1, {"frame_stack": 2})
    assert both.groups[DEFAULT_GROUP][0]["vec"].shape == (2, 4)


def test_B101_a_stack_and_a_filter() -> None:
    """The filter of the sampler comes after the stack, whatever the order in the config, and leaves pictures alone."""
    pytest.importorskip("rlcore.acting.scaling")
    evaluator = PolicyEvaluator(
        env=Pictures,
        env_settings={"frame_stack": 2},
        graph=TableValue,
        num_envs=2,
        collect=Fragment(6),
        rng=0,
        observation_filter=MeanStd,
    )
    batch = evaluator.sample()
    assert batch["obs.img"].dtype == np.uint8
    assert batch["obs.img"].shape == (12, 2, 8, 8, 3)
    assert (batch["obs.vec"].dtype, batch["obs.vec"].shape) == (np.float32, (12, 2, 4))
    assert batch.cuts["last_obs.img"].dtype == np.uint8
    assert batch.cuts["last_obs.img"][:, :, 0, 0, 0].tolist() == [[12, 13]] * 4


def test_an_action_mask_is_not_stacked(play: Any) -> None:
    class Masked(Pictures):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = Dict(n=Box(0, 99, (1,), np.float32), action_mask=MultiBinary(2))

        def observe(self) -> Any:
            return {"n": np.full(1, self.t, np.float32), "action_mask": np.array([1, self.t % 2], np.int8)}

    env = build_env(Masked, 1, {"frame_stack": 2})
    obs = [own for own, *_ in play(env, 2).transitions[0]]
    assert [own["action_mask"].tolist() for own in obs] == [[1, 0], [1, 1]]
    assert [own["n"].ravel().tolist() for own in obs] == [[0, 10], [10, 11]]


def test_stacks_of_nested_parts_and_of_what_cannot_be_stacked() -> None:
    class Nested(Pictures):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = Dict(a=Tuple([Discrete(20), Box(0, 99, (), np.float32)]))

        def observe(self) -> Any:
            return {"a": (self.t, np.float32(self.t))}

    stacked = FrameStack(Nested(), {"a.0": 2})
    obs, _ = stacked.reset()
    assert (obs["a"][0].tolist(), float(obs["a"][1])) == ([0, 10], 10.0)
    assert stacked.observation_space.contains(obs)
    assert stacked.step(0)[0]["a"][0].tolist() == [10, 11]
    kept = stacked.step(0)[0]["a"][0]
    stacked.step(0)
    assert kept.tolist() == [11, 12]
    with pytest.raises(ConfigError, match=r"frame_stack: the observation has no part 'b', only 'a\.0', 'a\.1'"):
        FrameStack(Nested(), {"b": 2})
    text = Nested()
    text.observation_space = Dict(a=gymnasium.spaces.Text(3))
    with pytest.raises(ConfigError, match="no fixed shape to stack"):
        FrameStack(text, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_time_limits_count_the_steps_of_what_comes_out(kind: str, play: Any) -> None:
    settings = {"length": 9, "vectorization": kind, "workers": 1, "time_limit": 4}
    played = play(build_env(CountEnv, 2, settings), 9)
    assert played.returns == [[4.0, 4.0]] * 2
    assert played.column(3) == [False, False, False, True] * 2 + [False]
    assert not any(played.column(2))
    # The shorter one of two limits holds; repeated actions are one step of the agent.
    both = GymProvider().make("CartPole-v1", 1, {"time_limit": 3, "max_episode_steps": 5})
    assert play(both, 9).returns == [[3.0] * 3]
    repeated = {"length": 99, "wrappers": [{"wrapper": "RepeatAction", "num_repeats": 3}], "time_limit": 2}
    assert play(build_env(CountEnv, 1, repeated), 2).returns == [[6.0]]


class Louder(gymnasium.RewardWrapper[Any, Any]):
    def __init__(self, env: Any, factor: float = 10.0) -> None:
        super().__init__(env)
        self.factor = factor

    def reward(self, reward: Any) -> Any:
        return self.factor * reward


def test_wrappers_by_name_by_path_and_as_they_are(play: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_wrappers.py").write_text(
        "import gymnasium\n"
        "class Half(gymnasium.RewardWrapper):\n"
        "    def reward(self, reward):\n"
        "        return reward / 2\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def first_reward(*wrappers: Any, **settings: Any) -> float:
        env = build_env(CountEnv, 1, {"wrappers": list(wrappers), **settings})
        reward: float = play(env, 1).transitions[0][0][1]
        env.close()
        return reward

    clip = {"wrapper": "ClipReward", "max_reward": 0.75}
    assert first_reward("my_wrappers:Half") == 0.5
    assert first_reward({"wrapper": "my_wrappers:Half"}, clip) == 0.5
    assert first_reward(clip, "my_wrappers:Half") == 0.375  # the first is innermost
    assert first_reward(Louder) == 10.0
    assert first_reward({"wrapper": Louder, "factor": 3}) == 3.0
    assert first_reward("my_wrappers:Half", vectorization="process", workers=1) == 0.5
    assert settings_imports("CartPole-v1", {"wrappers": [clip, "my_wrappers:Half", Louder]}) == {
        "wrappers.1": "my_wrappers:Half"
    }


@pytest.mark.parametrize(
    ("wrapper", "error", "said"),
    [
        ("ClipRewards", ConfigError, "Gymnasium has no wrapper 'ClipRewards'; did you mean 'ClipReward'?"),
        ("no_such_module:Name", UnknownPluginError, "no_such_module"),
        ("os:sep", ConfigError, "'os:sep' is a str, no wrapper"),
        ({"wrapper": "ClipReward", "most": 1}, ConfigError, "the keywords of wrapper ClipReward do not fit: "),
        ({"wrapper": "ClipReward", "min_reward": 2, "max_reward": 1}, EnvError, "wrapper ClipReward raised "),
        ({"wrapper": "builtins:id"}, EnvError, "wrapper builtins:id gave a int, which is no gymnasium.Env"),
    ],
)
def test_wrappers_that_cannot_be_had(wrapper: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught:
        build_env(CountEnv, 1, {"wrappers": [wrapper]})
    assert said in str(caught.value)


def test_a_wrapped_copy_comes_back_exactly() -> None:
    def build() -> BatchedEnv:
        settings = {"frame_stack": 3, "time_limit": 9, "wrappers": [{"wrapper": "ClipReward", "min_reward": -1}]}
        return GymProvider().make("Pendulum-v1", 2, settings)

    env, other = build(), build()
    env.reset(1)
    step = env.poll(None)[DEFAULT_GROUP]
    for _ in range(14):
        env.send({DEFAULT_GROUP: (step.slot, np.ones((2, 1), np.float32))})
        step = env.poll(None)[DEFAULT_GROUP]
    state = env.get_state()
    assert state is not None
    assert other.set_state(state) == []
    for _ in range(20):
        for one in (env, other):
            if one is other and _ == 0:
                one.poll(None)
            one.send({DEFAULT_GROUP: (step.slot, np.ones((2, 1), np.float32))})
        mine, yours = (one.poll(None)[DEFAULT_GROUP] for one in (env, other))
        assert np.asarray(mine.obs).tobytes() == np.asarray(yours.obs).tobytes()
        assert np.array_equal(mine.truncated, yours.truncated)
