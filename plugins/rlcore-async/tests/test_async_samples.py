"""The optimizer held to the contract of its kind, on every runtime that is installed."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore.testing.suites import OptimizerTests


#: One process of pytest has the tests that start a Ray.
@pytest.mark.xdist_group("ray")
class TestAsyncSamples(OptimizerTests):
    optimizer = "async_samples"


@pytest.mark.xdist_group("ray")
class TestAsyncSamplesWithEverySetting(OptimizerTests):
    optimizer = "async_samples"
    config: dict[str, Any] = {
        "batch_size": 100,
        "epochs": 2,
        "minibatch_size": 48,
        "replay_share": 0.25,
        "replay_capacity": 300,
        "aggregators": 2,
        "samples_ahead": 1,
        "learner_queue": 2,
        "max_weight_delay": 128,
        "max_staleness": 20,
    }
