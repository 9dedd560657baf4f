"""Several optimizers that wait for nobody in one run: they take turns, and nothing is counted twice."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from support.losses import Losses
from support.runs import two_agents

from rlcore.errors import ConfigError, RlcoreError, WorkerLost
from rlcore.trainer import Trainer
from rlcore_async.gradient_products import GradientNote
from rlcore_async.gradient_tally import GradientTally

#: Rows of one sample: two slots of ten environment steps, in which each agent acts.
ENVS, STEPS, EVALUATORS = 2, 10, 3
ROWS = ENVS * STEPS


def settings(left: dict[str, Any], right: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Two policies, each with an optimizer of its own."""
    return two_agents(
        {
            "policies": {"left": {"optimizer": left}, "right": {"optimizer": right}},
            "evaluators.count": EVALUATORS,
            "evaluators.envs": ENVS,
            "evaluators.fragment": STEPS,
            **changes,
        }
    )


def simulated(seed: int, **changes: Any) -> dict[str, Any]:
    costs = {"sample_products": {"seconds": 0.1, "spread": 0.5}, "apply": 0.01}
    return {"runtime": {"name": "sim", "seed": seed, "costs": costs, "max_seconds": 1e5, **changes}}


GRADIENTS = {"name": "async_gradients", "rounds": 3}
SHARDS = {"name": "sharded_ps", "rounds": 5, "shards": 2, "snapshot_every": 4}


#: Batches of one sample and of several. One costs as much as a sample.
SAMPLES = {"name": "async_samples", "rounds": 4, "snapshot_every": 5}
BATCHES = {**SAMPLES, "batch_size": 3 * ROWS, "samples_ahead": 1}


@pytest.mark.parametrize("optimizer", [GRADIENTS, SHARDS, SAMPLES])
def test_two_do_what_one_does_for_both_policies(optimizer: dict[str, Any]) -> None:
    apart = {**optimizer, "max_staleness": 1000}
    found = []
    for right in (optimizer, apart):
        with Trainer(settings(optimizer, right, **{"evaluators.count": 1, "runtime": "inline"})) as trainer:
            rows = [trainer.step() for _ in range(5)]
            assert len(trainer.optimizers) == (1 if right is optimizer else 2)
            found.append((trainer.weights(), [(row["updates"], row["learnt_rows"], row["env_steps"]) for row in rows]))
    (one, counts), (two, others) = found
    assert counts == others and counts[-1][0] == 2 * 5 * optimizer["rounds"]
    for policy_id, weights in one.items():
        assert all((two[policy_id][name] == own).all() for name, own in weights.items())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("right", [SHARDS, {**GRADIENTS, "rounds": 7}])
def test_each_learns_from_every_sample_at_one_pace(right: dict[str, Any], seed: int) -> None:
    with Trainer(settings(GRADIENTS, right, **simulated(seed))) as trainer:
        optimizers: Any = trainer.optimizers
        for i in range(1, 9):
            row = trainer.step()
            assert all(one._tally.samples <= EVALUATORS for one in optimizers)
            assert all(len(one.samples.unread) <= EVALUATORS for one in optimizers)
            assert row["env_steps"] >= i * right["rounds"] * EVALUATORS * ROWS
        # All of it, but for what waits for room.
        waiting = sum(len(one.samples.unread) for one in optimizers)
        assert row["learnt_rows"] == 2 * row["env_steps"] - waiting * ROWS and row["dropped_rows"] == 0
        assert row["updates"] == row["learnt_rows"] // ROWS


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 200))])
def test_whatever_fails_each_learns_from_a_sample_or_counts_it_as_dropped(seed: int) -> None:
    draw = random.Random(seed)
    rates = {kind: draw.choice([0.0, 0.01, 0.03]) for kind in ("crash", "machine", "hang", "request", "answer")}
    faults = {"rates": {**rates, "limit": 4}, "inline_bytes": draw.choice([0, 100_000])}
    losses = Losses()
    with Trainer(settings(GRADIENTS, SHARDS, **simulated(seed, **faults)), hooks=[losses]) as trainer:
        for _ in range(6):
            try:
                row = trainer.step()
            except WorkerLost as error:
                assert any("was replaced after this" in note for note in error.__notes__) and losses.told
                return
            ledgers = [own for one in trainer.optimizers for own in one.get_state()["ledger"].values()]
            taken, learnt = (sum(own[name] for own in ledgers) for name in ("env_steps", "learnt_rows"))
            assert learnt == row["learnt_rows"] <= taken <= row["learnt_rows"] + row["dropped_rows"]
            assert row["dropped_rows"] % ROWS == 0 and (losses.told or not row["dropped_rows"])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("left", [GRADIENTS, SHARDS, SAMPLES])
