"""Names, settings and users' own objects: what ``gym:ID`` gives, and what it says where it gives nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TransformReward

from rlcore import registry
from rlcore.env import DEFAULT_GROUP
from rlcore.envs import build_env
from rlcore.errors import ConfigError, EnvError, UnknownPluginError
from rlcore.testing.environments import CountEnv
from rlcore_gym import GymProvider, InProcessEnv, VectorEnvAdapter
from rlcore_gym.rendering import rgb

REGISTERS = """
import gymnasium
from rlcore.testing.environments import CountEnv
gymnasium.register("{id}", CountEnv)
"""


def make(env_id: str, num_envs: int = 1, **settings: Any) -> Any:
    return GymProvider().make(env_id, num_envs, settings)


@pytest.fixture
def registered() -> Iterator[None]:
    """``Settled-v0``, whose environment keeps its settings, and ``Broken-v0``, which cannot be made."""
    gymnasium.register("Settled-v0", Settled)
    gymnasium.register("Broken-v0", Broken)
    yield
    del gymnasium.registry["Settled-v0"], gymnasium.registry["Broken-v0"]


class Settled(CountEnv):
    def __init__(self, length: int = 3, table: dict[str, list[int]] | None = None, render_mode: Any = None) -> None:
        super().__init__(length)
        self.table = table or {}
        self.render_mode = render_mode
        self.seen = list(self.table.pop("n", []))
        self.closed = 0

    metadata = {"render_modes": ["rgb_array", "ansi"]}

    def render(self) -> Any:
        return "text" if self.render_mode == "ansi" else np.full((2, 3, 3), self.t, np.uint8)

    def close(self) -> None:
        self.closed += 1


class Broken(CountEnv):
    def __init__(self) -> None:
        raise OSError("no such file: level.dat")


def test_the_provider_is_found_by_its_entry_point() -> None:
    assert registry.load("env", "gym") is GymProvider
    for source in ("gym:CartPole-v1", "CartPole-v1"):
        env = build_env(source, 2, {})
        assert isinstance(env, InProcessEnv)
        assert (env.num_slots, env.name, env.lockstep) == (2, "CartPole-v1", True)
        assert list(env.groups) == [DEFAULT_GROUP]


def test_B063_each_copy_gets_its_own_settings(registered: None) -> None:
    table = {"n": [1, 2]}
    env = make("Settled-v0", 3, table=table)
    assert [one.env.unwrapped.seen for one in env._copies.slots] == [[1, 2]] * 3
    assert table == {"n": [1, 2]}


def test_settings_are_keywords_of_gymnasium_make(registered: None, play: Any) -> None:
    assert play(make("Settled-v0", length=2), 4).returns == [[2.0, 2.0]]
    assert play(make("Settled-v0", length=9, max_episode_steps=2), 4).returns == [[2.0, 2.0]]
    assert not _layers(make("Settled-v0")._copies.slots[0].env) & {"PassiveEnvChecker"}
    assert _layers(make("Settled-v0", disable_env_checker=False)._copies.slots[0].env) >= {"PassiveEnvChecker"}


def _layers(env: Any) -> set[str]:
    names = {type(env).__name__}
    return names | _layers(env.env) if isinstance(env, gymnasium.Wrapper) else names


def test_B057_ids_that_the_script_registers(registered: None) -> None:
    assert make("Settled-v0", 2).num_slots == 2


def test_module_and_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_games.py").write_text(REGISTERS.format(id="mine/Game-v3"))
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert make("my_games:mine/Game-v3", 2).num_slots == 2
        assert build_env("my_games:mine/Game-v3", 2, {}).name == "my_games:mine/Game-v3"
        with pytest.raises(UnknownPluginError, match="did you mean 'mine/Game-v3'"):
            make("my_games:mine/Gamme-v3")
    finally:
        gymnasium.registry.pop("mine/Game-v3", None)
        sys.modules.pop("my_games", None)
    with pytest.raises(UnknownPluginError, match="environment 'no_such_module:X-v0': there is no module"):
        make("no_such_module:X-v0")
    (tmp_path / "needy.py").write_text("import no_such_module\n")
    with pytest.raises(EnvError, match="importing 'needy' failed: No module named 'no_such_module'"):
        make("needy:X-v0")
    (tmp_path / "sick.py").write_text("1 / 0\n")
    with pytest.raises(EnvError, match="importing 'sick' raised ZeroDivisionError"):
        make("sick:X-v0")


@pytest.mark.filterwarnings("ignore:.*is out of date")
@pytest.mark.parametrize(
    ("env_id", "lines"),
    [
        (
            "CartPol-v1",
            [
                "environment provider 'gym' has no 'CartPol-v1'; did you mean 'CartPole-v1'?",
                "an id that another package registers is written 'module:CartPol-v1'",
            ],
        ),
        ("CartPole-v7", ["did you mean 'CartPole-v", "It provides versioned environments: [ `v0`, `v1` ]"]),
        ("Taxi-v3", ["did you mean 'Taxi-v4'", "Please use `Taxi-v4` instead"]),
        ("some_games/Thing-v0", ["Namespace some_games not found", "'module:some_games/Thing-v0'"]),
        ("no id!", ["Malformed environment ID"]),
    ],
)
def test_unknown_ids(env_id: str, lines: list[str]) -> None:
    with pytest.raises(UnknownPluginError) as caught:
        make(env_id)
    for line in lines:
        assert line in str(caught.value)
    assert str(caught.value).count("\n") <= 2


def without_ale(monkeypatch: pytest.MonkeyPatch) -> None:
    for env_id in [env_id for env_id in gymnasium.registry if env_id.startswith("ALE/")]:
        monkeypatch.delitem(gymnasium.registry, env_id)
    monkeypatch.setitem(sys.modules, "ale_py", None)


def test_a_namespace_whose_package_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    without_ale(monkeypatch)
    with pytest.raises(UnknownPluginError, match=r"\nids of ALE come with: pip install 'rlcore-gym\[atari\]'$"):
        make("ALE/Pong-v5")
    monkeypatch.delitem(gymnasium.registry, "PongNoFrameskip-v4", raising=False)
    with pytest.raises(UnknownPluginError, match=r"\nids of ALE come with: pip install 'rlcore-gym\[atari\]'$"):
        make("PongNoFrameskip-v4")


def test_a_namespace_whose_package_is_installed_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_ale(monkeypatch)
    monkeypatch.delitem(sys.modules, "ale_py")
    (tmp_path / "ale_py.py").write_text(REGISTERS.format(id="ALE/Fake-v5"))
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert make("ALE/Fake-v5").num_slots == 1
        with pytest.raises(UnknownPluginError) as caught:
            make("ALE/Fale-v5")
        assert str(caught.value) == "environment provider 'gym' has no 'ALE/Fale-v5'; did you mean 'ALE/Fake-v5'?"
    finally:
        gymnasium.registry.pop("ALE/Fake-v5", None)


def test_environments_that_cannot_be_built(registered: None) -> None:
    with pytest.raises(EnvError) as caught:
        make("Broken-v0")
    said = str(caught.value)
    assert said.startswith("environment 'Broken-v0': building it raised OSError: no such file: level.dat\n  File ")
    assert isinstance(caught.value.__cause__, OSError)


def test_an_environment_that_makes_another_which_there_is_not() -> None:
    """The id that was asked for is known, and is not suggested in its own place."""
    gymnasium.register("Outer-v0", lambda: gymnasium.make("CartPol-v1"))
    with pytest.raises(EnvError, match=r"^environment 'Outer-v0' cannot be built: .*`CartPol`"):
        make("Outer-v0")


def test_a_dependency_that_is_missing() -> None:
    with pytest.raises(EnvError, match=r"(?s)'LunarLander-v3' cannot be built: .*pip install"):
        make("LunarLander-v3")


def test_settings_that_do_not_fit(registered: None) -> None:
    with pytest.raises(ConfigError) as caught:
        make("Settled-v0", lenght=3)
    assert "the settings of environment 'Settled-v0' do not fit: " in str(caught.value)
    assert str(caught.value).endswith("unexpected keyword argument 'lenght'; did you mean 'length'?")
    with pytest.raises(ConfigError, match="did you mean 'sutton_barto_reward'"):
        make("CartPole-v1", sutton_barto_rewards=True)
    with pytest.raises(EnvError, match="multiple values for argument 'id'"):
        make("CartPole-v1", id="Pendulum-v1")


def test_a_failure_half_way_closes_what_was_built(registered: None) -> None:
    built: list[Settled] = []

    def build() -> Settled:
        if len(built) == 2:
            raise EnvError("no more")
        built.append(Settled())
        return built[-1]

    with pytest.raises(EnvError, match="no more"):
        GymProvider().adapt(build, 3, "Settled", build())
    assert [one.closed for one in built] == [1, 1]


def test_native_vector_implementations() -> None:
    env = make("CartPole-v1", 5, vectorization="native", sutton_barto_reward=True)
    assert type(env._env).__name__ == "CartPoleVectorEnv"
    assert env.num_slots == 5
    assert isinstance(make("CartPole-v1", 5, vectorization="sync"), InProcessEnv)
    with pytest.raises(ConfigError) as caught:
        make("Pendulum-v1", 5, vectorization="native")
    assert "Pendulum-v1 has no native implementation" in str(caught.value)
    assert "CartPole-v0, CartPole-v1" in str(caught.value)
    with pytest.raises(UnknownPluginError, match="did you mean 'CartPole-v1'"):
        make("CartPol-v1", 5, vectorization="native")
    with pytest.raises(ConfigError, match="did you mean 'sutton_barto_reward'"):
        make("CartPole-v1", 5, vectorization="native", sutton_barto=True)
    with pytest.raises(ConfigError, match=r"env_settings\.wrappers: the native implementation of CartPole-v1 has no"):
        make("CartPole-v1", 5, vectorization="native", wrappers=["ClipReward"])


def test_native_implementations_of_others_pass_through_the_adapter(play: Any) -> None:
    vector = lambda num_envs: SyncVectorEnv([CountEnv] * num_envs)  # noqa: E731
    gymnasium.register("Vectorial-v0", CountEnv, vector_entry_point=vector)
    try:
        env = make("Vectorial-v0", 2, vectorization="native")
        assert isinstance(env, VectorEnvAdapter)
        assert play(env, 3).returns == [[3.0]] * 2
        with pytest.raises(ConfigError, match="time_limit: the native implementation of Vectorial-v0 has no place"):
            make("Vectorial-v0", 2, vectorization="native", time_limit=3)
    finally:
        del gymnasium.registry["Vectorial-v0"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"vectorization": "async"}, "vectorization: should be 'sync', 'thread', 'process' or 'native', not 'async'"),
        ({"workers": 0}, "env_settings.workers: should be greater than or equal to 1, not 0"),
        ({"step_timeout": -1}, "env_settings.step_timeout: should be greater than 0, not -1"),
        ({"on_failure": "ignore"}, "env_settings.on_failure: should be 'raise' or 'restart', not 'ignore'"),
        ({"time_limit": "long"}, "env_settings.time_limit: should be a valid integer, not 'long'"),
        ({"frame_stack": 0}, "env_settings.frame_stack: should be greater than or equal to 1"),
        ({"atari": {"frameskip": 4}}, "env_settings.atari.frameskip: unknown key, did you mean 'frame_skip'?"),
        ({"wrappers": "ClipReward"}, "env_settings.wrappers: should be a list of wrappers"),
        ({"wrappers": [{"min_reward": 1}]}, "env_settings.wrappers: a wrapper with keywords needs the key 'wrapper'"),
    ],
)
def test_settings_of_this_package_are_checked(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make("CartPole-v1", 2, **settings)
    assert said in str(caught.value)


def test_users_own_classes_and_wrappers(play: Any) -> None:
    def build(bonus: float = 0.5) -> Any:
        return TransformReward(Settled(length=4), lambda reward: reward + bonus)

    env = build_env(build, 2, {"bonus": 1.0})
    assert isinstance(env, InProcessEnv)
    assert play(env, 4).returns == [[8.0], [8.0]]
    assert play(build_env(Settled, 2, {"length": 2}), 4).returns == [[2.0, 2.0]] * 2


def test_users_own_vector_environments(play: Any) -> None:
    def build(num_envs: int) -> Any:
        return SyncVectorEnv([CountEnv] * num_envs)

    env = build_env(build, 3, {})
    assert isinstance(env, InProcessEnv)
    assert play(env, 3).returns == [[3.0]] * 3
    with pytest.raises(EnvError, match="has 3 copies, asked for are 2"):
        GymProvider().adapt(lambda: None, 2, "Count", build(3))


@pytest.mark.parametrize("mode", AutoresetMode)
def test_copies_taken_out_of_a_vector_environment_go_through_the_same_episodes(mode: AutoresetMode, play: Any) -> None:
    def build(num_envs: int) -> Any:
        return SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * num_envs, autoreset_mode=mode)

    def lean(obs: Any, count: int) -> Any:
        return (np.asarray(obs)[:, 2] > 0).astype(np.int64)

    apart = build_env(build, 2, {})
    assert isinstance(apart, InProcessEnv)
    own, whole = play(apart, 200, lean, 3), play(VectorEnvAdapter(build(2), "CartPole"), 200, lean, 3)
    for mine, theirs in zip(own.transitions, whole.transitions, strict=True):
        assert len(theirs) > 150
        for (obs, *ending, after), (their_obs, *their_ending, their_after) in zip(mine, theirs, strict=False):
            assert obs.tolist() == their_obs.tolist() and after.tolist() == their_after.tolist()
            assert ending == their_ending


def test_vector_wrappers_go_through_the_adapter(play: Any) -> None:
    def build(num_envs: int) -> Any:
        source = SyncVectorEnv([CountEnv] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
        return gymnasium.wrappers.vector.TransformReward(source, lambda reward: 2 * reward)

    env = build_env(build, 2, {})
    assert isinstance(env, VectorEnvAdapter)
    assert play(env, 3).returns == [[6.0]] * 2


def test_B017_wrapped_final_observations(play: Any) -> None:
    def build() -> Any:
        space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        double = lambda obs: np.repeat(obs, 2).astype(np.float64) / 10  # noqa: E731
        return gymnasium.wrappers.TransformObservation(CountEnv(3, truncate=True), double, space)

    final = play(build_env(build, 2, {}), 3).transitions[1][-1][4]
    assert (final.tolist(), final.dtype) == ([1.3, 1.3], np.float64)


def test_rendering(registered: None) -> None:
    env = make("Settled-v0", 2, render_mode="rgb_array")
    env.reset(0)
    env.poll(None)
    env.send({DEFAULT_GROUP: (np.arange(2), np.zeros(2, np.int64))})
    env.poll(None)
    frame = env.render(1)
    assert (frame.shape, frame.dtype, int(frame.max())) == ((2, 3, 3), np.uint8, 1)
    assert make("Settled-v0", 1).render(0) is None
    text = make("Settled-v0", 1, render_mode="ansi")
    text.reset(0)
    assert text.render(0) is None
    frames = make("Settled-v0", 1, render_mode="rgb_array_list")
    frames.reset(0)
    assert frames.render(0).shape == (2, 3, 3)
    assert rgb(np.full((2, 3, 4), 7, np.uint8)).tolist() == [[[7, 7, 7]] * 3] * 2  # transparency is left out
    vector = VectorEnvAdapter(SyncVectorEnv([lambda: Settled(render_mode="rgb_array")] * 2), "Settled")
    vector.reset(0)
    assert vector.render(1).shape == (2, 3, 3)


def test_an_exception_in_render(registered: None) -> None:
    env = make("Settled-v0", 1, render_mode="rgb_array")
    with pytest.raises(EnvError, match=r"slot 0, step 0: render\(\) raised ResetNeeded"):
        env.render(0)


def test_a_namespace_that_was_left_out_is_suggested(ale: None) -> None:
    with pytest.raises(UnknownPluginError, match=r"has no 'Pong-v5'; did you mean 'ALE/Pong-v5'\?$"):
        build_env("Pong-v5", 1, {})


class Clinging(CountEnv):
    """Cannot be closed."""

    closings = 0

    def close(self) -> None:
        type(self).closings += 1
        raise RuntimeError("the simulator is gone already")


@pytest.mark.parametrize("vectorization", ["sync", "thread"])
def test_copies_that_fail_to_close_are_a_warning_and_the_others_are_closed(
    vectorization: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Clinging, "closings", 0)
    env = build_env(Clinging, 3, {"length": 4, "vectorization": vectorization})
    env.reset(1)
    env.poll(None)
    env.close()
    built = 3 if vectorization == "sync" else 4
    assert Clinging.closings == built
    assert caplog.text.count("close() raised RuntimeError: the simulator is gone already") == built
    assert "Clinging, slot 2, step 0: close() raised" in caplog.text


def test_close_may_be_called_twice(registered: None) -> None:
    env = make("Settled-v0", 2)
    inner = [one.env.unwrapped for one in env._copies.slots]
    env.close()
    env.close()
    assert [one.closed for one in inner] == [1, 1]
    vector = VectorEnvAdapter(SyncVectorEnv([CountEnv]), "Count")
    vector.close()
    vector.close()


def test_full_ids() -> None:
    full = GymProvider().full_id
    assert full("CartPole") == full("CartPole-v1") == "CartPole-v1"
    assert full("CartPole-v0") == "CartPole-v0"
    assert full("some_module:CartPole") == "some_module:CartPole-v1"
    assert [full(unknown) for unknown in ("Nowhere", "Nowhere-v3", "no id at all!")] == [
        "Nowhere",
        "Nowhere-v3",
        "no id at all!",
    ]
