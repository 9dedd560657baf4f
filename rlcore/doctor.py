"""What this machine can run: processors, memory, installed packages and whether they load, and common problems."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from rlcore import known, lookup_errors, plugin_check, registry
from rlcore.errors import AmbiguousPluginError
from rlcore.requirements import is_of_extra, required_name, requirements

#: Seconds after which asking the driver counts as failed.
PATIENCE_S = 30.0


class Level(Enum):
    """How much a finding matters: nothing to do, good to know, or something will not work."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One line, and how much it matters."""

    text: str
    level: Level = Level.OK


@dataclass
class Section:
    """Findings about one subject."""

    title: str
    findings: list[Finding] = field(default_factory=list)

    def add(self, text: str, level: Level = Level.OK) -> None:
        """Adds a finding."""
        self.findings.append(Finding(text, level))


def examine() -> Iterator[Section]:
    """The sections in order, each as soon as it is known. Packages are imported in processes of their own."""
    yield machine()
    yield gpus()
    yield packages()
    yield parts()
    yield extras()


# -- the machine


def machine() -> Section:
    """Python, processors, memory, disk and limits."""
    section = Section("machine")
    section.add(f"Python {platform.python_version()} ({sys.executable}) on {platform.platform()}")
    _processors(section)
    _memory(section)
    free = shutil.disk_usage(Path.cwd()).free
    section.add(f"disk: {_gb(free)} free for runs in {Path.cwd()}", Level.PROBLEM if free < 1 << 30 else Level.OK)
    if not os.access(Path.cwd(), os.W_OK):
        section.add(f"no run can be written in {Path.cwd()}: it is read-only for you", Level.PROBLEM)
    _limits(section)
    return section


