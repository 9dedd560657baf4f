"""What new plugins may be called, and what they are called then."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rlcore import cli, registry
from rlcore.errors import UnknownPluginError, UserError
from rlcore.registry import KINDS
from rlcore.scaffold import PluginName, new_plugin
from rlcore.scaffold.names import check_name
from rlcore.testing import CountEnv


def names(kind: str, name: str) -> PluginName:
    return check_name(KINDS[kind], name)


def test_the_names_of_a_plugin() -> None:
    own = names("optimizer", "slow-cooker.v2")
    assert (own.given, own.part) == ("slow-cooker.v2", "slow-cooker.v2")
    assert (own.module, own.wheel, own.class_name) == ("slow_cooker_v2", "slow_cooker_v2", "SlowCookerV2")


def test_a_policy_graph_is_named_with_its_framework() -> None:
    assert names("policy_graph", "mine.ppo").part == "mine.ppo"
    alone = names("policy_graph", "mine")
    assert (alone.given, alone.part, alone.module) == ("mine", "mine.pg", "mine")


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("optimizer", "", "'' cannot name a package: letters and digits, a letter first"),
        ("optimizer", "3d", "'3d' cannot name a package"),
        ("optimizer", "-x", "'-x' cannot name a package"),
        ("optimizer", "x_", "'x_' cannot name a package"),
        ("optimizer", "two words", "'two words' cannot name a package"),
        ("optimizer", "../up", "'../up' cannot name a package"),
        ("env", "gym:Maze", "'gym:Maze' cannot name a package"),
        ("hook", "größe", "'größe' cannot name a package"),
        ("hook", "class", "'class' cannot name a package: 'class' is a word of Python's own"),
        ("hook", "x" * 41, "is too long for a name: it has 41 characters, 40 are enough"),
        ("policy_graph", "my-own.pg", "'my-own.pg' cannot name a policy graph: it is 'framework.graph'"),
        ("policy_graph", "a.b.c", "'a.b.c' cannot name a policy graph"),
        ("runtime", "inline", "the runtime 'inline' is there already, of rlcore "),
        ("policy_graph", "numpy", "the policy graph 'numpy.pg' is there already"),
        ("policy_graph", "click", "there is a package 'click' "),
        ("policy_graph", "numpy.pg", "the policy graph 'numpy.pg' is there already, of rlcore "),
        ("hook", "json", "there is a module 'json' already, which a package 'json' would hide"),
        ("hook", "rlcore", "there is a package 'rlcore' "),
        ("command", "train", "'train' is a command of rlcore's own: choose another name"),
    ],
)
def test_names_that_cannot_be_had(kind: str, name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        new_plugin(kind, name, tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_name_of_ours_is_taken_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "available", lambda kind: [])
    with pytest.raises(UserError, match="the algorithm 'ppo' is there already, of rlcore-sync, which is not installed"):
        names("algorithm", "ppo")


def test_what_the_program_registered_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    registry.register("env", "corridor")(CountEnv)
    with pytest.raises(UserError, match="the env 'corridor' is there already, of this program: choose another name"):
        new_plugin("env", "corridor", tmp_path)


def test_a_kind_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(UnknownPluginError, match=r"unknown kind of plugin 'optimiser'; did you mean 'optimizer'\?"):
        new_plugin("optimiser", "mine", tmp_path)


def test_a_place_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "quick").mkdir()
    with pytest.raises(UserError, match="quick exists already: choose another name, or another folder to be in"):
        new_plugin("optimizer", "quick", tmp_path)
    assert list((tmp_path / "quick").iterdir()) == []


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UserError, match=r"cannot write .*quick: "):
        new_plugin("optimizer", "quick", file)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli.main, ["new-plugin", "optimizer", "quick"])
    assert (done.exit_code, done.stdout) == (0, "quick\n")
    assert done.stderr == "next: cd quick && pip install --editable '.[testing]' && python -m pytest\n"
    again = CliRunner().invoke(cli.main, ["new-plugin", "optimizer", "quick"])
    assert (again.exit_code, again.stdout) == (2, "")
    assert again.stderr == "error: quick exists already: choose another name, or another folder to be in\n"
