"""How rules are run: each by itself, all of them, whatever the others found.

A rule is a function of a *lab*, which builds the part under test and keeps what is costly to make. It yields a
:class:`Fault` for each thing that is wrong. Its name is its id, the first line of its docstring what it demands.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar, overload

from rlcore.testing.kit.report import Fault, Finding, Report, Untested

_HERE = Path(__file__).parent


class Lab(Protocol):
    """What rules look at. ``case`` tells several labs of one report apart; empty where there is one."""

    @property
    def case(self) -> str: ...

    def begin(self) -> None:
        """Called before each rule."""
        ...

    def close(self) -> None:
        """Called at the end."""
        ...


LabT = TypeVar("LabT", bound=Lab)
LabInput = TypeVar("LabInput", bound=Lab, contravariant=True)
Value = TypeVar("Value")


class Rule(Protocol[LabInput]):
    """A function with a docstring that yields faults."""

    __name__: str
    __doc__: str | None

    def __call__(self, lab: LabInput, /) -> Iterable[Fault]: ...


def demand(rule: Rule[Any]) -> str:
    """What a rule demands: the first paragraph of its docstring, on one line."""
    return " ".join(inspect.cleandoc(rule.__doc__ or rule.__name__).partition("\n\n")[0].split())


def apply(rule: Rule[LabT], lab: LabT) -> Finding:
    """What ``rule`` finds in ``lab``. An exception that leaves the part under test is a fault as well."""
    faults: list[Fault] = []
    try:
        lab.begin()
        for fault in rule(lab):
            faults.append(fault)
    except Untested as reason:
        if not faults:
            return Finding(rule.__name__, lab.case, untested=str(reason))
    except Exception as error:
        faults.append(Fault(describe(error), f"this must not raise; the rule: {demand(rule)}"))
    return Finding(rule.__name__, lab.case, tuple(faults))


def examine(
    target: str, rules: Sequence[Rule[LabT]], labs: Sequence[LabT], excused: Mapping[str, str] | None = None
) -> Report:
    """A report of every rule in every lab. The labs are closed afterwards."""
    try:
        findings = tuple(apply(rule, lab) for rule in rules for lab in labs)
    finally:
        for lab in labs:
            lab.close()
    return Report(target, findings, dict(excused or {}))


def describe(error: BaseException) -> str:
    """``"ValueError: what it said (file.py:12)"``, where the line is the innermost outside of the kit."""
    text = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")
    line = _line(error.__traceback__)
    return f"{text} ({line})" if line else text


def _line(trace: TracebackType | None) -> str:
    frames = [frame for frame in traceback.extract_tb(trace) if _HERE not in Path(frame.filename).parents]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


class once(Generic[Value]):
    """A property that is computed once. Where that fails the first rule reports it; the others have nothing to test."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: object | None, owner: type) -> once[Value] | Value:
        if instance is None:
            return self
        if self._name in vars(instance):
            found: Value = vars(instance)[self._name]
            return found
        failed: dict[str, str] = vars(instance).setdefault("_failed", {})
        if self._name in failed:
            raise Untested(failed[self._name])
        try:
            value = self._compute(instance)
        except Untested as reason:
            failed[self._name] = str(reason)
            raise
        except Exception as error:
            failed[self._name] = f"nothing to look at, because of {describe(error)}"
            raise
        vars(instance)[self._name] = value
        return value