def _processors(section: Section) -> None:
    cores = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    quota = _cgroup("cpu.max").split()
    if quota and quota[0] != "max":
        usable = min(usable, max(1, int(quota[0]) // int(quota[1])))
    section.add(f"processors: {usable} usable" + (f" of {cores}" if usable != cores else ""))


def _memory(section: Section) -> None:
    info = dict(re.findall(r"^(\w+): +(\d+) kB$", _read(Path("/proc/meminfo")), re.MULTILINE))
    if not info:
        section.add("memory: not known on this system")
        return
    total, free = int(info["MemTotal"]) << 10, int(info["MemAvailable"]) << 10
    bound = _cgroup("memory.max").strip()
    if bound.isdigit() and int(bound) < total:
        total = int(bound)
        free = min(free, total)
    section.add(f"memory: {_gb(total)}, {_gb(free)} available", Level.PROBLEM if free < 1 << 29 else Level.OK)
    shared = Path("/dev/shm")
    if shared.is_dir() and (size := shutil.disk_usage(shared).total) < 1 << 30:
        section.add(
            f"shared memory: {shared} has only {_gb(size)}, so Ray would exchange samples through the disk "
            "(in a container: start it with --shm-size=2g or more)",
            Level.NOTE,
        )


def _limits(section: Section) -> None:
    try:
        import resource
    except ImportError:
        return  # not a Unix system
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1024:
        section.add(f"open files: only {soft} at a time; many evaluators need more (ulimit -n 65536)", Level.PROBLEM)


def gpus() -> Section:
    """The graphics processors that the NVIDIA driver reports."""
    section = Section("GPUs")
    tool = shutil.which("nvidia-smi")
    if tool is None:
        section.add("none found (no nvidia-smi): learning runs on the processor")
        return section
    query = [tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        section.add(f"nvidia-smi fails: {error}", Level.PROBLEM)
        return section
    if done.returncode:
        section.add(f"nvidia-smi fails: {' '.join((done.stderr or done.stdout).split())}", Level.PROBLEM)
    else:
        for line in done.stdout.splitlines():
            section.add(line.strip())
    return section


# -- packages


def packages() -> Section:
    """Every package with parts: its version, whether its parts load, and the versions of what it builds on."""
    section = Section("packages")
    plugins = [plugin for plugin in registry.available() if plugin.distribution is not None]
    # {package: {problem: the parts that have it}}
    faults: dict[str, dict[str, list[str]]] = {}
    versions: dict[str, str] = {}
    for found in plugin_check.check(plugins):
        name = str(found.plugin.distribution)
        versions[name] = str(found.plugin.version)
        if found.problem is not None:
            faults.setdefault(name, {}).setdefault(found.problem, []).append(found.plugin.name)
    for name, version in sorted(versions.items(), key=lambda item: (item[0] != "rlcore", item)):
        if name in faults:
            causes = "; ".join(f"{', '.join(broken)}: {problem}" for problem, broken in faults[name].items())
            section.add(f"{name} {version} is broken; {causes}", Level.PROBLEM)
        else:
            section.add(f"{name} {version} loads{_built_on(name)}")
    _compare_versions(section, versions)
    return section


def _compare_versions(section: Section, versions: Mapping[str, str]) -> None:
    """Our own packages move together: one of another minor version was left behind by an upgrade."""
    try:
        kernel = importlib.metadata.version("rlcore")
    except importlib.metadata.PackageNotFoundError:
        section.add("rlcore runs from a folder and is not installed: pip install -e . makes its command", Level.NOTE)
        return
    for name, version in versions.items():
        if name in known.KNOWN and version.split(".")[:2] != kernel.split(".")[:2]:
            section.add(f"{name} {version} is made for another rlcore than {kernel}: install both anew", Level.PROBLEM)


def _built_on(name: str) -> str:
    """What the package requires and the kernel does not (its framework, say), with the installed versions."""
    shared = {"rlcore", *_requirements("rlcore")}
    found = []
    for requirement in _requirements(name) if name != "rlcore" else ["numpy", "gymnasium", "ray"]:
        if requirement not in shared or name == "rlcore":
            try:
                found.append(f"{requirement} {importlib.metadata.version(requirement)}")
            except importlib.metadata.PackageNotFoundError:
                found.append(f"{requirement} missing")
    return f", with {', '.join(found)}" if found else ""


def _requirements(distribution: str) -> list[str]:
    """The names of what a distribution requires, without extras."""
    names = [required_name(line) for line in requirements(distribution) if not is_of_extra(line)]
    return list(dict.fromkeys(name for name in names if not name.startswith("rlcore-")))


#: Kinds of which a training needs none.
OPTIONAL_KINDS = ("hook", "command")


def parts() -> Section:
    """What can be named in a config, by kind, and what is missing for a first training."""
    section = Section("parts")
    for kind, which in registry.KINDS.items():
        plugins = registry.available(kind)
        if plugins:
            section.add(f"{which.label}: {', '.join(dict.fromkeys(plugin.name for plugin in plugins))}")
        elif kind not in OPTIONAL_KINDS:
            ours = list(dict.fromkeys(known.names_of(kind).values()))
            hint = f": {' or '.join(map(lookup_errors.install_line, ours))}" if ours else ""
            section.add(f"{which.label}: none installed{hint}", Level.PROBLEM)
        for name in dict.fromkeys(plugin.name for plugin in plugins):
            try:
                registry.find(kind, name)
            except AmbiguousPluginError as error:
                section.add(str(error), Level.PROBLEM)
    return section


def extras() -> Section:
    """What is optional: pictures, events, and libraries that are known to get in the way."""
    section = Section("optional")
    for name, use, extra in (
        ("matplotlib", "rlcore plot", "plot"),
        ("tensorboard", "TensorBoard events", "tensorboard"),
    ):
        try:
            section.add(f"{name} {importlib.metadata.version(name)} for {use}")
        except importlib.metadata.PackageNotFoundError:
            section.add(f"{name} is not installed, so no {use}: pip install 'rlcore[{extra}]'", Level.NOTE)
    try:
        old = importlib.metadata.version("gym")
    except importlib.metadata.PackageNotFoundError:
        return section
    section.add(f"gym {old} is installed; rlcore takes environments of its successor gymnasium only", Level.NOTE)
    return section


def problems(sections: Iterable[Section]) -> int:
    """How many findings say that something will not work."""
    return sum(finding.level is Level.PROBLEM for section in sections for finding in section.findings)


# -- small tools


def _read(path: Path) -> str:
    """The text of a file of the system; empty where this system has none."""
    return path.read_text() if path.is_file() else ""


def _cgroup(name: str) -> str:
    return _read(Path("/sys/fs/cgroup") / name)


def _gb(size: int) -> str:
    return f"{size / (1 << 30):.1f} GB"
