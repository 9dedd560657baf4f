"""What checks find: faults with their fixes, what could not be tested, and the report that lists all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rlcore.errors import UserError
from rlcore.lookup_errors import did_you_mean


class Fault(NamedTuple):
    """What is wrong, in one line, and what its author should do about it."""

    what: str
    fix: str


class Untested(Exception):
    """Raised by a rule that has nothing to look at here; the message says why. Not a fault."""


class Problem(NamedTuple):
    """A fault, the rule that it breaks, and the case in which it did (empty where there is only one)."""

    rule: str
    case: str
    what: str
    fix: str

    def __str__(self) -> str:
        where = f"{self.rule} [{self.case}]" if self.case else self.rule
        return f"{where}: {self.what}\n    fix: {self.fix}"


@dataclass(frozen=True)
class Finding:
    """What one rule found in one case. ``untested`` is the reason where it had nothing to look at."""

    rule: str
    case: str = ""
    faults: tuple[Fault, ...] = ()
    untested: str | None = None


@dataclass(frozen=True)
class Report:
    """What all rules found in ``target``.

    ``excused`` is ``{rule: reason}`` of the rules whose faults are accepted; one of them that holds is a problem, so
    that excuses do not outlive what they excuse.
    """

    target: str
    findings: tuple[Finding, ...]
    excused: Mapping[str, str]

    def __post_init__(self) -> None:
        check_excuses(self.excused, {finding.rule for finding in self.findings})

    @property
    def problems(self) -> list[Problem]:
        """Everything that has to be mended, in the order of the rules; what is alike in several cases is one."""
        cases: dict[tuple[str, Fault], list[str]] = {}
        for finding in self.findings:
            for fault in finding.faults:
                cases.setdefault((finding.rule, fault), []).append(finding.case)
        needless = [
            Problem(rule, "", f"is excused ('{reason}'), but holds", "take it out of what is excused")
            for rule, reason in self.excused.items()
            if rule not in self.broken
        ]
        found = [Problem(rule, self._named(rule, own), *fault) for (rule, fault), own in cases.items()]
        return [problem for problem in found if problem.rule not in self.excused] + needless

    @property
    def untested(self) -> dict[str, str]:
        """``{rule: reason}`` of those that had nothing to look at in any case."""
        tested = {finding.rule for finding in self.findings if finding.untested is None}
        reasons = {finding.rule: finding.untested for finding in reversed(self.findings) if finding.untested}
        return {finding.rule: reasons[finding.rule] for finding in self.findings if finding.rule not in tested}

    @property
    def broken(self) -> set[str]:
        """The rules with faults, excused or not."""
        return {finding.rule for finding in self.findings if finding.faults}

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    def _named(self, rule: str, cases: list[str]) -> str:
        """The cases, or nothing where they are all that there are."""
        everywhere = [finding.case for finding in self.findings if finding.rule == rule]
        return "" if set(cases) == set(everywhere) else "; ".join(dict.fromkeys(cases))

    def __str__(self) -> str:
        problems = self.problems
        held = len({finding.rule for finding in self.findings} - self.broken - self.untested.keys())
        if problems:
            count = _counted(len(problems), "problem")
        else:
            count = f"{_counted(held, 'rule')} hold{'s' * (held == 1)}" if held else "nothing to test"
        lines = [f"{self.target}: {count}", *(_indented(str(problem)) for problem in problems)]
        reasons: dict[str, list[str]] = {}
        for rule, reason in self.untested.items():
            reasons.setdefault(reason, []).append(rule)
        lines += [_indented(f"not tested: {', '.join(rules)}: {reason}") for reason, rules in reasons.items()]
        lines += [
            _indented(f"excused: {rule}: {reason}") for rule, reason in self.excused.items() if rule in self.broken
        ]
        return "\n".join(lines)

    def raise_problems(self) -> Report:
        """Itself where there is no problem. Raises ``ConformanceError`` with all of them otherwise."""
        if not self.ok:
            raise ConformanceError(self)
        return self


class ConformanceError(AssertionError):
    """Parts break their contracts. The message lists every problem; ``reports`` has them as data."""

    def __init__(self, *reports: Report) -> None:
        super().__init__("\n".join(str(report) for report in reports if not report.ok))
        self.reports = reports

    @property
    def problems(self) -> list[Problem]:
        """Everything that has to be mended."""
        return [problem for report in self.reports for problem in report.problems]


def check_excuses(excused: Mapping[str, str], rules: set[str]) -> None:
    """Raises ``UserError`` for an excuse without a reason, and for one of a rule that there is not."""
    for rule, reason in excused.items():
        if rule not in rules:
            raise UserError(f"'{rule}' is excused, but there is no such rule{did_you_mean(rule, rules)}")
        if not reason.strip():
            raise UserError(f"rule '{rule}' is excused without a reason; say why it cannot hold")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
