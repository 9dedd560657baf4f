"""PolicyEvaluator: what it samples, what it sends and receives, and that it goes on exactly."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.toy_graph import LookaheadGraph, ToyGraph

from rlcore.batch import MultiAgentBatch, SampleBatch, concat
from rlcore.errors import EnvError, NonFiniteError, UserError
from rlcore.evaluator_messages import Update
from rlcore.evaluator_set import EvaluatorSet
from rlcore.learner import Learner
from rlcore.ledger import Ledger
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Progress
from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.snapshot import snapshot
from rlcore.sampling.collect import Episodes, Fragment
from rlcore.sampling.filters import MeanStd, RunningStatistics
from rlcore.testing.environments import Count, NaNCount, TwoAgentEnv


def evaluator(graph: Any = ToyGraph, **others: Any) -> PolicyEvaluator:
    settings: dict[str, Any] = {
        "env": functools.partial(Count, length=(3, 5), truncate=True),
        "num_envs": 2,
        "collect": Fragment(4),
        "rng": 7,
    }
    return PolicyEvaluator(graph=graph, **{**settings, **others})


def two_policies(**others: Any) -> PolicyEvaluator:
    settings: dict[str, Any] = {
        "env": functools.partial(TwoAgentEnv, agent_ids=("a", "b")),
        "num_envs": 3,
        "collect": Fragment(4),
        "policies": {"pa": ToyGraph, "pb": ToyGraph},
        "policy_of": {"a": "pa", "b": "pb"},
        "rng": 7,
    }
    return PolicyEvaluator(**{**settings, **others})


def test_a_lone_policy_gives_a_plain_batch_and_several_a_batch_for_each() -> None:
    assert isinstance(evaluator().sample(), SampleBatch)
    batch = two_policies().sample()
    assert isinstance(batch, MultiAgentBatch)
    assert {name: len(own) for name, own in batch.items()} == {"pa": 12, "pb": 12}
    assert batch.env_steps == 12


def test_policies_named_by_a_mapping_or_after_their_agents() -> None:
    named = two_policies(policies={"a": ToyGraph, "b": ToyGraph}, policy_of=None)
    assert set(named.sample()) == {"a", "b"}
    with pytest.raises(UserError, match="no policy for agent 'b'"):
        two_policies(policy_of={"a": "pa"}).sample()
    with pytest.raises(UserError, match="maps agent 'b' to policy 'nobody'; the policies are: pa, pb"):
        two_policies(policy_of={"a": "pa", "b": "nobody"}).sample()


def test_samples_carry_the_version_of_the_weights_that_acted() -> None:
    one = evaluator()
    assert set(one.sample().cuts["policy_version"]) == {0}
    one.receive(Update({"default": {"w": np.array([2.0])}}, 5, {"default": Progress(100)}, {}))
    batch = one.sample()
    assert set(batch.cuts["policy_version"]) == {5}
    assert set(batch["w_seen"]) == {2.0}
    assert one.policies["default"].progress[-1].env_steps == 100


def test_gradients_are_of_the_chosen_units() -> None:
    one = evaluator()
    batch = one.sample()
    everything = one.gradients(batch)["default"]
    assert everything.count == 8
    part = one.gradients(batch, np.array([0, 2]))["default"]
    assert part.gradients["w"][0] == pytest.approx((10 + 12) / 2)
    one.apply_gradients({"default": part.gradients})
    assert one.get_weights()["default"]["w"].tolist() == [-11.0]


def test_weights_of_another_shape_or_name_are_refused() -> None:
    one = evaluator()
    with pytest.raises(UserError, match=r"weight 'w' has shape \(2,\), expected \(1,\)"):
        one.set_weights({"default": {"w": np.zeros(2)}}, 1)
    with pytest.raises(UserError, match="unknown weights v; there are: w"):
        one.set_weights({"default": {"v": np.zeros(1)}}, 1)


def test_the_same_seed_gives_the_same_samples_and_another_seed_others() -> None:
    def sample(seed: int) -> SampleBatch:
        return evaluator(rng=seed).sample()

    np.testing.assert_array_equal(sample(1)["actions"], sample(1)["actions"])
    assert sample(1)["actions"].tolist() != sample(2)["actions"].tolist()


def test_B025_rows_that_need_later_ones_are_held_back_until_these_are_there() -> None:
    held = evaluator(LookaheadGraph, env=functools.partial(Count, length=7, truncate=True), num_envs=1)
    plain = evaluator(ToyGraph, env=functools.partial(Count, length=7, truncate=True), num_envs=1)
    parts = [held.sample() for _ in range(6)]
    assert [len(part) for part in parts] == [2, 5, 3, 4, 4, 4]
    got = concat(parts)
    raw = concat([plain.sample() for _ in range(6)])
    np.testing.assert_array_equal(got["obs"], raw["obs"][: len(got)])
    first_episode = slice(0, 7)
    np.testing.assert_allclose(got["rewards"][first_episode], [2.71] * 5 + [1.9, 1.0], rtol=1e-6)
    assert got["steps"][first_episode].tolist() == [3] * 5 + [2, 1]
    np.testing.assert_allclose(got["discounts"][first_episode], [0.729] * 5 + [0.81, 0.9], rtol=1e-6)
    assert got.cuts["last_obs"][first_episode, 0].tolist() == [13, 14, 15, 16, 17, 17, 17]


def test_B103_a_nan_observation_is_one_error_that_says_where() -> None:
    poisoned = evaluator(env=functools.partial(NaNCount, step=7, slot=1), collect=Fragment(20))
    with pytest.raises(EnvError, match=r"slot 1, step \d+ of its episode: 'obs' is not finite"):
        poisoned.sample()
    tolerant = evaluator(
        env=functools.partial(NaNCount, step=7, slot=1), collect=Fragment(20), check_observations=False
    )
    assert np.isnan(tolerant.sample()["obs"]).any()


@pytest.mark.parametrize("collect", [Fragment(4), Episodes(3)], ids=str)
@pytest.mark.parametrize("graph", [ToyGraph, LookaheadGraph])
def test_B088_an_evaluator_goes_on_exactly_from_its_state(collect: Any, graph: Any) -> None:
    one = evaluator(graph, collect=collect, observation_filter=MeanStd)
    one.sample()
    one.metrics()
    state = snapshot(one.get_state())
    other = evaluator(graph, collect=collect, observation_filter=MeanStd, rng=99)
    other.set_state(state)
    third = evaluator(graph, collect=collect, observation_filter=MeanStd, rng=98)
    third.set_state(snapshot(other.get_state()))
    other = third
    for _ in range(3):
        want, got = one.sample(), other.sample()
        for name in want.rows:
            np.testing.assert_array_equal(want[name], got[name])
        for name in want.cuts:
            np.testing.assert_array_equal(want.cuts[name], got.cuts[name])
        assert one.metrics() == other.metrics()


def test_an_environment_without_state_begins_anew_and_says_so() -> None:
    one = evaluator()
    one.sample()
    state = one.get_state()
    state["env"] = None
    other = evaluator()
    other.set_state(state)
    assert other.metrics().restarts == [0, 1]
    batch = other.sample()
    assert batch["t"].tolist() == [0, 1, 2, 0, 0, 1, 2, 3]


# -- the set


def evaluator_set(count: int, **others: Any) -> EvaluatorSet:
    builders = [functools.partial(evaluator, index=i, rng=i, **others) for i in range(count)]
    return EvaluatorSet(InlineRuntime(), evaluator(rng=0, **others), builders)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_round_has_a_sample_of_every_evaluator(count: int) -> None:
    evaluators = evaluator_set(count)
    reader = evaluators.reader()
    samples = reader.round()
    assert len(samples) == max(count, 1)
    batch = evaluators.fetch(samples, ("default",))
    assert batch.env_steps == 8 * max(count, 1) == len(batch["default"])
    assert [sample.info.rows for sample in samples] == [{"default": 8}] * max(count, 1)


def test_B150_the_local_evaluator_samples_what_one_other_would() -> None:
    alone, one = evaluator_set(0), evaluator_set(1)
    want = alone.fetch(alone.reader().round(), ("default",))["default"]
    got = one.fetch(one.reader().round(), ("default",))["default"]
    np.testing.assert_array_equal(want["actions"], got["actions"])


def test_every_reader_gets_every_sample_once() -> None:
    evaluators = evaluator_set(2)
    first, second = evaluators.reader(), evaluators.reader()
    assert first.round() == second.round()
    later = [first.round(), first.round()]
    assert (first.unread, second.unread) == (0, 2)
    assert [second.round(), second.round()] == later
    assert evaluators.env_steps == 3 * 2 * 8


def test_who_takes_the_place_of_a_lost_evaluator_draws_and_counts_apart() -> None:
    lives = [0, 1, 2, 513]
    made = [evaluator(rng=3, index=5) for _ in lives]
    for one, life in zip(made, lives, strict=True):
        if life:
            one.begin_again(life)
    batches = [one.sample_counted()[1]["default"] for one in made]
    ids = [{int(i) for i in batch.cuts["eps_id"]} for batch in batches]
    assert ids[0] == {(5 << 40) + k for k in range(len(ids[0]))}
    assert [{(i >> 40 & 0x3FFF, i >> 54) for i in own} for own in ids] == [{(5, life % 512)} for life in lives]
    draws = [one._rng.random() for one in made]
    assert len(set(draws)) == len(lives)
    # It is the same one wherever it begins, and goes on with its numbers.
    again = evaluator(rng=3, index=5)
    again.begin_again(2)
    again.set_state(snapshot(made[2].get_state()))
    assert {int(i) >> 54 for i in again.sample_counted()[1]["default"].cuts["eps_id"]} == {2}


def test_merged_filter_statistics_are_those_of_all_observations() -> None:
    evaluators = evaluator_set(3, observation_filter=MeanStd)
    pooled = RunningStatistics((1,))
    reader = evaluators.reader()
    for _ in range(4):
        statistics = evaluators.local.filters["default"][""].get_statistics()
        raw = evaluators.fetch(reader.round(), ("default",))["default"]["obs"].astype(np.float64)
        std = np.sqrt(statistics["m2"] / max(statistics["count"], 1)) if statistics["count"] else 1.0
        pooled.update(raw * std + statistics["mean"])
        evaluators.broadcast({}, {"default": Progress()})
        merged = evaluators.local.filters["default"][""].get_statistics()
        assert merged["count"] == pooled.count
        np.testing.assert_allclose(merged["mean"], pooled.mean, rtol=1e-6)
        for handle in evaluators.handles:
            assert handle._worker.filters["default"][""].get_statistics()["mean"].tolist() == merged["mean"].tolist()


def test_a_set_goes_on_exactly_from_its_state() -> None:
    one, other = (evaluator_set(2, observation_filter=MeanStd) for _ in range(2))
    reader, other_reader = one.reader(), other.reader()
    reader.round()
    one.broadcast({"default": {"w": np.array([3.0])}}, {"default": Progress(8)})
    one.metrics()
    other.set_state(snapshot(one.get_state()))
    assert other.version == 1
    for _ in range(2):
        want = one.fetch(reader.round(), ("default",))["default"]
        got = other.fetch(other_reader.round(), ("default",))["default"]
        for name in want.rows:
            np.testing.assert_array_equal(want[name], got[name])
        np.testing.assert_array_equal(want.cuts["policy_version"], got.cuts["policy_version"])
    assert one.metrics() == other.metrics()


# -- the ledger, the learner, what travels


def test_B115_skipped_updates_of_one_policy_are_bounded_whatever_the_others_do() -> None:
    ledger = Ledger(("a", "b"), bound=3)
    for _ in range(2):
        ledger.note("a", 1, {}, skipped=True)
        ledger.note("b", 1, {}, skipped=False)
    again = Ledger(("a", "b"), bound=3)
    again.set_state(snapshot(ledger.get_state()))
    assert again.skipped == 2
    with pytest.raises(NonFiniteError, match="policy 'a'"):
        again.note("a", 1, {}, skipped=True)


def test_schedules_of_the_next_update_go_by_the_steps_sampled() -> None:
    learner = Learner({"default": evaluator().graph_spec("default")})
    learner.advance(100)
    graph = learner.graphs["default"]
    assert isinstance(graph, ToyGraph)
    assert [progress.env_steps for progress in graph.progress] == [100]


def test_a_spec_that_was_sent_is_opened_when_it_is_looked_into() -> None:
    spec = snapshot(evaluator().graph_spec("default"))
    assert set(vars(spec)) == {"_packed"}
    again = snapshot(spec)
    assert again.graph is ToyGraph
    assert (again.model, again.start) == (None, None)
    assert again.build().get_weights()["w"].tolist() == [0.0]


def test_a_sampling_worker_does_not_import_what_its_specs_were_made_with(tmp_path: Path) -> None:
    specs = {"default": evaluator().graph_spec("default")}
    file = tmp_path / "specs.pickle"
    file.write_bytes(pickle.dumps(specs))
    code = f"import pickle, sys; pickle.load(open({str(file)!r}, 'rb')); print('support' in str(sys.modules))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "False"


def test_gradients_of_a_kept_sample_and_of_one_that_is_not() -> None:
    one = evaluator()
    one.keep_samples(2)
    numbers = [one.sample_counted()[0].number for _ in range(3)]
    outputs, gradients, counts = one.gradients_apart(numbers[-1], {"default": np.array([0, 1])})
    assert outputs["default"].count == 2 and outputs["default"].gradients == {}
    assert set(gradients["default"]) == {"w"} and counts == {"default": 2}
    with pytest.raises(UserError, match="sample 0 is not kept; there are: 1, 2"):
        one.gradients_apart(numbers[0], {"default": np.array([0])})


def test_a_wrong_config_is_named_by_its_key() -> None:
    with pytest.raises(UserError, match="stepp"):
        evaluator(config={"stepp": 1.0})


def test_a_graph_of_the_five_methods_learns_from_batches_however_it_is_driven() -> None:
    one = evaluator()
    graph = one.graph("default")
    batch = one.sample()
    assert isinstance(batch, SampleBatch)
    units = np.array([0, 2])
    graph.learn(graph.pin(batch), units)
    assert graph.get_weights()["w"].tolist() == [-11.0]
    one.keep_samples(1)
    number = one.sample_counted()[0].number
    outputs, _, _ = one.gradients_apart(number, {"default": units})
    assert outputs["default"].count == 2
