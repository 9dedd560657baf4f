"""What this machine can run, what is wrong with it, and what to change.

What there is is gathered first (:mod:`rlcore.doctor.facts`); what follows from it is a function of that alone
(:mod:`rlcore.doctor.findings`). No framework is imported into this process: versions are read from metadata, and
whether the parts of a package load is tried in processes of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rlcore.doctor import facts, findings
from rlcore.doctor.findings import Finding, Level, Section

__all__ = ["Finding", "Level", "Section", "examine", "problems"]


def examine() -> Iterator[Section]:
    """The sections in order, each as soon as it is known."""
    machine, gpus = facts.machine(), facts.gpus()
    yield Section("machine", findings.of_machine(machine))
    yield Section("GPUs", findings.of_gpus(gpus))
    packages = facts.packages()
    yield Section("packages", [*findings.of_packages(packages), *findings.of_builds(packages, gpus)])
    yield Section("parts", findings.of_parts(facts.parts()))
    yield Section("optional", findings.of_extras(facts.extras()))


def problems(sections: Iterable[Section]) -> int:
    """How many findings say that something that is installed does not work."""
    return sum(finding.level is Level.PROBLEM for section in sections for finding in section.findings)
