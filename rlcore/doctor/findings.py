"""What follows from the facts: pure functions, each with a line for all that is well and for all that is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from rlcore import known, lookup_errors, registry
from rlcore.doctor.facts import Gpus, Machine, Package, Packages, Parts
from rlcore.requirements import canonical, required_name
from rlcore.version_bounds import bounds_on, holds


class Level(Enum):
    """How much a finding matters: all is well, something is to be had better, something installed does not work."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One line, how much it matters, and what to do about it."""

    text: str
    level: Level = Level.OK
    advice: str | None = None


@dataclass(frozen=True)
class Section:
    """Findings about one subject."""

    title: str
    findings: list[Finding] = field(default_factory=list)


#: Bytes.
GB, MB = 1 << 30, 1 << 20
#: Below these sizes, in bytes, runs get into trouble.
LITTLE_MEMORY, LITTLE_DISK, LITTLE_SHARED = 512 * MB, GB, GB
#: Files that a driver of many evaluators has open.
FEW_FILES = 1024


# -- the machine


def of_machine(machine: Machine) -> list[Finding]:
    """Python, processors and threads, memory, disk and limits."""
    return [
        Finding(f"Python {machine.python} on {machine.system}"),
        _processors(machine),
        _threads(machine),
        _memory(machine),
        *_shared(machine),
        *_disk(machine),
        *_files(machine),
    ]


def _processors(machine: Machine) -> Finding:
    of = f" of {machine.cores}" if machine.usable != machine.cores else ""
    return Finding(f"processors: {machine.usable} usable{of}")


def _threads(machine: Machine) -> Finding:
    """Frameworks start a thread for each processor of the machine, unless told otherwise."""
    given, usable = machine.threads, machine.usable
    advice = f"export OMP_NUM_THREADS={usable}"
    if given is None and usable < machine.cores:
        text = f"threads: frameworks start {machine.cores}, one for each processor, where only {usable} are usable"
        return Finding(text, Level.NOTE, advice)
    if given is None:
        return Finding("threads: one for each processor (OMP_NUM_THREADS is not set)")
    if not given.isdigit() or int(given) == 0:
        return Finding(f"threads: OMP_NUM_THREADS is '{given}', which is no number of threads", Level.NOTE, advice)
    if int(given) > usable:
        text = f"threads: OMP_NUM_THREADS is {given}, more than the {usable} processors: they wait for each other"
        return Finding(text, Level.NOTE, advice)
    return Finding(f"threads: {given} (OMP_NUM_THREADS)")


def _memory(machine: Machine) -> Finding:
    memory = machine.memory
    if memory is None:
        return Finding("memory: not known on this system")
    text = f"memory: {_gb(memory.total)}, {_gb(memory.available)} available"
    if memory.available < LITTLE_MEMORY:
        return Finding(text, Level.NOTE, "end other programs, or train with fewer evaluators")
    return Finding(text)


def _shared(machine: Machine) -> Iterator[Finding]:
    size = machine.shared_memory
    if size is not None and size < LITTLE_SHARED:
        text = f"shared memory: only {_gb(size)}, so that Ray exchanges samples through the disk"
        yield Finding(text, Level.NOTE, "in a container: start it with --shm-size=2g or more")
    elif size is not None:
        yield Finding(f"shared memory: {_gb(size)}")


def _disk(machine: Machine) -> Iterator[Finding]:
    text = f"disk: {_gb(machine.disk_free)} free for runs in {machine.folder}"
    if machine.disk_free < LITTLE_DISK:
        yield Finding(text, Level.NOTE, "make room, or write runs elsewhere with --out")
    else:
        yield Finding(text)
    if not machine.writable:
        text = f"disk: {machine.folder} is read-only for you, so that no run can be written in it"
        yield Finding(text, Level.NOTE, "write runs elsewhere with --out")


def _files(machine: Machine) -> Iterator[Finding]:
    files = machine.open_files
    # A negative number stands for as many as one likes.
    if files is not None and 0 <= files < FEW_FILES:
        yield Finding(f"open files: only {files} at a time; many evaluators need more", Level.NOTE, "ulimit -n 65536")


def of_gpus(gpus: Gpus) -> list[Finding]:
    """Those that there are, and a driver that does not answer."""
    if gpus.fault is not None:
        advice = "see to the driver's installation; until then learning runs on the processor"
        return [Finding(f"nvidia-smi fails: {gpus.fault}", Level.NOTE, advice)]
    if not gpus.lines:
        return [Finding("none found: learning runs on the processor")]
    return [Finding(line) for line in gpus.lines]


# -- packages


def of_packages(packages: Packages) -> list[Finding]:
    """Every package with parts, what it builds on, versions that do not go together, and missing frameworks."""
    found = [_package(package, packages) for package in packages.packages]
    for package in packages.packages:
        found += _versions(package, packages)
    if packages.kernel is None:
        found.append(Finding("rlcore runs from a folder and is not installed", Level.NOTE, "pip install --editable ."))
    return [*found, *_frameworks(packages)]


