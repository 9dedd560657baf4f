"""Which versions of a distribution a package's metadata asks for, and whether a version is one of them."""

from __future__ import annotations

import re
from typing import NamedTuple

from rlcore.requirements import canonical

Release = tuple[int, ...]


class Bound(NamedTuple):
    """One comparison of a requirement, such as ``>=0.1``."""

    operator: str
    release: Release


def bounds_on(distribution: str, requirements: list[str]) -> list[Bound] | None:
    """The bounds on a distribution; None where it is not required at all."""
    for line in requirements:
        name = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", line)
        if name and canonical(name.group(1)) == canonical(distribution) and "extra ==" not in line:
            rest = re.sub(r"^\s*\[[^\]]*\]", "", line[name.end() :]).partition(";")[0]
            found = re.findall(r"(===|==|~=|>=|<=|!=|<|>)\s*([0-9][0-9.]*)", rest)
            return [Bound(operator, release(version)) for operator, version in found]
    return None


def has_both_ends(bounds: list[Bound]) -> bool:
    """Whether they exclude some older and some newer versions."""
    operators = {bound.operator for bound in bounds}
    return bool(operators & {">=", ">", "==", "~="}) and bool(operators & {"<", "<=", "==", "~="})


def holds(bounds: list[Bound], version: str) -> bool:
    """Whether ``version`` is within all of them."""
    return all(_holds(bound, release(version)) for bound in bounds)


def release(version: str) -> Release:
    """``"0.1.0rc1"`` gives ``(0, 1, 0)``."""
    numbers = re.match(r"[0-9]+(\.[0-9]+)*", version)
    return tuple(int(number) for number in numbers.group().split(".")) if numbers else ()


def _holds(bound: Bound, have: Release) -> bool:
    width = max(len(bound.release), len(have))
    own, other = (one + (0,) * (width - len(one)) for one in (have, bound.release))
    match bound.operator:
        case ">=":
            return own >= other
        case "<=":
            return own <= other
        case ">":
            return own > other
        case "<":
            return own < other
        case "!=":
            return own != other
        case "~=":
            head = len(bound.release) - 1
            return own >= other and own[:head] == other[:head]
        case _:
            return own == other