@pytest.mark.parametrize("right", [SAMPLES, BATCHES])
def test_samples_are_learnt_from_beside_others(left: dict[str, Any], right: dict[str, Any], seed: int) -> None:
    with Trainer(settings(left, {**right, "rounds": 5}, **simulated(seed))) as trainer:
        optimizers: Any = trainer.optimizers
        for i in range(1, 9):
            row = trainer.step()
            # Evaluators wait for the slowest.
            assert all(len(one.samples.unread) <= (one.samples.ahead + 2) * EVALUATORS for one in optimizers)
            assert row["env_steps"] >= i * 5 * EVALUATORS * ROWS
        assert row["dropped_rows"] == 0
        last = optimizers[1]
        learnt = last.get_state()["learner"]["learner"]["learner"]["ledger"]["right"]["learnt_rows"]
        under_way = last._aggregation.under_way + last._learner.under_way
        here = ROWS * (len(last._waiting) + len(last.samples.unread)) + under_way * 3 * ROWS
        assert trainer.evaluators.env_steps - here <= learnt <= trainer.evaluators.env_steps


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 150))])
def test_whatever_fails_samples_and_gradients_go_on_beside_each_other(seed: int) -> None:
    draw = random.Random(seed)
    rates = {kind: draw.choice([0.0, 0.01, 0.03]) for kind in ("crash", "machine", "hang", "request", "answer")}
    faults = {"rates": {**rates, "limit": 4}, "inline_bytes": draw.choice([0, 100_000])}
    left, right = draw.choice([GRADIENTS, SHARDS, SAMPLES]), draw.choice([SAMPLES, BATCHES])
    losses = Losses()
    with Trainer(settings(left, right, **simulated(seed, **faults)), hooks=[losses]) as trainer:
        for _ in range(6):
            before = trainer.row.get("updates", 0)
            try:
                row = trainer.step()
            except WorkerLost as error:
                assert any("was replaced after this" in note for note in error.__notes__) and losses.told
                return
            except RlcoreError as error:
                # With the machines of all who had it.
                assert losses.told and re.search("go on from a checkpoint|lost its last snapshot", str(error))
                return
            assert row["updates"] > before
            assert row["dropped_rows"] % ROWS == 0 and (losses.told or not row["dropped_rows"])


def test_the_seconds_of_a_step_are_counted_once() -> None:
    with Trainer(settings(GRADIENTS, SHARDS, **simulated(1))) as trainer:
        trainer.step()
        before = trainer.row["wall_s"]
        row = trainer.step()
        seconds = row["wall_s"] - before
        assert seconds > 0.3
        assert row["sample_s"] + row["learn_s"] + row["sync_s"] == pytest.approx(seconds)


def test_they_take_turns_with_one_that_replays() -> None:
    pytest.importorskip("rlcore_apex")
    apex = {"name": "apex", "capacity": 4096, "learning_starts": 100, "minibatch_size": 32, "learnt_per_sampled": 2.0}
    config = settings(GRADIENTS, apex, **simulated(2, call=0.0001))
    config["policies"]["right"]["graph"] = "rlcore.testing.linear_q:LinearQ"
    with Trainer(config) as trainer:
        for _ in range(12):
            row = trainer.step()
        states = [one.get_state() for one in trainer.optimizers]
        assert states[0]["ledger"]["left"]["env_steps"] == states[0]["ledger"]["left"]["learnt_rows"] >= 2000
        assert row["updates"] > states[0]["ledger"]["left"]["updates"] + 50


def test_beside_one_that_goes_by_rounds_they_are_refused() -> None:
    pytest.importorskip("rlcore_sync")
    for optimizer in (GRADIENTS, SHARDS, SAMPLES):
        with pytest.raises(ConfigError, match=f"'{optimizer['name']}' takes samples as they come and 'multi_gpu' goes"):
            Trainer(settings(optimizer, {"name": "multi_gpu"}))


def test_both_go_on_from_where_they_were_saved(tmp_path: Any) -> None:
    config = settings(GRADIENTS, SHARDS, **{"evaluators.count": 2, "runtime": "inline"})
    with Trainer(config) as one:
        for _ in range(3):
            one.step()
        one.save(tmp_path / "saved")
        with Trainer.restore(tmp_path / "saved", trust=True) as other:
            for _ in range(3):
                first, second = one.step(), other.step()
                assert (first["env_steps"], first["updates"]) == (second["env_steps"], second["updates"])
            for policy_id, weights in one.weights().items():
                assert all((other.weights()[policy_id][name] == own).all() for name, own in weights.items())


def test_gradients_weigh_as_much_as_they_have_rows() -> None:
    tally = GradientTally(["left", "right"])
    tally.learnt({"left": GradientNote(30, {"loss": 1.0}, False, 1), "right": GradientNote(2, {"loss": 4.0}, False, 1)})
    tally.learnt({"left": GradientNote(10, {"loss": 5.0}, False, 2), "right": GradientNote(6, {}, True, 2)})
    result = tally.result(1.0)
    assert result.stats["left"]["loss"] == pytest.approx(2.0) and result.stats["right"]["loss"] == 4.0
    assert (result.learnt_rows, result.updates, result.skipped_updates) == (48, 3, 1)
