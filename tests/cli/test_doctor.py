"""What doctor says of machines and packages, on a machine made up for the purpose."""

from __future__ import annotations

import importlib.metadata
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from rlcore import cli, doctor, plugin_check, registry
from rlcore.doctor import Level, Section
from rlcore.registry import Plugin

PLUGINS = [
    Plugin("policy_graph", "x.pg", "x:PG", "rlcore-x", "0.1.0"),
    Plugin("policy_graph", "x.ppo", "x:PPO", "rlcore-x", "0.1.0"),
    Plugin("optimizer", "fast", "fast:Fast", "fast-one", "1.0"),
    Plugin("optimizer", "fast", "other:Fast", "fast-two", "2.0"),
]


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def available(kind: str | None = None) -> list[Plugin]:
        return [plugin for plugin in PLUGINS if kind in (None, plugin.kind)]

    def check(plugins: Any) -> list[plugin_check.Finding]:
        broken = "ImportError: no libx"
        return [
            plugin_check.Finding(plugin, broken if plugin.distribution == "rlcore-x" else None) for plugin in plugins
        ]

    monkeypatch.setattr(registry, "available", available)
    monkeypatch.setattr(plugin_check, "check", check)


def text(section: Section, level: Level) -> list[str]:
    return [finding.text for finding in section.findings if finding.level is level]


def test_broken_packages_are_named_once_with_their_parts(made_up: None) -> None:
    section = doctor.packages()
    assert text(section, Level.PROBLEM) == ["rlcore-x 0.1.0 is broken; x.pg, x.ppo: ImportError: no libx"]
    assert text(section, Level.OK) == ["fast-one 1.0 loads", "fast-two 2.0 loads"]


def test_missing_kinds_and_clashes(made_up: None) -> None:
    section = doctor.parts()
    found = text(section, Level.PROBLEM)
    for kind, packages in (
        ("env", ("rlcore-gym", "rlcore-batched", "rlcore-multiagent")),
        (
            "algorithm",
            (
                "rlcore-sync",
                "rlcore-replay",
                "rlcore-apex",
                "rlcore-async",
                "rlcore-alphazero",
                "rlcore-es",
                "rlcore-model",
                "rlcore-multiagent",
            ),
        ),
    ):
        assert f"{kind}: none installed: {' or '.join(f'pip install {name}' for name in packages)}" in found
    assert any("fast@fast-one" in line and "fast@fast-two" in line for line in found)
    assert text(section, Level.OK) == ["policy graph: x.pg, x.ppo", "optimizer: fast"]


def test_a_package_that_an_upgrade_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.3.1")
    section = Section("packages")
    doctor._compare_versions(section, {"rlcore-gym": "0.2.0", "rlcore-sync": "0.3.0", "third": "7"})
    assert text(section, Level.PROBLEM) == ["rlcore-gym 0.2.0 is made for another rlcore than 0.3.1: install both anew"]


def test_requirements_are_named_without_the_kernels_own(monkeypatch: pytest.MonkeyPatch) -> None:
    requires = {
        "rlcore": ["numpy>=2.0", "ray"],
        "rlcore-x": [
            "rlcore<0.2,>=0.1",
            "numpy",
            "libx>=1 ; python_version > '3'",
            "absent",
            "pytest; extra == 'test'",
        ],
    }

    def version(name: str) -> str:
        if name == "absent":
            raise importlib.metadata.PackageNotFoundError(name)
        return "9.9"

    monkeypatch.setattr(importlib.metadata, "requires", requires.get)
    monkeypatch.setattr(importlib.metadata, "version", version)
    assert doctor._built_on("rlcore-x") == ", with libx 9.9, absent missing"


@pytest.mark.parametrize(
    ("done", "level", "said"),
    [
        (
            SimpleNamespace(returncode=0, stdout="H100, 81559 MiB, 550.1\n", stderr=""),
            Level.OK,
            "H100, 81559 MiB, 550.1",
        ),
        (
            SimpleNamespace(returncode=9, stdout="has failed\nbecause", stderr=""),
            Level.PROBLEM,
            "nvidia-smi fails: has failed because",
        ),
    ],
)
def test_gpus(monkeypatch: pytest.MonkeyPatch, done: Any, level: Level, said: str) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: done)
    assert text(doctor.gpus(), level) == [said]


def test_a_container_with_little_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "_cgroup", {"memory.max": f"{1 << 28}\n", "cpu.max": "150000 100000\n"}.__getitem__)
    monkeypatch.setattr(doctor, "_read", lambda path: "MemTotal:  8388608 kB\nMemAvailable:  4194304 kB\n")
    monkeypatch.chdir(tmp_path)
    section = doctor.machine()
    assert "memory: 0.2 GB, 0.2 GB available" in text(section, Level.PROBLEM)
    assert any(line.startswith("processors: 1 usable") for line in text(section, Level.OK))


def test_the_command(made_up: None) -> None:
    result = CliRunner().invoke(cli.main, ["doctor"])
    assert result.exit_code == 0
    assert "  ! rlcore-x 0.1.0 is broken; x.pg, x.ppo: ImportError: no libx\n" in result.stdout
    titles = [line for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert titles[:5] == ["machine", "GPUs", "packages", "parts", "optional"]
    assert titles[5].endswith(" problems found")
