"""The package and its optimizer, held to the contracts of their kinds: on every runtime that is installed.

With other settings on inline alone, which the tests of the runtimes compare the others with.
"""

from __future__ import annotations

from typing import Any

import pytest

from rlcore.testing.suites import OptimizerTests, PluginTests
from rlcore_model import MBPO

#: One process of pytest has the tests that start a Ray.
RAY = pytest.mark.xdist_group("ray")
SETTINGS: dict[str, Any] = dict(MBPO.conformance["config"])


class TestPackage(PluginTests):
    distribution = "rlcore-model"


@RAY
class TestMBPO(OptimizerTests):
    optimizer = "mbpo"


class TestMBPOInParallel(OptimizerTests):
    optimizer = "mbpo"
    config = {**SETTINGS, "dynamics": {**SETTINGS["dynamics"], "in_parallel": True}}
    runtimes = ("inline", "sim")