def _package(package: Package, packages: Packages) -> Finding:
    named = f"{package.name} {package.version}"
    if not package.faults:
        return Finding(f"{named} loads{_built_on(package, packages)}")
    causes = "; ".join(f"{', '.join(parts)}: {problem}" for problem, parts in package.faults.items())
    missing = [line for line in package.requires if ";" not in line and required_name(line) not in packages.versions]
    wanted = " ".join(f"'{line}'" for line in missing) or f"--force-reinstall {package.name}"
    advice = lookup_errors.install_line(wanted)
    return Finding(f"{named} is broken; {causes}", Level.PROBLEM, advice)


#: Of what the kernel requires.
_SHOWN_OF_KERNEL = ("gymnasium", "numpy", "ray")


def _built_on(package: Package, packages: Packages) -> str:
    """What the package requires and the kernel does not (its framework, say), with the installed versions."""
    kernel = next((one for one in packages.packages if one.name == "rlcore"), None)
    shared = {required_name(line) for line in kernel.requires} if kernel is not None else set()
    names = dict.fromkeys(map(required_name, package.requires))
    if package is kernel:
        shown = [name for name in names if name in _SHOWN_OF_KERNEL]
    else:
        shown = [name for name in names if name not in shared and not name.startswith("rlcore")]
    found = [f"{name} {packages.versions.get(name, 'missing')}" for name in shown]
    return f", with {', '.join(found)}" if found else ""


def _versions(package: Package, packages: Packages) -> Iterator[Finding]:
    """Requirements that what is installed does not meet; our own packages move together."""
    for name in dict.fromkeys(map(required_name, package.requires)):
        have, bounds = packages.versions.get(name), bounds_on(name, list(package.requires))
        if have is None or not bounds or holds(bounds, have):
            continue
        line = next(line for line in package.requires if canonical(required_name(line)) == canonical(name))
        wanted = line.partition(";")[0].strip()
        text = f"{package.name} {package.version} requires {wanted}, and {have} is installed"
        yield Finding(text, Level.PROBLEM, f"pip install '{wanted}'")
    kernel = packages.kernel
    if kernel is not None and package.name in known.KNOWN and _minor(package.version) != _minor(kernel):
        text = f"{package.name} {package.version} is made for another rlcore than {kernel}"
        yield Finding(text, Level.PROBLEM, f"pip install --upgrade rlcore {package.name}")


def _frameworks(packages: Packages) -> Iterator[Finding]:
    """Those of our own policy graphs that are not installed."""
    here = {package.name for package in packages.packages}
    owners = {
        known.framework_of(name): owner for name, owner in known.names_of("policy_graph").items() if owner != "rlcore"
    }
    missing = {framework: owner for framework, owner in owners.items() if owner not in here}
    if len(missing) < len(owners):
        return
    lines = " or ".join(map(lookup_errors.install_line, missing.values()))
    yield Finding(f"no framework: there is no policy graph in {' or '.join(missing)}", Level.NOTE, lines)


def of_builds(packages: Packages, gpus: Gpus) -> list[Finding]:
    """Frameworks that were built without what this machine has."""
    found = []
    for name, version in packages.versions.items():
        if gpus.lines and version.endswith("+cpu"):
            advice = f"install a build of {name} for the GPU, as its own pages say"
            found.append(Finding(f"{name} {version} was built for the processor alone", Level.NOTE, advice))
    return found


# -- parts

#: Kinds of which a training needs none.
OPTIONAL_KINDS = ("hook", "command")


def of_parts(parts: Parts) -> list[Finding]:
    """What can be named in a config, by kind, what is missing for a first training, and names that are taken twice."""
    found = []
    for kind, names in parts.names.items():
        label = registry.KINDS[kind].label
        if names:
            found.append(Finding(f"{label}: {', '.join(names)}"))
        elif kind not in OPTIONAL_KINDS:
            ours = list(dict.fromkeys(known.names_of(kind).values()))
            advice = " or ".join(map(lookup_errors.install_line, ours)) or None
            found.append(Finding(f"{label}: none installed", Level.NOTE, advice))
    found += [Finding(clash, Level.PROBLEM) for clash in parts.clashes]
    return found


# -- what is optional

#: ``{distribution: (what it is for, the extra of rlcore that brings it)}``
_EXTRAS = {
    "matplotlib": ("pictures of learning curves", "plot"),
    "tensorboard": ("TensorBoard events", "tensorboard"),
    "imageio-ffmpeg": ("videos", "video"),
}


def of_extras(versions: Mapping[str, str]) -> list[Finding]:
    """Pictures, events, videos, and a library that is known to get in the way."""
    found = []
    for name, (use, extra) in _EXTRAS.items():
        if name in versions:
            found.append(Finding(f"{name} {versions[name]} for {use}"))
        else:
            found.append(
                Finding(f"{name} is not installed, so no {use}", Level.NOTE, f"pip install 'rlcore[{extra}]'")
            )
    if "gym" in versions:
        text = f"gym {versions['gym']} is installed; rlcore takes environments of its successor gymnasium only"
        found.append(Finding(text, Level.NOTE, "make environments with gymnasium"))
    return found


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _gb(size: int) -> str:
    return f"{size / GB:.1f} GB"
