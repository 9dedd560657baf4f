"""What doctor makes of machines and packages: each finding from facts made up for it, and how facts are gathered."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from rlcore import cli, known, plugin_check, registry
from rlcore.cli import doctor as command
from rlcore.doctor import Finding, Level, Section, facts, findings
from rlcore.doctor.facts import Gpus, Machine, Memory, Package, Packages, Parts
from rlcore.registry import Plugin

GB = 1 << 30

HEALTHY = Machine(
    python="3.12.1 (/usr/bin/python)",
    system="Linux-6.1",
    cores=8,
    usable=8,
    memory=Memory(16 * GB, 12 * GB),
    folder=Path("/home/me"),
    disk_free=100 * GB,
    writable=True,
    shared_memory=8 * GB,
    open_files=65536,
    threads=None,
)

PLUGINS = [
    Plugin("policy_graph", "x.pg", "x:PG", "rlcore-x", "0.1.0"),
    Plugin("policy_graph", "x.ppo", "x:PPO", "rlcore-x", "0.1.0"),
    Plugin("optimizer", "fast", "fast:Fast", "fast-one", "1.0"),
    Plugin("optimizer", "fast", "other:Fast", "fast-two", "2.0"),
]


def notable(found: list[Finding]) -> list[tuple[str, Level, str | None]]:
    return [(one.text, one.level, one.advice) for one in found if one.level is not Level.OK]


def test_a_healthy_machine() -> None:
    assert [(one.text, one.level) for one in findings.of_machine(HEALTHY)] == [
        ("Python 3.12.1 (/usr/bin/python) on Linux-6.1", Level.OK),
        ("processors: 8 usable", Level.OK),
        ("threads: one for each processor (OMP_NUM_THREADS is not set)", Level.OK),
        ("memory: 16.0 GB, 12.0 GB available", Level.OK),
        ("shared memory: 8.0 GB", Level.OK),
        ("disk: 100.0 GB free for runs in /home/me", Level.OK),
    ]


@pytest.mark.parametrize(
    ("change", "text", "advice"),
    [
        (
            {"usable": 2},
            "threads: frameworks start 8, one for each processor, where only 2 are usable",
            "export OMP_NUM_THREADS=2",
        ),
        (
            {"threads": "16"},
            "threads: OMP_NUM_THREADS is 16, more than the 8 processors: they wait for each other",
            "export OMP_NUM_THREADS=8",
        ),
        (
            {"threads": "all"},
            "threads: OMP_NUM_THREADS is 'all', which is no number of threads",
            "export OMP_NUM_THREADS=8",
        ),
        (
            {"memory": Memory(GB, GB // 4)},
            "memory: 1.0 GB, 0.2 GB available",
            "end other programs, or train with fewer evaluators",
        ),
        (
            {"shared_memory": 64 << 20},
            "shared memory: only 0.1 GB, so that Ray exchanges samples through the disk",
            "in a container: start it with --shm-size=2g or more",
        ),
        (
            {"disk_free": GB // 2},
            "disk: 0.5 GB free for runs in /home/me",
            "make room, or write runs elsewhere with --out",
        ),
        (
            {"writable": False},
            "disk: /home/me is read-only for you, so that no run can be written in it",
            "write runs elsewhere with --out",
        ),
        ({"open_files": 256}, "open files: only 256 at a time; many evaluators need more", "ulimit -n 65536"),
    ],
)
def test_what_to_change_of_a_machine(change: dict[str, Any], text: str, advice: str) -> None:
    assert notable(findings.of_machine(replace(HEALTHY, **change))) == [(text, Level.NOTE, advice)]


def test_what_a_system_does_not_say_is_no_fault() -> None:
    silent = replace(HEALTHY, memory=None, shared_memory=None, open_files=None, threads="1")
    assert notable(findings.of_machine(silent)) == []
    assert "memory: not known on this system" in [one.text for one in findings.of_machine(silent)]
    assert notable(findings.of_machine(replace(HEALTHY, open_files=-1))) == []


def test_gpus() -> None:
    assert findings.of_gpus(Gpus()) == [Finding("none found: learning runs on the processor")]
    assert findings.of_gpus(Gpus(("H100, 81559 MiB, 550.1",))) == [Finding("H100, 81559 MiB, 550.1")]
    ((text, level, advice),) = notable(findings.of_gpus(Gpus(fault="has failed")))
    assert (text, level) == ("nvidia-smi fails: has failed", Level.NOTE)
    assert advice is not None


def test_frameworks_built_for_the_processor_beside_a_gpu() -> None:
    packages = Packages((), {"torch": "2.13.0+cpu", "numpy": "2.4.0"}, "0.1.0")
    assert findings.of_builds(packages, Gpus()) == []
    ((text, level, _),) = notable(findings.of_builds(packages, Gpus(("H100",))))
    assert (text, level) == ("torch 2.13.0+cpu was built for the processor alone", Level.NOTE)


KERNEL = Package("rlcore", "0.1.0", requires=("numpy>=2.0", "ray>=2.40"))
TORCH = Package("rlcore-torch", "0.1.0", requires=("rlcore<0.2,>=0.1", "numpy>=2.0", "torch>=2.2"))
VERSIONS = {"rlcore": "0.1.0", "numpy": "2.4.0", "ray": "2.50", "torch": "2.13.0+cpu"}


def test_packages_that_load_are_shown_with_what_they_build_on() -> None:
    found = findings.of_packages(Packages((KERNEL, TORCH), VERSIONS, "0.1.0"))
    assert found == [
        Finding("rlcore 0.1.0 loads, with numpy 2.4.0, ray 2.50"),
        Finding("rlcore-torch 0.1.0 loads, with torch 2.13.0+cpu"),
    ]


def test_a_broken_package_is_named_once_with_its_parts_and_what_is_missing() -> None:
    broken = replace(TORCH, faults={"ModuleNotFoundError: No module named 'torch'": ("torch.pg", "torch.ppo")})
    packages = Packages((KERNEL, broken), {name: VERSIONS[name] for name in ("rlcore", "numpy", "ray")}, "0.1.0")
    text = "rlcore-torch 0.1.0 is broken; torch.pg, torch.ppo: ModuleNotFoundError: No module named 'torch'"
    assert notable(findings.of_packages(packages)) == [(text, Level.PROBLEM, "pip install 'torch>=2.2'")]
    whole = Packages((KERNEL, broken), VERSIONS, "0.1.0")
    assert notable(findings.of_packages(whole))[0][2] == "pip install --force-reinstall rlcore-torch"


def test_versions_out_of_range() -> None:
    packages = Packages((KERNEL, TORCH), VERSIONS | {"torch": "1.13.1", "ray": "2.9"}, "0.1.0")
    assert notable(findings.of_packages(packages)) == [
        ("rlcore 0.1.0 requires ray>=2.40, and 2.9 is installed", Level.PROBLEM, "pip install 'ray>=2.40'"),
        (
            "rlcore-torch 0.1.0 requires torch>=2.2, and 1.13.1 is installed",
            Level.PROBLEM,
            "pip install 'torch>=2.2'",
        ),
    ]


def test_a_package_that_an_upgrade_left_behind() -> None:
    left = Package("rlcore-torch", "0.2.0")
    third = Package("third", "7")
    assert notable(findings.of_packages(Packages((left, third), {}, "0.3.1"))) == [
        (
            "rlcore-torch 0.2.0 is made for another rlcore than 0.3.1",
            Level.PROBLEM,
            "pip install --upgrade rlcore rlcore-torch",
        )
    ]


def test_without_any_framework_and_without_an_installation() -> None:
    assert notable(findings.of_packages(Packages((KERNEL,), VERSIONS, None))) == [
        ("rlcore runs from a folder and is not installed", Level.NOTE, "pip install --editable ."),
        (
            "no framework: there is no policy graph in torch or tf",
            Level.NOTE,
            "pip install rlcore-torch or pip install rlcore-tf",
        ),
    ]


def test_missing_kinds_and_clashes() -> None:
    names = {"env": (), "optimizer": ("fast",), "hook": ()}
    packages = dict.fromkeys(known.names_of("env").values())
    assert findings.of_parts(Parts(names, ("two have it",))) == [
        Finding("env: none installed", Level.NOTE, " or ".join(f"pip install {name}" for name in packages)),
        Finding("optimizer: fast"),
        Finding("two have it", Level.PROBLEM),
    ]


def test_what_is_optional() -> None:
    found = findings.of_extras({"matplotlib": "3.9", "imageio-ffmpeg": "0.6", "gym": "0.26.2"})
    assert [one.text for one in found if one.level is Level.OK] == [
        "matplotlib 3.9 for pictures of learning curves",
        "imageio-ffmpeg 0.6 for videos",
    ]
    assert [text for text, _, _ in notable(found)] == [
        "tensorboard is not installed, so no TensorBoard events",
        "gym 0.26.2 is installed; rlcore takes environments of its successor gymnasium only",
    ]
    assert notable(found)[0][2] == "pip install 'rlcore[tensorboard]'"


# -- how facts are gathered


def test_a_container_with_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "_cgroup", {"memory.max": f"{1 << 28}\n", "cpu.max": "150000 100000\n"}.__getitem__)
    monkeypatch.setattr(facts, "_read", lambda path: "MemTotal:  8388608 kB\nMemAvailable:  4194304 kB\n")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found = facts.machine()
    assert found.memory == Memory(1 << 28, 1 << 28)
    assert (found.usable, found.threads) == (1, "3")


@pytest.mark.parametrize(
    ("done", "found"),
    [
        (SimpleNamespace(returncode=0, stdout="H100, 81559 MiB\n", stderr=""), Gpus(("H100, 81559 MiB",))),
        (SimpleNamespace(returncode=9, stdout="has failed\nbecause", stderr=""), Gpus(fault="has failed because")),
    ],
)
def test_the_driver_is_asked_for_gpus(monkeypatch: pytest.MonkeyPatch, done: Any, found: Gpus) -> None:
    monkeypatch.setattr(facts.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: done)
    assert facts.gpus() == found


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def available(kind: str | None = None) -> list[Plugin]:
        return [plugin for plugin in PLUGINS if kind in (None, plugin.kind)]

    def check(plugins: Any) -> list[plugin_check.Finding]:
        broken = "ImportError: no libx"
        return [
            plugin_check.Finding(plugin, broken if plugin.distribution == "rlcore-x" else None) for plugin in plugins
        ]

    def version(name: str) -> str:
        if name == "absent":
            raise importlib.metadata.PackageNotFoundError(name)
        return "9.9"

    requires = {"rlcore-x": ["rlcore<0.2,>=0.1", "libx>=1", "absent", "pytest; extra == 'test'"]}
    monkeypatch.setattr(registry, "available", available)
    monkeypatch.setattr(plugin_check, "check", check)
    monkeypatch.setattr(importlib.metadata, "requires", requires.get)
    monkeypatch.setattr(importlib.metadata, "version", version)


def test_packages_are_gathered_with_their_faults_and_requirements(made_up: None) -> None:
    found = facts.packages()
    broken = {"ImportError: no libx": ("x.pg", "x.ppo")}
    assert found.packages == (
        Package("fast-one", "1.0"),
        Package("fast-two", "2.0"),
        Package("rlcore-x", "0.1.0", broken, ("rlcore<0.2,>=0.1", "libx>=1", "absent")),
    )
    assert found.versions == {"rlcore": "9.9", "libx": "9.9"}


def test_names_that_two_packages_have(made_up: None) -> None:
    found = facts.parts()
    assert found.names["optimizer"] == ("fast",)
    (clash,) = found.clashes
    assert "fast@fast-one" in clash and "fast@fast-two" in clash


# -- the command


def test_what_is_broken_is_an_exit_code(made_up: None) -> None:
    result = CliRunner().invoke(cli.main, ["doctor"])
    assert result.exit_code == 1
    assert "  ! rlcore-x 0.1.0 is broken; x.pg, x.ppo: ImportError: no libx\n" in result.stdout
    assert "\n      -> pip install 'absent'\n" in result.stdout
    titles = [line for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert titles[:5] == ["machine", "GPUs", "packages", "parts", "optional"]
    assert titles[5].endswith(" problems found")


def test_notes_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = [Section("machine", [Finding("threads: many", Level.NOTE, "fewer")])]
    monkeypatch.setattr(command, "examine", lambda: sections)
    result = CliRunner().invoke(cli.main, ["doctor"])
    assert (result.exit_code, result.stdout) == (0, "machine\n  - threads: many\n      -> fewer\nno problems found\n")


def test_a_terminal_gets_a_table_in_which_markup_is_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [Finding("x is broken: [red]no[/red]", Level.PROBLEM, "pip install x"), Finding("y loads")]
    monkeypatch.setattr(command, "examine", lambda: [Section("packages", found)])
    monkeypatch.setattr(command, "Console", lambda: Console(width=100, force_terminal=False))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(SystemExit) as ended:
        command.doctor([], standalone_mode=False)
    assert ended.value.code == 1
    title, broken, fine, last = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert title.strip() == "packages"
    assert broken.split() == ["!", "x", "is", "broken:", "[red]no[/red]", "pip", "install", "x"]
    assert (fine.split(), last) == (["y", "loads"], "1 problem found")


def test_no_framework_is_imported_by_it() -> None:
    code = """
import sys
from rlcore import doctor, plugin_check

plugin_check.check = lambda plugins: [plugin_check.Finding(plugin) for plugin in plugins]
assert list(doctor.examine())
print([name for name in ("torch", "tensorflow", "matplotlib", "ray") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
