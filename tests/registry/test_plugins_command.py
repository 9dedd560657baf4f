"""`rlcore plugins` and the processes in which it tries the imports."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from rich.console import Console

from rlcore import plugin_check
from rlcore.cli import plugins as module
from rlcore.cli.plugins import plugins
from rlcore.errors import UnknownPluginError
from rlcore.registry import available

RUNTIMES, HOOKS = "rlcore.runtimes", "rlcore.hooks"

#: What an import can do to the process that tries it.
HOSTILE = {
    "dies": "import os; os._exit(7)",
    "crashes": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "prints": "print('[null, null, null]')\nx = 1",
}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Runs the command and gives the lines on stdout."""

    def command(*arguments: str) -> list[str]:
        plugins(list(arguments), standalone_mode=False)
        return capsys.readouterr().out.splitlines()

    return command


@pytest.fixture
def packages(install, runtime_source):
    targets = {"slow": "slow_runtime:Slow", "half": "slow_runtime:Half"}
    install("slow", "2.1", groups={RUNTIMES: targets}, modules={"slow_runtime": runtime_source})
    source = "'''Broken.'''\nimport no_such_thing\n"
    return install("bad", "3.0", groups={HOOKS: {"bad": "bad_hook"}}, modules={"bad_hook": source})


HALF = (
    "runtime\thalf\tslow\t2.1\tbroken: runtime 'half' of slow 2.1 is incomplete: "
    "Half does not define capacity, child, close, get, kill, now, reduce, spawn, wait"
)
SLOW = "runtime\tslow\tslow\t2.1\tok"
BAD = "hook\tbad\tbad\t3.0\tbroken: ModuleNotFoundError: No module named 'no_such_thing'"


def test_B167_list_shows_package_version_and_the_cause_of_what_is_broken(packages, run):
    assert run() == [HALF, SLOW, BAD]
    assert "slow_runtime" not in sys.modules


def test_list_of_one_kind(packages, run):
    assert run("hook") == [BAD]
    assert run("optimizer") == []


def test_list_without_trying(packages, run):
    lines = ["runtime\thalf\tslow\t2.1\tnot checked", "runtime\tslow\tslow\t2.1\tnot checked"]
    assert run("runtime", "--no-check") == lines
    assert run("--no-check", "runtime") == lines


def test_unknown_kind(run):
    with pytest.raises(UnknownPluginError, match=r"unknown kind of plugin 'runtimes'; did you mean 'runtime'"):
        run("runtimes")


def test_nothing_installed_is_said_on_stderr(install, capsys):
    plugins([], standalone_mode=False)
    assert capsys.readouterr() == ("", "no plugins are installed\n")


def test_show(packages, run):
    assert run("show", "slow") == [
        "kind\truntime",
        "name\tslow",
        "package\tslow",
        "version\t2.1",
        "target\tslow_runtime:Slow",
        "status\tok",
        "summary\tRuns everything slowly.",
    ]


def test_show_says_where_a_broken_plugin_failed(packages, run):
    lines = run("show", "bad")
    assert lines[5:] == [
        "status\tbroken: ModuleNotFoundError: No module named 'no_such_thing'",
        f"where\t{packages / 'bad_hook.py'}:2",
    ]


def test_show_of_what_is_not_there(packages, run):
    for name, message in {
        "slwo": "no plugin 'slwo' is installed; did you mean 'slow'?",
        "slow@bad": "no plugin 'slow@bad' is installed; slow 2.1 has one",
        "gym": "no plugin 'gym' is installed\nrlcore-gym provides it: pip install rlcore-gym",
    }.items():
        with pytest.raises(UnknownPluginError) as error:
            run("show", name)
        assert str(error.value) == message


def test_B168_name_taken_twice_is_listed_so(install, runtime_source, run):
    for package in ("one", "two"):
        targets = {"slow": f"{package}_runtime:Slow"}
        install(package, groups={RUNTIMES: targets}, modules={f"{package}_runtime": runtime_source})
    assert run() == [
        "runtime\tslow\tone\t1.0\tok; the name is taken twice, ask for slow@one",
        "runtime\tslow\ttwo\t1.0\tok; the name is taken twice, ask for slow@two",
    ]
    assert run("show", "slow").count("name\tslow") == 2
    assert run("show", "slow@two").count("name\tslow") == 1


def test_import_that_takes_its_process_down_is_reported_and_the_rest_is_tried(install, runtime_source):
    targets = {name: f"{name}:Slow" for name in HOSTILE} | {"slow": "slow_runtime:Slow"}
    install("hostile", groups={RUNTIMES: targets}, modules={**HOSTILE, "slow_runtime": runtime_source})
    problems = {finding.plugin.name: finding.problem for finding in plugin_check.check(available("runtime"))}
    assert problems == {
        "dies": "importing it ended the process (exit code 7)",
        "crashes": "importing it ended the process (SIGKILL)",
        "prints": "AttributeError: module 'prints' has no attribute 'Slow'",
        "slow": None,
    }


def test_import_that_does_not_end_is_reported(install):
    install("stuck", groups={RUNTIMES: {"stuck": "stuck:Slow"}}, modules={"stuck": "import time; time.sleep(60)"})
    (finding,) = plugin_check.check(available("runtime"), timeout=2)
    assert finding.problem == "importing it took more than 2 s"


def test_terminal_gets_a_table_in_which_markup_is_text(install, monkeypatch, capsys):
    install("bad", groups={HOOKS: {"bad": "bad_hook"}}, modules={"bad_hook": "raise ImportError('[red]no[/red]')"})
    monkeypatch.setattr(module, "Console", lambda: Console(width=120, force_terminal=False))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    plugins([], standalone_mode=False)
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["kind", "name", "package", "version", "status"]
    assert row.split(maxsplit=4)[4].strip() == "broken: ImportError: [red]no[/red]"
