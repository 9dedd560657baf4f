"""All runtimes of the kernel are held to the rules that the conformance kit has for every runtime."""

from __future__ import annotations

import pytest

from rlcore.runtime.base import Runtime
from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.sim import SimRuntime
from rlcore.testing.suites import RuntimeTests


class TestInline(RuntimeTests):
    runtime = InlineRuntime


class TestSim(RuntimeTests):
    runtime = SimRuntime


def _ray() -> Runtime:
    from rlcore.runtime.ray import RayRuntime

    return RayRuntime()


@pytest.mark.xdist_group("ray")
@pytest.mark.usefixtures("local_ray")
class TestRay(RuntimeTests):
    runtime = _ray
