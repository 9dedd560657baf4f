"""Commands that installed packages add."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner, Result
from support.packages import Install, install

from rlcore import cli, registry
from rlcore.errors import InvalidPluginError

__all__ = ["install"]

MODULE = """
    import click

    @click.command()
    @click.argument("name")
    def greet(name):
        '''Greet NAME.

        And nobody else.
        '''
        click.echo(f"hello {name}")

    @click.command()
    def fail():
        '''Fail.'''
        from rlcore.errors import UserError
        raise UserError("it cannot be done")

    def plain(): ...
"""


def rlcore(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, list(arguments))


@pytest.fixture
def added(install: Install) -> None:
    commands = {"greet": "added_commands:greet", "fail": "added_commands:fail", "plain": "added_commands:plain"}
    commands |= {"broken": "added_commands_lost:broken", "train": "added_commands:greet"}
    about = {"Summary": "Greets whoever there is."}
    install("greeter", groups={"rlcore.commands": commands}, modules={"added_commands": MODULE}, metadata=about)


def test_a_command_of_a_package_is_run_and_gets_debug(added: None) -> None:
    done = rlcore("greet", "you")
    assert (done.exit_code, done.stdout) == (0, "hello you\n")
    assert "--debug" in rlcore("greet", "--help").stdout
    failed = rlcore("fail")
    assert (failed.exit_code, failed.stderr) == (2, "error: it cannot be done\n")


def test_the_overview_lists_it_without_importing_it(added: None) -> None:
    # As wide as the longest name, whichever commands there are.
    lines = {tuple(line.split(maxsplit=1)) for line in rlcore("--help").stdout.splitlines()}
    assert ("greet", "Greets whoever there is.") in lines
    assert ("broken", "Greets whoever there is.") in lines
    # The kernel's own commands are nobody else's.
    assert any(line[0] == "train" and line[1].startswith("Train a policy") for line in lines if line)


def test_a_broken_one_breaks_only_itself(added: None) -> None:
    done = rlcore("broken")
    assert done.exit_code == 2
    assert "error: command 'broken' of greeter 1.0 cannot be imported (added_commands_lost:broken)" in done.stderr


def test_what_is_no_click_command_is_refused(added: None) -> None:
    with pytest.raises(InvalidPluginError, match=r"'plain' of greeter 1\.0 is the function .*, not a click\.Command"):
        registry.load("command", "plain")
    assert isinstance(registry.load("command", "greet"), click.Command)


def test_plugins_lists_it(added: None) -> None:
    done = rlcore("plugins", "command", "--no-check")
    assert "command\tgreet\tgreeter\t1.0\tnot checked\n" in done.stdout


def test_a_wrong_name_is_guessed_and_one_of_ours_says_what_to_install(install: Install, added: None) -> None:
    assert "there is no command 'gret'; did you mean 'greet'?" in rlcore("gret").stderr
    assert "the command 'tune' comes with rlcore-tune: pip install rlcore-tune" in rlcore("tune").stderr
