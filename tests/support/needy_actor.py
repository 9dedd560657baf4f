"""An actor whose module imports a package that the kernel does not need."""

from __future__ import annotations

from hypothesis import settings

from rlcore.testing.linear import LinearActor


class NeedsAPackage(LinearActor):
    profile = settings.default
