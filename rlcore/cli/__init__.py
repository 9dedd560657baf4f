"""The ``rlcore`` command. Subcommands are imported when they are called, so that ``rlcore --help`` is quick.

Installed packages add subcommands with entry points of the group ``rlcore.commands``, each a click command.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from rlcore.cli.warning_lines import plain_warnings

#: ``{subcommand: (import path of its click command, its line in the overview)}``
COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("rlcore.cli.train:train", "Train a policy with a recipe, or as a YAML file says."),
    "resume": ("rlcore.cli.resume:resume", "Go on with a run exactly where it stopped."),
    "evaluate": ("rlcore.cli.evaluate:evaluate", "Let a trained policy act, and print its return as JSON."),
    "serve": ("rlcore.cli.serve:serve", "Let a trained policy act for whoever asks over HTTP."),
    "play": ("rlcore.cli.play:play", "Play a game against a trained policy, in the terminal."),
    "plot": ("rlcore.cli.plot:plot", "Draw the learning curves of runs."),
    "plugins": ("rlcore.cli.plugins:plugins", "Show which parts are installed, and from which package."),
    "new-plugin": ("rlcore.cli.new_plugin:new_plugin", "Write a new plugin: a complete, tested package to start from."),
    "check": ("rlcore.cli.check:check", "Check that a part or a package keeps its contract."),
    "doctor": ("rlcore.cli.doctor:doctor", "Show what this machine can run, and common problems."),
}

#: The entry points of commands of installed packages; the same as of the kind ``command`` in the registry.
GROUP = "rlcore.commands"

#: Exit codes: what the user can mend; Ctrl-C.
USER_ERROR, INTERRUPTED = 2, 130


class RlcoreGroup(click.Group):
    """Imports a subcommand when it is called, gives every one ``--debug``, and words all errors alike."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *added_commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command: click.Command
        if cmd_name in COMMANDS:
            module, _, name = COMMANDS[cmd_name][0].partition(":")
            command = getattr(importlib.import_module(module), name)
        elif cmd_name in added_commands():
            from rlcore import registry

            command = registry.load("command", cmd_name)
        else:
            return None
        _add_debug(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # Without importing them, which click's own overview would do.
        with formatter.section("Commands"):
            lines = {name: line for name, (_, line) in COMMANDS.items()} | added_commands()
            formatter.write_dl(list(lines.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-") and args[0] not in added_commands():
            raise click.UsageError(_no_command(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def main(  # type: ignore[override]  # always leaves by SystemExit
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        _keep_numpy_to_one_thread()
        _see_modules_of_this_folder()
        arguments = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        try:
            with plain_warnings():
                code = super().main(arguments, prog_name or "rlcore", **extra)
        except Exception as error:
            sys.exit(_report(error, debug="--debug" in arguments))
        sys.exit(code if isinstance(code, int) else 0)


def added_commands() -> dict[str, str]:
    """``{subcommand: its line in the overview}`` of installed packages, from their metadata: nothing is imported."""
    from importlib.metadata import entry_points

    lines = {}
    for entry_point in entry_points(group=GROUP):
        about: Any = entry_point.dist.metadata if entry_point.dist is not None else {}
        if entry_point.name not in COMMANDS:
            lines[entry_point.name] = about.get("Summary") or f"Of {about.get('Name') or entry_point.value}."
    return lines


def _no_command(name: str) -> str:
    """What is said of a command that nobody provides."""
    from rlcore.known import names_of
    from rlcore.lookup_errors import did_you_mean, install_line

    ours = names_of("command")
    if name in ours:
        return f"the command '{name}' comes with {ours[name]}: {install_line(ours[name])}"
    return f"there is no command '{name}'{did_you_mean(name, [*COMMANDS, *added_commands()])}"


def _keep_numpy_to_one_thread() -> None:
    """It multiplies small matrices here, which a second thread slows down; read when numpy is first imported."""
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _see_modules_of_this_folder() -> None:
    """Import paths may name the user's own files; last of all places, so that nothing installed is shadowed."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def _report(error: Exception, debug: bool) -> int:
    """Says on stderr what went wrong and returns the exit code; what is a fault of the program is raised again."""
    from rlcore.errors import NonFiniteError, UserError, WorkerFailed, WorkerLost

    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return USER_ERROR
    if isinstance(error, click.Abort):
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        _say_error(error.format_message())
        if isinstance(error, click.UsageError) and error.ctx is not None:
            click.echo(f"see '{error.ctx.command_path} --help'", err=True)
        return USER_ERROR
    if not isinstance(error, UserError | NonFiniteError | WorkerFailed | WorkerLost):
        raise error
    if debug:
        import traceback

        traceback.print_exception(error)
    _say_error(str(error))
    if not debug:
        # Where it comes from and what was tried; the trace itself is for those who ask for it.
        for note in getattr(error, "__notes__", ()):
            click.echo(note.partition("\n")[0].rstrip(":"), err=True)
        if isinstance(error, WorkerFailed):
            click.echo("--debug shows the trace", err=True)
    return USER_ERROR


def _say_error(message: str) -> None:
    first, _, rest = message.partition("\n")
    click.echo(f"error: {first}" + (f"\n{rest}" if rest else ""), err=True)


def _debug_option() -> click.Option:
    return click.Option(["--debug"], is_flag=True, expose_value=False, help="Show the trace of an error.")


def _add_debug(command: click.Command) -> None:
    """Lets ``--debug`` stand after the subcommand, and after its own subcommands, as well."""
    if not any(parameter.name == "debug" for parameter in command.params):
        command.params.append(_debug_option())
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _add_debug(inner)


@click.group(
    "rlcore", cls=RlcoreGroup, params=[_debug_option()], context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="rlcore", message="%(prog)s %(version)s")
def main() -> None:
    """Distributed reinforcement learning from parts that are named and swapped."""
