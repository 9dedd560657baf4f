"""register(): parts of a script or a notebook, and how they reach other processes."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator

import cloudpickle
import gymnasium
import pytest

from rlcore import registry
from rlcore.errors import AmbiguousPluginError, InvalidPluginError, UnknownPluginError
from rlcore.registry import Plugin, adopt, available, load, register, registrations


def test_registered_class_is_listed_and_loaded():
    @register("env", "maze")
    class Maze: ...

    where = "test_registered_class_is_listed_and_loaded.<locals>.Maze"
    assert Plugin("env", "maze", f"{__name__}:{where}") in available("env")
    assert load("env", "maze") is Maze
    with pytest.raises(UnknownPluginError, match=r"did you mean 'maze'\?\ninstalled: .*maze \(this program\)"):
        load("env", "mase")


def test_B168_registering_the_same_object_again_is_silent(recwarn):
    class Maze: ...

    assert register("env", "maze")(Maze) is Maze
    assert register("env", "maze")(Maze) is Maze
    assert not recwarn.list


def test_B169_running_the_cell_twice_is_no_error():
    cell = "@register('env', 'maze')\nclass Maze: ...\n@register('env', 'hall')\ndef hall(): ...\n"
    for _ in range(2):
        notebook = {"register": register, "__name__": "__main__"}
        exec(cell, notebook)
    assert load("env", "maze") is notebook["Maze"]
    assert load("env", "hall") is notebook["hall"]


def test_another_class_under_a_taken_name_is_an_error():
    class Maze: ...

    class Hall: ...

    register("env", "maze")(Maze)
    with pytest.raises(AmbiguousPluginError) as error:
        register("env", "maze")(Hall)
    where = f"{__name__}:test_another_class_under_a_taken_name_is_an_error.<locals>"
    assert str(error.value) == (
        f"env 'maze' is already registered for {where}.Maze; register {where}.Hall under another name"
    )
    assert load("env", "maze") is Maze


def test_registered_and_installed_under_one_name(install):
    install("aaa", "1.0", groups={"rlcore.hooks": {"beep": "aaa:Beep"}})

    @register("hook", "beep")
    class Beep: ...

    with pytest.raises(AmbiguousPluginError) as error:
        load("hook", "beep")
    where = f"{__name__}:test_registered_and_installed_under_one_name.<locals>.Beep"
    assert str(error.value) == (
        f"hook 'beep' is provided by this program ({where}) and aaa 1.0 (aaa:Beep); "
        "ask for 'beep@aaa', or register yours under another name"
    )


def test_package_that_registers_what_it_also_provides(install):
    install(
        "aaa",
        "1.0",
        groups={"rlcore.hooks": {"beep": "aaa_hooks:Beep"}},
        modules={"aaa_hooks": "from rlcore.registry import register\n@register('hook', 'beep')\nclass Beep: ..."},
    )
    first = load("hook", "beep")
    assert load("hook", "beep") is first
    assert len(available("hook")) == 1


def test_wrong_kind_of_object_is_refused_when_it_is_registered():
    with pytest.raises(
        InvalidPluginError, match=r"^what is registered as runtime 'mine' is the class .*Mine, not a sub"
    ):

        @register("runtime", "mine")
        class Mine: ...

    with pytest.raises(InvalidPluginError, match=r"is of type int, not a subclass of rlcore.envs.EnvProvider or"):
        register("env", "three")(3)
    with pytest.raises(UnknownPluginError, match=r"unknown kind of plugin 'environment'"):
        register("environment", "maze")


@pytest.mark.parametrize("name", ["", "a:b", "a@b", "a b"])
def test_names_that_mean_something_else_cannot_be_registered(name):
    with pytest.raises(
        InvalidPluginError, match=f"^'{name}' cannot name a registered env: no '@', no ':' and no spaces"
    ):
        register("env", name)


@pytest.fixture(autouse=True)
def nothing_but_gymnasiums_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages register ids when they are imported, as other tests of this process may have had them."""
    for spec in registrations().gym_specs:
        monkeypatch.delitem(gymnasium.registry, spec.id)


@pytest.fixture
def gym_id() -> Iterator[str]:
    class Local(gymnasium.Env):
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Discrete(2)

    gymnasium.register("registry-test/Local-v0", Local)
    yield "registry-test/Local-v0"
    del gymnasium.registry["registry-test/Local-v0"]


def test_adopting_a_snapshot_again_is_harmless():
    class Maze: ...

    register("env", "maze")(Maze)
    sent = cloudpickle.dumps(registrations())
    for _ in range(2):
        adopt(cloudpickle.loads(sent))
    assert [name for kind, name, _ in registrations().parts if kind == "env"] == ["maze"]


def test_B056_B057_what_a_script_registers_reaches_a_fresh_process(gym_id, tmp_path):
    """Local classes and lambdas, under names of ours and under Gymnasium's."""

    @register("env", "maze")
    class Maze:
        size = 3

    register("env", "hall")(lambda width=2: width * 10)
    snapshot = registrations()
    assert [spec.id for spec in snapshot.gym_specs] == [gym_id]
    (tmp_path / "sent").write_bytes(cloudpickle.dumps(snapshot))
    program = (
        "import pickle, sys, gymnasium; from rlcore import registry;"
        f"registry.adopt(pickle.load(open({str(tmp_path / 'sent')!r}, 'rb')));"
        f"print(registry.load('env', 'maze').size, registry.load('env', 'hall')(),"
        f" type(gymnasium.make({gym_id!r}).unwrapped).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "3 20 Local", done.stderr


def test_what_was_sent_is_opened_when_it_is_loaded(tmp_path):
    """A worker that needs no policy graph imports no framework for those that the program has registered."""
    module = tmp_path / "expensive_module.py"
    module.write_text("class Expensive: ...\n")
    program = (
        "import pickle, sys; from rlcore import registry;"
        f"sys.path.insert(0, {str(tmp_path)!r});"
        "registry.adopt(pickle.loads(sys.stdin.buffer.read()));"
        "print([(plugin.name, plugin.target) for plugin in registry.available('hook') if plugin.distribution is None]);"
        "again = pickle.loads(__import__('cloudpickle').dumps(registry.registrations())); registry.adopt(again);"
        "print('expensive_module' in sys.modules, registry.load('hook', 'costly').__name__)"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        register("hook", "costly")(importlib.import_module("expensive_module").Expensive)
        sent = cloudpickle.dumps(registrations())
    done = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True, check=False)
    assert done.stdout.decode().splitlines() == [
        "[('costly', 'expensive_module:Expensive')]",
        "False Expensive",
    ], done.stderr


def test_snapshot_leaves_out_what_gymnasium_has_anyway():
    assert not registrations().gym_specs
    assert "CartPole-v1" in gymnasium.registry
    assert registry.Registrations() == registrations()


@pytest.mark.parametrize("name", [5, None, ("a",)])
def test_a_name_that_is_no_text(name):
    with pytest.raises(InvalidPluginError, match=r"^a name to register under is a text, not "):
        registry.register("optimizer", name)
    with pytest.raises(UnknownPluginError, match=r"^optimizer: a name is a text, not "):
        registry.load("optimizer", name)
    with pytest.raises(UnknownPluginError, match=r"^a kind of plugin is named by a text, not "):
        registry.load(name, "x")
