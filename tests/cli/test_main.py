"""The command as a whole: quick, one wording for errors, results on stdout and everything else on stderr."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from rlcore import cli
from rlcore.errors import BatchError, ConfigError, NonFiniteError
from rlcore.results import RunFolder


def rlcore(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, list(arguments))


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> dict[str, BaseException]:
    """What the command ``doctor`` raises, under the key ``error``."""
    raised: dict[str, BaseException] = {}

    @click.command()
    def fail() -> None:
        click.echo("a result")
        raise raised["error"]

    monkeypatch.setattr("rlcore.cli.doctor.doctor", fail)
    return raised


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom rlcore.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = 'numpy gymnasium pydantic stevedore rich yaml ray matplotlib torch tensorflow'.split()\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    for name in cli.COMMANDS:
        assert f"\n  {name} " in done.stdout


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("3", "3")])
def test_the_command_keeps_numpy_to_one_thread_unless_told_otherwise_and_importing_it_does_not(
    given: str | None, expected: str
) -> None:
    program = (
        "import os, sys\nimport rlcore, rlcore.cli\nkey = 'OPENBLAS_NUM_THREADS'\n"
        "print(os.environ.get(key), 'numpy' in sys.modules, file=sys.stderr)\n"
        "try: rlcore.cli.main(['doctor'])\nexcept SystemExit: pass\n"
        "print(os.environ.get(key), 'numpy' in sys.modules, file=sys.stderr)"
    )
    settings = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    settings |= {"OPENBLAS_NUM_THREADS": given} if given else {}
    done = subprocess.run([sys.executable, "-c", program], env=settings, capture_output=True, text=True, check=True)
    before, after = done.stderr.splitlines()[0], done.stderr.splitlines()[-1]
    # Set before numpy is imported, else it would come too late.
    assert (before, after) == (f"{given} False", f"{expected} True")


def test_a_program_that_has_numpy_already_keeps_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert rlcore("--help").exit_code == 0
    assert "OPENBLAS_NUM_THREADS" not in os.environ


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_has_help_and_takes_debug(name: str) -> None:
    result = rlcore(name, "--help")
    assert result.exit_code == 0
    assert "--debug" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trian"], "error: there is no command 'trian'; did you mean 'train'?\nsee 'rlcore --help'\n"),
        (["plot"], "error: Missing argument 'RUN...'.\nsee 'rlcore plot --help'\n"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str) -> None:
    result = rlcore(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", said)


def test_an_unknown_option() -> None:
    result = rlcore("plot", "--ouy", "x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: No such option")  # click's words
    assert result.stderr.endswith("\nsee 'rlcore plot --help'\n")


def test_without_arguments_the_help_is_shown() -> None:
    result = rlcore()
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Commands:" in result.stderr


def test_user_errors(failing: dict[str, BaseException]) -> None:
    failing["error"] = ConfigError("policy.lr: unknown key\npolicy.gama: unknown key")
    result = rlcore("doctor")
    assert (result.exit_code, result.stdout) == (2, "a result\n")
    assert result.stderr == "error: policy.lr: unknown key\npolicy.gama: unknown key\n"


def test_a_loss_that_stays_nan_is_an_error_of_a_line(failing: dict[str, BaseException]) -> None:
    failing["error"] = NonFiniteError("the loss was not finite in 100 updates in a row")
    result = rlcore("doctor")
    assert (result.exit_code, result.stderr) == (2, "error: the loss was not finite in 100 updates in a row\n")


@pytest.mark.parametrize("arguments", [["--debug", "doctor"], ["doctor", "--debug"]])
def test_debug_shows_the_trace_before_or_after_the_command(
    failing: dict[str, BaseException], arguments: list[str]
) -> None:
    failing["error"] = ConfigError("no YAML")
    failing["error"].__cause__ = ValueError("line 3")
    result = rlcore(*arguments)
    assert result.exit_code == 2
    assert "ValueError: line 3" in result.stderr
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.endswith("error: no YAML\n")


def test_a_fault_of_the_program_keeps_its_trace(failing: dict[str, BaseException]) -> None:
    failing["error"] = BatchError("columns differ")
    assert rlcore("doctor").exception is failing["error"]


def test_ctrl_c_outside_of_training(failing: dict[str, BaseException]) -> None:
    failing["error"] = KeyboardInterrupt()
    result = rlcore("doctor")
    assert (result.exit_code, result.stderr) == (130, "\n")


def test_a_reader_that_goes_away_is_no_error() -> None:
    program = "import sys; from rlcore.cli import main; main(['--help'])"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode in (0, 1)


def test_plot_prints_the_path_of_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run = RunFolder.create(tmp_path / "run", "algorithm: ppo\nenv: CartPole-v1\n")
    run.append({"iteration": 1, "env_steps": 100, "episode_return_mean": 20.0, "evaluation_return_mean": None})
    result = rlcore("plot", str(run.path))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{run.path / 'learning_curve.png'}\n"
    assert (run.path / "learning_curve.png").is_file()
    result = rlcore("plot", str(run.path), str(run.path), "--out", str(tmp_path / "both.svg"))
    assert result.stdout == f"{tmp_path / 'both.svg'}\n"
    result = rlcore("plot", str(tmp_path / "none"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: there is no run folder at {tmp_path / 'none'}\n"


def test_the_version() -> None:
    result = rlcore("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("rlcore ")


def test_modules_of_the_current_folder_can_be_named(tmp_path: Path) -> None:
    """As the installed script finds them: Python itself puts only the script's folder on the path."""
    (tmp_path / "mine.py").write_text(
        "import gymnasium\n\n\ndef cartpole():\n    return gymnasium.make('CartPole-v1')\n"
    )
    (tmp_path / "json.py").write_text("raise SystemExit('installed modules come first')\n")
    arguments = ["train", "pg", "--framework", "numpy", "--env", "mine:cartpole", "--stop", "iteration=1"]
    done = subprocess.run(
        [sys.executable, "-P", "-c", "from rlcore.cli import main; main()", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
