"""Evolution around another optimizer: shares of the better members, equal runs, and settings that are refused."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.interrupting import interrupted

from rlcore.batch import MultiAgentBatch
from rlcore.errors import ConfigError, UnknownPluginError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Fragment
from rlcore.testing.environments import TwoAgentEnv
from rlcore.testing.linear import LinearPG
from rlcore.trainer import Trainer
from rlcore_es.shares import parents_shares

pytest.importorskip("rlcore_sync")

BASE: dict[str, Any] = {
    "algorithm": "es",
    "framework": "numpy",
    "env": "rlcore.testing:Contexts",
    "seed": 3,
}
NESTED = {"name": "nested_es", "members": 3, "inner": {"name": "multi_gpu", "epochs": 2}, "noise_std": 0.1}


def trained(count: int = 0, runtime: Any = "inline", steps: int = 2, **settings: Any) -> dict[str, Any]:
    optimizer = {**NESTED, **settings.pop("optimizer", {})}
    evaluators = {"count": count, "envs": 2, "fragment": 16}
    config = {**BASE, **settings, "optimizer": optimizer, "evaluators": evaluators, "runtime": runtime}
    with Trainer(config) as trainer:
        for _ in range(steps):
            row = trainer.step()
        filters = trainer.evaluators.filter_statistics()["default"][""]
        return {"weights": trainer.weights_sha256(), "seen": filters.get("count"), **row}


def test_shares_by_hand() -> None:
    assert parents_shares(np.array([1.0, 2.0, 3.0, 4.0]), 0.5).tolist() == [0.0, 0.0, 1 / 3, 2 / 3]
    # Two share the places that have shares 0 and 1 of 3.
    assert parents_shares(np.array([5.0, 5.0, 1.0, 9.0]), 0.5) == pytest.approx([1 / 6, 1 / 6, 0.0, 2 / 3])
    assert parents_shares(np.full(4, -200.0), 0.25).tolist() == [0.25] * 4
    assert parents_shares(np.array([-np.inf, 2.0, 3.0]), 0.1).tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("part", [0.01, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("count", [2, 3, 8, 31])
def test_shares_add_up_to_one_and_rise(count: int, part: float) -> None:
    shares = parents_shares(np.random.default_rng(count).permutation(count).astype(float), part)
    assert shares.sum() == pytest.approx(1.0) and shares.min() >= 0.0
    assert 1 <= np.count_nonzero(shares) <= max(1, int(count * part))


def test_the_same_whoever_has_the_members_learn() -> None:
    expected = trained(filter="mean_std")
    assert expected["env_steps"] == 2 * 3 * 32 and expected["seen"] == 2 * 3 * 32
    for count, runtime in ((1, "inline"), (4, "inline"), (2, "sim")):
        found = trained(count, runtime, filter="mean_std")
        for key in ("weights", "seen", "env_steps", "episode_return_mean", "return_max"):
            assert found[key] == expected[key]


@pytest.mark.parametrize("at", [1, 6, 13])
def test_a_step_that_was_interrupted_may_be_taken_again(at: int) -> None:
    """As by Ctrl-C in a notebook, also while weights are averaged: it has changed nothing."""
    expected = trained()
    evaluators = {"count": 2, "envs": 2, "fragment": 16}
    with Trainer({**BASE, "optimizer": NESTED, "evaluators": evaluators, "runtime": "sim"}) as trainer:
        trainer.step()
        (optimizer,) = trainer.optimizers
        with interrupted(trainer.evaluators._runtime, at):
            optimizer.step()
        row = trainer.step()
        assert trainer.weights_sha256() == expected["weights"]
        assert all(row[key] == expected[key] for key in ("env_steps", "episodes", "return_max"))


def test_it_goes_on_exactly_from_a_checkpoint(tmp_path: Path) -> None:
    """Schedules, filters, numbers of generations: all that the rest of a run depends on, whoever does it."""
    settings = {**BASE, "filter": "mean_std", "evaluators": {"envs": 2, "fragment": 16}, "runtime": "inline"}
    config = {**settings, "optimizer": {**NESTED, "noise_std": [[0, 0.3], [400, 0.0]]}}
    with Trainer(config) as trainer:
        trainer.step(), trainer.step()
        trainer.save(tmp_path / "half")
        rows = [trainer.step(), trainer.step()]
        expected = trainer.weights_sha256()
    with Trainer.restore(tmp_path / "half", trust=True) as trainer:
        again = [trainer.step(), trainer.step()]
        assert trainer.weights_sha256() == expected
    for key in ("env_steps", "episodes", "episode_return_mean", "return_mean", "return_max", "updates"):
        assert [row[key] for row in again] == [row[key] for row in rows]


def test_policies_that_it_does_not_train_stay_as_they_are() -> None:
    evaluator = PolicyEvaluator(
        env=functools.partial(TwoAgentEnv, agent_ids=("a", "b")),
        policies={"a": LinearPG, "b": LinearPG},
        num_envs=2,
        collect=Fragment(8),
        rng=1,
    )
    before = evaluator.get_weights()
    other = {name: weights + 1.0 for name, weights in before["b"].items()}
    evaluator.set_weights({"b": other}, 1)
    spec = evaluator.graph_spec("a")
    fork = evaluator.fork({"a": spec}, np.random.SeedSequence(5))
    found = fork.get_weights()
    for name, weights in other.items():
        assert (found["b"][name] == weights).all() and (found["a"][name] == before["a"][name]).all()
    sample = fork.sample()
    assert isinstance(sample, MultiAgentBatch) and set(sample) == {"a", "b"}


def test_one_member_without_noise_is_the_inner_optimizer() -> None:
    """Two that are the same and learn alike come to what the inner optimizer alone comes to."""
    one = trained(optimizer={"members": 2, "noise_std": 0.0, "parents": 1.0}, steps=1)
    assert one["updates"] == 1 and one["return_mean"] == pytest.approx(one["episode_return_mean"])


def test_settings_of_the_inner_optimizer_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"^optimizer\.inner\.epoch: unknown key, did you mean 'epochs'\?"):
        trained(optimizer={"inner": {"name": "multi_gpu", "epoch": 2}})
    with pytest.raises(UnknownPluginError, match="multigpu"):
        trained(optimizer={"inner": {"name": "multigpu"}})
    with pytest.raises(ConfigError, match=r"optimizer\.members"):
        trained(optimizer={"members": 1})
