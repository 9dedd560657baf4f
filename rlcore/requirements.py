"""What installed packages say that they require."""

from __future__ import annotations

import importlib.metadata
import re


def requirements(distribution: str) -> list[str]:
    """One line each, with versions and markers; none where the distribution is not installed."""
    try:
        return importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return []


def required_name(requirement: str) -> str:
    """The distribution's name in a line of :func:`requirements`."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    return match.group() if match else requirement


def is_of_extra(requirement: str) -> bool:
    """Whether it is for an extra alone."""
    return "extra ==" in requirement


def canonical(distribution: str) -> str:
    """A distribution's name in the one form in which installers compare it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def provider_of(module: str, distribution: str) -> str | None:
    """The distribution that ``distribution`` requires for ``module`` (top-level), which need not be installed.

    None where no requirement bears the module's name: metadata does not say more of what is not there.
    """
    names = map(required_name, requirements(distribution))
    return next((name for name in names if canonical(name) == canonical(module)), None)
