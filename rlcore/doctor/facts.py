"""What there is on this machine: processors, memory, limits, GPUs, packages, and whether their parts load."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rlcore import plugin_check, registry
from rlcore.errors import AmbiguousPluginError
from rlcore.requirements import is_of_extra, required_name, requirements

#: Seconds after which asking the driver counts as failed.
PATIENCE_S = 30.0

#: Where Linux keeps what processes share; Ray puts samples there.
SHARED_MEMORY = Path("/dev/shm")

#: Distributions that are no requirement of anybody's here, and are known to matter.
OPTIONAL = ("matplotlib", "tensorboard", "imageio-ffmpeg", "gym")


@dataclass(frozen=True)
class Memory:
    """In bytes, bounded by what this container may have."""

    total: int
    available: int


@dataclass(frozen=True)
class Machine:
    """Sizes are in bytes; None where this system does not say."""

    python: str
    system: str
    #: Of the machine, and those that this process may use.
    cores: int
    usable: int
    memory: Memory | None
    folder: Path
    disk_free: int
    writable: bool
    #: What all processes together can share.
    shared_memory: int | None
    #: How many files a process may have open.
    open_files: int | None
    #: The environment variable ``OMP_NUM_THREADS``.
    threads: str | None


@dataclass(frozen=True)
class Gpus:
    """``lines`` describe one each; ``fault`` says why the driver does not answer. None of both where there is none."""

    lines: tuple[str, ...] = ()
    fault: str | None = None


@dataclass(frozen=True)
class Package:
    """A distribution with parts; ``faults`` are ``{problem: the parts that have it}``, ``requires`` its metadata's."""

    name: str
    version: str
    faults: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    requires: tuple[str, ...] = ()


@dataclass(frozen=True)
class Packages:
    """Those with parts, the versions of everything that they require (without extras), and the kernel's own.

    ``kernel`` is None where rlcore runs from a folder. A requirement that is not installed has no version.
    """

    packages: tuple[Package, ...]
    versions: Mapping[str, str]
    kernel: str | None


@dataclass(frozen=True)
class Parts:
    """``{kind: names}`` of what can be asked for, and what is said where a name is taken twice."""

    names: Mapping[str, tuple[str, ...]]
    clashes: tuple[str, ...] = ()


def machine() -> Machine:
    """That which this process runs on."""
    cores, folder = os.cpu_count() or 1, Path.cwd()
    return Machine(
        python=f"{platform.python_version()} ({sys.executable})",
        system=platform.platform(),
        cores=cores,
        usable=_usable(cores),
        memory=_memory(),
        folder=folder,
        disk_free=shutil.disk_usage(folder).free,
        writable=os.access(folder, os.W_OK),
        shared_memory=shutil.disk_usage(SHARED_MEMORY).total if SHARED_MEMORY.is_dir() else None,
        open_files=_open_files(),
        threads=os.environ.get("OMP_NUM_THREADS"),
    )


def _usable(cores: int) -> int:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    quota = _cgroup("cpu.max").split()
    if quota and quota[0] != "max":
        usable = min(usable, max(1, int(quota[0]) // int(quota[1])))
    return usable


def _memory() -> Memory | None:
    info = dict(re.findall(r"^(\w+): +(\d+) kB$", _read(Path("/proc/meminfo")), re.MULTILINE))
    if not info:
        return None
    total, available = int(info["MemTotal"]) << 10, int(info["MemAvailable"]) << 10
    bound = _cgroup("memory.max").strip()
    if bound.isdigit() and int(bound) < total:
        total = int(bound)
        available = min(available, total)
    return Memory(total, available)


def _open_files() -> int | None:
    try:
        import resource
    except ImportError:
        return None  # not a Unix system
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def gpus() -> Gpus:
    """What the NVIDIA driver reports."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return Gpus()
    query = [tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Gpus(fault=str(error))
    if done.returncode:
        return Gpus(fault=" ".join((done.stderr or done.stdout).split()))
    return Gpus(tuple(line.strip() for line in done.stdout.splitlines()))


def packages() -> Packages:
    """Every package with parts. Its parts are imported in a process of its own."""
    plugins = [plugin for plugin in registry.available() if plugin.distribution is not None]
    faults: dict[str, dict[str, tuple[str, ...]]] = {}
    versions: dict[str, str] = {}
    for found in plugin_check.check(plugins):
        name = str(found.plugin.distribution)
        versions[name] = str(found.plugin.version)
        own = faults.setdefault(name, {})
        if found.problem is not None:
            own[found.problem] = (*own.get(found.problem, ()), found.plugin.name)
    every = tuple(
        Package(name, version, faults[name], tuple(_requirements(name)))
        for name, version in sorted(versions.items(), key=lambda item: (item[0] != "rlcore", item))
    )
    required = {required_name(line) for package in every for line in package.requires}
    found_versions = {name: version for name in sorted(required) if (version := installed_version(name)) is not None}
    return Packages(every, found_versions, installed_version("rlcore"))


def _requirements(distribution: str) -> list[str]:
    return [line for line in requirements(distribution) if not is_of_extra(line)]


def parts() -> Parts:
    """What can be named in a config, by kind."""
    names: dict[str, tuple[str, ...]] = {}
    clashes = []
    for kind in registry.KINDS:
        names[kind] = tuple(dict.fromkeys(plugin.name for plugin in registry.available(kind)))
        for name in names[kind]:
            try:
                registry.find(kind, name)
            except AmbiguousPluginError as error:
                clashes.append(str(error))
    return Parts(names, tuple(clashes))


def extras() -> dict[str, str]:
    """``{distribution: version}`` of those of ``OPTIONAL`` that are installed."""
    return {name: version for name in OPTIONAL if (version := installed_version(name)) is not None}


def installed_version(distribution: str) -> str | None:
    """None where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _read(path: Path) -> str:
    """The text of a file of the system; empty where this system has none."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _cgroup(name: str) -> str:
    return _read(Path("/sys/fs/cgroup") / name)
