"""Predicted rates, where they can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlcore.runtime.sim.prediction import MeasuredCosts, predict

FREE = MeasuredCosts(
    sample_s=1.0,
    sample_spread=0.0,
    sample_env_steps=100,
    sample_bytes=10_000_000,
    learn_s_per_env_step=0.0,
    weights_bytes=1_000_000,
    latency_s=0.0,
    message_s=0.0,
    bytes_per_s=1e18,
)


def test_sampling_alone_grows_with_the_evaluators() -> None:
    for count in (1, 4, 16):
        assert predict(FREE, count).env_steps_per_s == pytest.approx(100 * count)


def test_learning_is_what_the_driver_does_for_all() -> None:
    found = predict(replace(FREE, learn_s_per_env_step=0.005), 4)
    assert (found.sample_s, found.learn_s) == (pytest.approx(1.0), pytest.approx(2.0))
    assert found.env_steps_per_s == pytest.approx(400 / 3)


def test_samples_come_through_one_link() -> None:
    # 10 MB from each of them, and 1 MB to each.
    found = predict(replace(FREE, bytes_per_s=1e8), 10)
    assert found.env_steps_per_s == pytest.approx(1000 / (1.0 + 10 * 0.1 + 10 * 0.01), rel=0.02)


def test_the_slowest_of_many_is_waited_for() -> None:
    # The largest of 64 draws lies about 2.4 deviations above the median.
    found = predict(replace(FREE, sample_spread=0.2), 64)
    assert found.sample_s == pytest.approx(2.718 ** (2.4 * 0.2), rel=0.1)


def test_messages_of_thousands_of_workers_pass_the_driver_one_by_one() -> None:
    found = predict(replace(FREE, message_s=1e-4, sample_bytes=0), 2048, rounds=2)
    assert found.sample_s == pytest.approx(1.0 + 2048 * 2e-4, rel=0.5)
