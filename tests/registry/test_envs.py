"""build_env: what each form of a name stands for, and what is refused."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
import pytest

from rlcore import registry
from rlcore.env import BatchedEnv
from rlcore.envs import EnvProvider, build_env, imports_module, known_ids, own_settings, source_name, unknown_env
from rlcore.errors import BrokenPluginError, ConfigError, EnvError, InvalidPluginError, SpaceError, UnknownPluginError

ENVS = "rlcore.envs"

#: A provider that hands back a record of what it was asked for.
PROVIDER = """
    from rlcore.envs import EnvProvider, unknown_env
    from tests_registry_made import Made

    class Provider(EnvProvider):
        def make(self, env_id, num_envs, settings):
            if env_id == "CartPol-v1":
                raise unknown_env("gym", env_id, ["CartPole-v1", "Pendulum-v1"])
            if env_id == "mazes:RaiseStp":
                raise unknown_env("gym", env_id, [])
            return Made(env_id=env_id, num_envs=num_envs, settings=settings)

        def full_id(self, env_id):
            return f"{env_id}-full"

        def adapt(self, build, num_envs, name, first, settings):
            copies = [first] + [build() for _ in range(num_envs - 1)]
            return Made(copies=copies, num_envs=num_envs, env_id=name)
"""


class Made(BatchedEnv):
    """Stands in for whatever a provider would build."""

    def __init__(self, num_envs: int, **asked: Any) -> None:
        self.num_slots = num_envs
        vars(self).update(asked)

    def reset(self, seed): ...
    def poll(self, timeout): ...
    def send(self, actions): ...
    def get_state(self): ...
    def set_state(self, state): ...
    def close(self): ...


class Single(gymnasium.Env[np.ndarray, int]):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, size: int = 3) -> None:
        self.size = size


@pytest.fixture
def gym(install, monkeypatch):
    """A provider called gym, from a package of its own."""
    made = types.ModuleType("tests_registry_made")
    made.Made = Made
    monkeypatch.setitem(sys.modules, "tests_registry_made", made)
    install("rlcore-gym", groups={ENVS: {"gym": "fake_gym:Provider"}}, modules={"fake_gym": PROVIDER})


def asked(env: BatchedEnv) -> tuple[str, int, Mapping[str, Any]]:
    return env.env_id, env.num_slots, env.settings


# -- names


def test_provider_and_id(gym):
    assert asked(build_env("gym:CartPole-v1", 2, {"a": 1})) == ("CartPole-v1", 2, {"a": 1})
    assert asked(build_env("gym@rlcore_gym:ns/Maze-v0", 1, {})) == ("ns/Maze-v0", 1, {})


def test_bare_id_is_looked_up_as_registered_and_then_as_gym(gym):
    assert asked(build_env("CartPole-v1", 2, {})) == ("CartPole-v1", 2, {})
    registry.register("env", "CartPole-v1")(Single)
    env = build_env("CartPole-v1", 2, {"size": 5})
    assert [copy.size for copy in env.copies] == [5, 5]
    assert env.env_id == "CartPole-v1"


def test_module_and_gymnasium_id_is_handed_to_gym_after_importing_the_module(gym, install):
    install("mazes", modules={"mazes": "imported = []\nimported.append(1)"})
    assert asked(build_env("mazes:Maze-v0", 2, {"a": 1})) == ("mazes:Maze-v0", 2, {"a": 1})
    assert sys.modules["mazes"].imported == [1]


def test_module_and_class_is_an_import_path(gym, install):
    install("mazes", modules={"mazes": "from test_envs_single import Single\ndef hall(size): return Single(size + 1)"})
    single = types.ModuleType("test_envs_single")
    single.Single = Single
    sys.modules["test_envs_single"] = single
    try:
        assert [copy.size for copy in build_env("mazes:Single", 2, {"size": 5}).copies] == [5, 5]
        assert build_env("mazes:hall", 1, {"size": 5}).copies[0].size == 6
    finally:
        del sys.modules["test_envs_single"]


def test_typo_in_the_name_of_a_class_is_answered_by_its_module(gym, install):
    source = """
        import os
        from rlcore.envs import unknown_env as _unknown_env
        class RaiseStep: ...
    """
    install("mazes", modules={"mazes": source})
    with pytest.raises(UnknownPluginError) as error:
        build_env("mazes:RaiseStp", 1, {})
    assert str(error.value) == (
        "environment 'mazes:RaiseStp': module mazes has no 'RaiseStp', and registers no such Gymnasium id; "
        "did you mean 'RaiseStep'?"
    )


def test_class_that_ends_the_program_cannot_be_built(gym):
    def leave():
        raise SystemExit(3)

    with pytest.raises(EnvError, match=r"cannot be built: SystemExit: 3$"):
        build_env(leave, 1, {})


def test_ids_under_which_an_environment_is_known(gym):
    registry.register("env", "CartPole")(Single)
    assert known_ids("Pendulum") == known_ids("gym:Pendulum")[1:] == ["Pendulum", "Pendulum-full"]
    assert known_ids("gym:CartPole") == ["gym:CartPole", "CartPole", "CartPole-full"]
    assert known_ids("CartPole") == ["CartPole"]
    assert known_ids("mazes:Hall") == ["mazes:Hall", "Hall", "mazes:Hall-full", "Hall-full"]
    assert known_ids(Single) == []


def test_installed_environment_that_is_no_provider_is_named_without_colon(gym, install):
    install("mazes", "2.0", groups={ENVS: {"maze": "mazes:maze"}}, modules={"mazes": "def maze(num_envs): return 1"})
    with pytest.raises(InvalidPluginError, match=r"^'maze' is an environment, not a provider of environments"):
        build_env("maze:x", 1, {})
    with pytest.raises(EnvError, match=r"^environment 'maze' gave a builtins\.int, which is no environment"):
        build_env("maze", 1, {})


def test_typo_in_the_id_is_answered_by_the_provider(gym):
    with pytest.raises(UnknownPluginError) as error:
        build_env("CartPol-v1", 1, {})
    assert str(error.value) == "environment provider 'gym' has no 'CartPol-v1'; did you mean 'CartPole-v1'?"


def test_typo_in_a_registered_name_is_answered_with_it(gym):
    registry.register("env", "CartPoll-v1")(Single)
    with pytest.raises(UnknownPluginError) as error:
        build_env("CartPol-v1", 1, {})
    assert str(error.value) == (
        "environment provider 'gym' has no 'CartPol-v1'; did you mean 'CartPole-v1'?\n"
        "this program has registered 'CartPoll-v1'"
    )


def test_typo_in_the_provider(gym):
    with pytest.raises(UnknownPluginError) as error:
        build_env("gim:CartPole-v1", 1, {})
    assert str(error.value) == (
        "environment 'gim:CartPole-v1': 'gim' is no installed provider and no module; did you mean 'gym'?\n"
        "installed: gym (rlcore-gym 1.0)"
    )


def test_bare_id_without_any_provider_says_what_to_install(install):
    with pytest.raises(UnknownPluginError) as error:
        build_env("CartPole-v1", 1, {})
    assert str(error.value) == (
        "environment 'CartPole-v1' is not registered, and 'gym:CartPole-v1' cannot be had:\n"
        "unknown env 'gym'\ninstalled: none\nrlcore-gym provides it: pip install rlcore-gym"
    )


def test_known_provider_that_is_not_installed_is_not_taken_for_a_module(install):
    install("decoy", modules={"gym": "raise RuntimeError('imported')"})
    with pytest.raises(UnknownPluginError, match=r"rlcore-gym provides it: pip install rlcore-gym"):
        build_env("gym:CartPole-v1", 1, {})


def test_provider_without_an_id(gym):
    with pytest.raises(ConfigError) as error:
        build_env("gym", 1, {})
    assert str(error.value) == "'gym' is a provider of environments; name one of them: 'gym:ID'"


def test_module_that_fails_to_import(gym, install):
    install("bad", modules={"bad": "import no_such_thing"})
    with pytest.raises(BrokenPluginError) as error:
        build_env("bad:Maze-v0", 1, {})
    assert str(error.value) == (
        "environment 'bad:Maze-v0': importing bad fails: ModuleNotFoundError: No module named 'no_such_thing'"
    )


def test_which_names_import_a_module_of_their_own_choosing(gym):
    names = ["CartPole-v1", "gym:CartPole-v1", "gym:mazes:Maze-v0", "mazes:Maze-v0", "mazes:Maze"]
    assert [imports_module(name) for name in names] == [False, False, True, True, True]


# -- classes and callables


def test_class_is_called_once_per_copy_with_the_settings(gym):
    env = build_env(Single, 3, {"size": 7})
    assert [copy.size for copy in env.copies] == [7, 7, 7]
    assert len({id(copy) for copy in env.copies}) == 3
    assert env.env_id == f"{__name__}:Single" == source_name(Single)


def test_batched_env_is_used_as_it_is_and_told_how_many():
    env = build_env(Made, 4, {"speed": 2})
    assert (env.num_slots, env.speed, env.name) == (4, 2, f"{__name__}:Made")


def test_batched_env_of_a_fixed_number():
    def fixed() -> BatchedEnv:
        return Made(num_envs=4)

    assert build_env(fixed, 1, {}).num_slots == 4
    assert build_env(fixed, 4, {}).num_slots == 4
    with pytest.raises(EnvError) as error:
        build_env(fixed, 3, {})
    assert str(error.value) == (
        f"environment '{source_name(fixed)}' made 4 copies where 3 were asked for; "
        "give it an argument num_envs, or return a single environment"
    )


def test_vector_env_brings_its_own_number(gym):
    def vector(num_envs: int) -> gymnasium.vector.VectorEnv:
        return gymnasium.make_vec("CartPole-v1", num_envs=num_envs)

    env = build_env(vector, 3, {})
    assert (env.num_slots, env.copies[0].num_envs) == (3, 3)


def test_object_of_a_package_with_a_provider_of_its_name_goes_there(gym, install):
    install("rlcore-multi", groups={ENVS: {"zoo": "fake_zoo:Provider"}}, modules={"fake_zoo": PROVIDER})
    game = type("Game", (), {"__module__": "zoo.games"})
    assert isinstance(build_env(game, 1, {}).copies[0], game)


def test_provider_that_adapts_nothing_says_so(install, gym):
    class Bare(EnvProvider):
        def make(self, env_id: str, num_envs: int, settings: Mapping[str, Any]) -> BatchedEnv:
            raise unknown_env("zoo", env_id, [])

    registry.register("env", "zoo")(Bare)
    game = type("Game", (), {"__module__": "zoo.games"})
    with pytest.raises(EnvError, match=r"^zoo.games:Game: Bare cannot adapt objects of type Game$"):
        build_env(game, 1, {})
    with pytest.raises(UnknownPluginError, match=r"^environment provider 'zoo' has no 'x'$"):
        build_env("zoo:x", 1, {})


def test_B054_one_object_handed_out_twice_is_refused(gym):
    same = Single()
    with pytest.raises(EnvError) as error:
        build_env(lambda: same, 4, {})
    assert str(error.value) == (
        f"environment '{__name__}:test_B054_one_object_handed_out_twice_is_refused.<locals>.<lambda>': the same Single "
        "object was returned twice; its copies would share their state, so make a new one in each call"
    )
    assert build_env(lambda: same, 1, {}).copies == [same]


def test_B054_one_object_in_two_wrappers_is_refused(gym):
    same = Single()
    with pytest.raises(EnvError, match=r"the same Single object was returned twice"):
        build_env(lambda: gymnasium.wrappers.TimeLimit(same, 5), 2, {})


def test_B054_objects_without_weak_references_are_told_apart_too(install, gym):
    install("rlcore-multi", groups={ENVS: {"zoo": "fake_zoo:Provider"}}, modules={"fake_zoo": PROVIDER})
    game = type("Game", (), {"__module__": "zoo.games", "__slots__": ()})
    same = game()
    assert len(build_env(game, 3, {}).copies) == 3
    with pytest.raises(EnvError, match=r"the same Game object was returned twice"):
        build_env(lambda: same, 2, {})


def test_B054_B055_lists_and_made_environments_are_no_sources(gym):
    """One callable for all copies leaves no loop variable to capture; seeds are told apart when they are reset."""
    with pytest.raises(EnvError, match=r"^a list of environments was given; give one callable"):
        build_env([lambda: Single() for _ in range(4)], 4, {})
    for made in (Single(), Made(num_envs=1)):
        with pytest.raises(EnvError, match=r"is an environment that is made already; give the class or a callable"):
            build_env(made, 1, {})
    with pytest.raises(EnvError, match=r"^an environment is given by a name, a class or a callable, not by a int"):
        build_env(3, 1, {})


def test_B056_lambdas_and_local_classes_travel(gym):
    class Local(Single):
        pass

    for source in (Local, lambda size=3: Local(size)):
        sent = cloudpickle.dumps(source)
        assert build_env(cloudpickle.loads(sent), 2, {"size": 4}).copies[1].size == 4


def test_B063_each_copy_has_its_own_settings(gym):
    class Popping(Single):
        def __init__(self, options: dict[str, int]) -> None:
            super().__init__(options.pop("n"))

    settings = {"options": {"n": 5}}
    assert [copy.size for copy in build_env(Popping, 2, settings).copies] == [5, 5]
    assert settings == {"options": {"n": 5}}
    build_env("gym:CartPole-v1", 1, settings).settings["options"].pop("n")
    assert settings == {"options": {"n": 5}}


def test_settings_that_cannot_be_copied():
    with pytest.raises(ConfigError, match=r"^the environment's settings cannot be copied: cannot pickle"):
        own_settings({"lock": threading.Lock()})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sise": 3}, "got an unexpected keyword argument 'sise'; did you mean 'size'? (it takes: size)"),
        ({"color": 3}, "got an unexpected keyword argument 'color' (it takes: size)"),
    ],
)
def test_B163_settings_that_the_environment_does_not_take(gym, settings, message):
    with pytest.raises(ConfigError) as error:
        build_env(Single, 1, settings)
    assert str(error.value) == f"the settings of environment '{__name__}:Single' do not fit: {message}"


def test_settings_that_the_environment_needs(gym):
    def needy(size): ...

    with pytest.raises(ConfigError, match=r"do not fit: missing a required argument: 'size' \(it takes: size\)$"):
        build_env(needy, 1, {})


def test_settings_whose_keys_are_no_names():
    with pytest.raises(ConfigError, match=r"^the environment's settings are passed by name, and 3 is no name"):
        build_env(Single, 1, {3: 4})


@pytest.mark.parametrize("num_envs", [0, -1])
def test_number_of_copies(num_envs):
    with pytest.raises(ConfigError, match=f"^the number of environments is {num_envs}; it has to be 1 or more"):
        build_env(Single, num_envs, {})


def test_environment_that_cannot_be_built_keeps_its_cause(gym):
    def failing() -> Single:
        raise ValueError("no display")

    with pytest.raises(EnvError) as error:
        build_env(failing, 1, {})
    assert str(error.value) == f"environment '{source_name(failing)}' cannot be built: ValueError: no display"
    assert isinstance(error.value.__cause__, ValueError)


def test_B170_environment_of_the_old_gym_is_refused_with_the_adapter(gym):
    old: Callable[[], object] = type("OldEnv", (type("Env", (), {"__module__": "gym.core"}),), {"__module__": "mine"})
    with pytest.raises(EnvError) as error:
        build_env(old, 1, {})
    assert str(error.value) == (
        "environment 'mine:OldEnv' is of the old gym package (OldEnv); derive it from gymnasium.Env, "
        "or wrap it with shimmy.GymV26CompatibilityV0(env=...) (GymV21CompatibilityV0 before gym 0.26)"
    )


def test_B170_space_of_the_old_gym_in_a_new_environment_is_refused(gym):
    box = type("Box", (), {"__module__": "gym.spaces.box"})
    mixed = type("Mixed", (Single,), {"action_space": box()})
    with pytest.raises(SpaceError, match=r"its action_space is a gym\.spaces\.box\.Box, not a gymnasium\.Space$"):
        build_env(mixed, 1, {})
    nothing = type("Nothing", (Single,), {"observation_space": None})
    with pytest.raises(SpaceError, match=r"its observation_space is nothing, not a gymnasium\.Space$"):
        build_env(nothing, 1, {})
