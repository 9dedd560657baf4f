"""The rules that the kit has for every runtime."""

from __future__ import annotations

import pytest

from rlcore.testing.kit.runtime import check_runtime


@pytest.mark.xdist_group("ray")
def test_the_runtime_ray_keeps_all_rules(local_ray: str) -> None:
    report = check_runtime("ray")
    assert report.ok and not report.untested
