"""The optimizer: how much it learns, from what, for whom, and that it goes on exactly."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.batch import LENGTH, SampleBatch
from rlcore.errors import BatchError, CheckpointError, ConfigError, OptimizerError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.graph_spec import GraphSpec, RemarkWarning
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import PolicyGraph
from rlcore.runtime.inline import InlineRuntime
from rlcore.sampling.collect import Collect, Episodes, Fragment
from rlcore.testing import Contexts, TableValue, TwoAgentEnv
from rlcore.testing.kit.trees import copied
from rlcore.testing.linear import LinearPG
from rlcore.testing.linear_q import LinearQ
from rlcore.trainer import Trainer
from rlcore_replay import HindsightBuffer, Replay, ReplayBuffer, SequenceBuffer, bytes_for, memory
from rlcore_replay.memory import ReplaySizeWarning
from rlcore_replay.memory_figure import in_words
from rlcore_replay.pace import LearningPace


class Noting(LinearQ):
    """Notes what it learnt from."""

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self.learnt: list[SampleBatch] = []

    def pin(self, batch: SampleBatch) -> Any:
        self.learnt.append(batch)
        return super().pin(batch)


class Silent(LinearQ):
    """Gives no TD error."""

    def gradients(self, batch: Any, units: Any = None) -> Any:
        output = super().gradients(batch, units)
        return type(output)(output.gradients, output.count, output.stats)


def make(
    *,
    graph: type[PolicyGraph] = Noting,
    graph_config: Mapping[str, Any] | None = None,
    envs: int = 2,
    collect: Collect = Fragment(3),
    count: int = 0,
    env: Any = None,
    trains: tuple[str, ...] = ("default",),
    **changes: Any,
) -> Replay:
    """An optimizer on the task of the conformance kit."""
    own = {"learning_starts": 12, "minibatch_size": 4, "learnt_per_sampled": 2.0, "capacity": 100, **changes}
    config = Replay.Config(**own)

    def build(index: int, policies: Mapping[str, Any]) -> PolicyEvaluator:
        return PolicyEvaluator(
            env=env or (lambda num_envs: Contexts(num_envs)),
            policies=policies,
            config=graph_config,
            num_envs=envs,
            collect=collect,
            rng=np.random.SeedSequence(5, spawn_key=(index,)),
            index=index,
        )

    first = build(0, dict.fromkeys(trains, graph))
    specs = {name: first.graph_spec(name) for name in trains}
    runtime = InlineRuntime()
    evaluators = EvaluatorSet(runtime, build(0, specs), [functools.partial(build, i, specs) for i in range(count)])
    return Replay(evaluators.local, evaluators, runtime, config, trains)


def learnt(one: Replay, policy_id: str = "default") -> list[SampleBatch]:
    graph: Any = one.learner.graphs[policy_id]
    batches: list[SampleBatch] = graph.learnt
    return batches


# -- how much


@settings(max_examples=50, deadline=None)
@given(
    samples=st.lists(st.integers(1, 50), min_size=1, max_size=30),
    starts=st.integers(0, 60),
    minibatch=st.integers(1, 40),
    ratio=st.sampled_from([0.1, 1 / 3, 1.0, 2.5, 16.0]),
)
def test_the_ratio_is_kept_whatever_the_samples_are(
    samples: list[int], starts: int, minibatch: int, ratio: float
) -> None:
    pace, updates = LearningPace(["a"], starts, ratio, minibatch), 0
    for sampled in samples:
        pace.sampled(sampled)
        due = pace.due("a")
        for _ in range(due):
            pace.learnt_from("a", minibatch)
        updates += due
        other = LearningPace(["a"], starts, ratio, minibatch)
        other.set_state(pace.get_state())
        assert other.due("a") == 0
    assert updates == int(max(0, sum(samples) - starts) * ratio / minibatch + 1e-6)


def test_it_learns_a_minibatch_whenever_one_is_due() -> None:
    one = make()
    results = [one.step() for _ in range(6)]
    assert [result.env_steps for result in results] == [6] * 6
    # From the twelfth step on two rows a step, four rows a minibatch.
    assert [result.updates for result in results] == [0, 0, 3, 3, 3, 3]
    assert [result.learnt_rows for result in results] == [0, 0, 12, 12, 12, 12]
    assert all(len(batch) == 4 and (batch.cuts[LENGTH] == 1).all() for batch in learnt(one))
    assert results[0].stats == {} and set(results[2].stats["default"]) == {"loss", "q", "grad_norm"}
    assert results[2].timers.keys() == {"sample_s", "learn_s", "sync_s"}


def test_several_rounds_a_step_are_as_many_steps() -> None:
    one, other = make(rounds=5, count=2), make(count=2)
    one.step()
    for _ in range(5):
        other.step()
    for name, weight in one.get_weights()["default"].items():
        np.testing.assert_array_equal(weight, other.get_weights()["default"][name])


def test_what_it_learns_from_was_sampled_and_is_among_the_newest() -> None:
    one = make(capacity=10)
    for _ in range(12):
        one.step()
    names = [set(zip(b.cuts["eps_id"].tolist(), b["t"].tolist(), strict=True)) for b in learnt(one)]
    last = set().union(*names[-3:])
    steps = 12 * 3
    newest = {(eps * 2 + slot, t) for slot in (0, 1) for eps in range(9) for t in range(8) if eps * 8 + t >= steps - 6}
    assert last <= newest


def test_it_learns_the_task() -> None:
    one = make(collect=Fragment(4), prioritized={}, graph=LinearQ)
    returns: list[float] = []
    for _ in range(200):
        one.step()
        returns += [e.episode_return for metrics in one.evaluators.metrics() for e in metrics.episodes]
    assert np.mean(returns[-20:]) > 6.0


def test_n_step_policies_are_stored_as_transitions() -> None:
    one = make(graph_config={"n_step": 3}, envs=1, collect=Fragment(2))
    for _ in range(19):
        one.step()
    assert all(set(batch["steps"].tolist()) <= {1, 2, 3} for batch in learnt(one))
    # Two rows are held back.
    assert len(one.memory.buffers["default"]) == 38 - 2


# -- priorities


def test_priorities_are_written_back() -> None:
    one = make(prioritized={"alpha": 1.0, "epsilon": 0.5})
    for _ in range(2):
        one.step()
    buffer = one.memory.buffers["default"]
    assert buffer.priorities is not None and set(buffer.priorities[: len(buffer)].tolist()) == {1.0}
    one.step()
    drawn = np.unique(np.concatenate([batch["batch_indexes"] for batch in learnt(one)]))
    touched = np.flatnonzero(buffer.priorities[: len(buffer)] != 1.0)
    assert set(touched.tolist()) <= set(drawn.tolist()) and len(touched)
    assert all(batch["weights"].dtype == np.float32 for batch in learnt(one))


def test_beta_goes_by_the_environment_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    betas: list[float] = []
    sample = ReplayBuffer.sample

    def noting(self: ReplayBuffer, n: int, rng: np.random.Generator, beta: float = 0.4) -> SampleBatch:
        betas.append(beta)
        return sample(self, n, rng, beta)

    monkeypatch.setattr(ReplayBuffer, "sample", noting)
    one = make(prioritized={"beta": [[12, 0.4], [24, 1.0]]}, learnt_per_sampled=4 / 6)
    for _ in range(5):
        one.step()
    assert betas == pytest.approx([0.7, 1.0, 1.0])


def test_a_graph_without_errors_cannot_have_priorities() -> None:
    one = make(prioritized={}, graph=Silent)
    with pytest.raises(OptimizerError, match=r"policy 'default' gives no TD error, which optimizer\.prioritized"):
        for _ in range(3):
            one.step()


def test_a_graph_that_notes_advantages_is_remarked_on_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for graph in (LinearPG, LinearQ):
            one = make(graph=graph)
            for _ in range(3):
                one.step()
    (only,) = caught
    assert only.category is RemarkWarning
    assert str(only.message).startswith("policy 'default' (LinearPG) notes advantages with its samples")


def test_skipped_updates_change_neither_weights_nor_priorities() -> None:
    class Poisoned(LinearQ):
        def gradients(self, batch: Any, units: Any = None) -> Any:
            output = super().gradients(batch, units)
            bad = {name: np.full_like(gradient, np.nan) for name, gradient in output.gradients.items()}
            return type(output)(bad, output.count, output.stats, np.full(output.count, np.nan))

    one = make(prioritized={}, graph=Poisoned)
    before = copied(one.get_weights())
    results = [one.step() for _ in range(4)]
    assert [(result.updates, result.skipped_updates) for result in results[2:]] == [(0, 3), (0, 3)]
    for name, weight in one.get_weights()["default"].items():
        np.testing.assert_array_equal(weight, before["default"][name])
    priorities = one.memory.buffers["default"].priorities
    assert priorities is not None and np.isfinite(priorities).all()


# -- for whom


def test_every_policy_learns_from_samples_of_its_own() -> None:
    env = functools.partial(TwoAgentEnv, agent_ids=("a", "b"), lengths=(8, 5))
    one = make(env=env, trains=("a", "b"), collect=Fragment(8), learning_starts=16)
    for _ in range(8):
        result = one.step()
        assert not result.updates or set(result.stats) == {"a", "b"}
    sizes = {policy_id: len(buffer) for policy_id, buffer in one.memory.buffers.items()}
    assert min(sizes.values()) > 20
    for policy_id in ("a", "b"):
        assert len(learnt(one, policy_id)) == (128 - 16) * 2 // 4


def test_B036_two_optimizers_share_no_settings() -> None:
    one, other = make(capacity=10), make(capacity=20, prioritized={"alpha": 0.3})
    assert one.memory.buffers["default"].capacity == 10
    assert one.memory.buffers["default"].priorities is None
    assert other.memory.buffers["default"].capacity == 20
    assert one.memory.buffers["default"] is not other.memory.buffers["default"]


def test_policies_that_learn_from_pieces_get_sequences() -> None:
    one = make(graph=TableValue, graph_config={"recurrent": True}, collect=Fragment(5), minibatch_size=12, capacity=52)
    buffer = one.memory.buffers["default"]
    assert isinstance(buffer, SequenceBuffer) and (buffer.length, buffer.capacity) == (5, 10)
    results = [one.step() for _ in range(10)]
    # Two sequences of up to five rows; what is short of twelve rows is made up for.
    assert sum(result.learnt_rows for result in results) == pytest.approx((100 - 12) * 2, abs=12)
    assert results[-1].updates > 1


def test_sequences_that_cannot_hold_the_samples_are_refused() -> None:
    piecewise = {"graph": TableValue, "graph_config": {"recurrent": True}}
    with pytest.raises(OptimizerError, match=r"fragments of 5 steps do not fit into sequences of 4"):
        make(**piecewise, collect=Fragment(5), sequence_length=4)
    with pytest.raises(OptimizerError, match=r"optimizer\.sequence_length"):
        make(**piecewise, collect=Episodes(2))
    one = make(**piecewise, collect=Episodes(2), sequence_length=3)
    with pytest.raises(BatchError, match="a piece of 8 rows"):
        one.step()
    with pytest.raises(OptimizerError, match="hindsight"):
        make(**piecewise, hindsight={"reward": "math:hypot"})


def test_hindsight_is_a_setting() -> None:
    with pytest.raises(OptimizerError, match=r"set policy\.n_step to 1"):
        make(graph_config={"n_step": 2}, hindsight={"reward": "math:hypot"})
    one = make(hindsight={"reward": "math:hypot", "strategy": "final", "goals": 2}, graph_config={"gamma": 0.8})
    buffer = one.memory.buffers["default"]
    assert isinstance(buffer, HindsightBuffer) and buffer._hindsight.gamma == 0.8
    with pytest.raises(ValueError, match="strategy"):
        Replay.Config(hindsight={"reward": "math:hypot", "strategy": "sometimes"})


# -- memory


def test_the_figure_is_what_the_buffer_takes() -> None:
    one = make(capacity=1000, prioritized={}, count=0)
    one.step()
    figure = bytes_for(one.local.graph_spec("default"), 1000, prioritized=True)
    assert figure.least == figure.most == pytest.approx(one.memory.buffers["default"].nbytes, rel=0.35)


def test_figures_are_told_in_words() -> None:
    told = [in_words(count) for count in (0, 950, 4_900_000, 999_700, 2.3e12)]
    assert told == ["0 bytes", "950 bytes", "4.9 MB", "1 MB", "2,300 GB"]


def test_frames_that_are_stored_once_count_once() -> None:
    space = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    spec = GraphSpec(LinearQ, space, gymnasium.spaces.Discrete(6), LinearQ.Config(), np.random.SeedSequence(0))
    figure = bytes_for(spec, 100_000, prioritized=True)
    assert str(figure) == "805 MB to 5.65 GB"


def test_more_than_the_machine_has_is_refused_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory_of_the_machine", lambda: 1_000_000)
    with pytest.raises(OptimizerError, match=r"optimizer\.capacity: 100,000 rows of default take .* MB at least; this"):
        make(capacity=100_000)
    with pytest.warns(ReplaySizeWarning, match=r"take up to .* kB of the 1 MB of memory here"):
        make(capacity=9000)


# -- going on


def dqn(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A run of the NumPy graph on CartPole."""
    optimizer = {
        "name": "replay",
        "learning_starts": 40,
        "minibatch_size": 16,
        "capacity": 150,
        "prioritized": {"beta": [[0, 0.4], [500, 1.0]]},
        "rounds": 3,
    }
    return {
        "algorithm": "support.replayed:LinearDQN",
        "framework": "numpy",
        "env": "CartPole-v1",
        "policies": {"default": {"graph": "rlcore.testing.linear_q:LinearQ", "policy": {"n_step": 2}}},
        "optimizer": optimizer,
        "evaluators": {"envs": 2, "fragment": 8},
        "filter": "mean_std",
        "seed": 3,
        "stop": {"iteration": 6},
        **(changes or {}),
    }


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if not key.endswith(("_s", "_per_s"))}


@pytest.mark.parametrize("count", [0, 2])
def test_B079_B088_six_iterations_equal_three_saved_and_three_more(count: int, tmp_path: Path) -> None:
    config = dqn({"evaluators": {"envs": 2, "fragment": 8, "count": count}, "runtime": "inline"})
    with Trainer(config) as trainer:
        rows = [without_times(trainer.step()) for _ in range(6)]
        sha256 = trainer.weights_sha256()
    with Trainer(config, out=tmp_path / "run") as trainer:
        for _ in range(3):
            trainer.step()
    with Trainer.restore(tmp_path / "run", overrides={"stop.iteration": 9}, trust=True) as restored:
        (optimizer,) = restored.optimizers
        assert isinstance(optimizer, Replay) and len(optimizer.memory.buffers["default"]) > 80
        assert [without_times(restored.step()) for _ in range(3)] == rows[3:]
        assert restored.weights_sha256() == sha256


def test_B079_what_was_stored_can_be_left_out_of_checkpoints(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    with Trainer(dqn({"checkpoints": {"replay": False}}), out=tmp_path / "run") as trainer:
        trainer.step()
        trainer.step()
    assert not len(recwarn)
    with Trainer.restore(tmp_path / "run", trust=True) as restored:
        (message,) = [str(one.message) for one in recwarn]
        assert "without the replay memory (checkpoints.replay: false)" in message
        (optimizer,) = restored.optimizers
        assert isinstance(optimizer, Replay) and not len(optimizer.memory.buffers["default"])
        # It is filled before learning goes on: 40 steps first, of 48 an iteration.
        row = restored.step()
        assert optimizer.learner.progress["default"].updates > 0
        assert row["env_steps"] == 3 * 48 and 0 < len(optimizer.memory.buffers["default"]) <= 48


def test_after_a_failure_the_checkpoint_has_the_memory_of_its_iteration(tmp_path: Path) -> None:
    config = dqn()
    with Trainer(config) as trainer:
        for _ in range(4):
            trainer.step()
        expected = trainer.weights_sha256()
    with Trainer(config, out=tmp_path / "run") as trainer:
        for _ in range(3):
            trainer.step()
        (optimizer,) = trainer.optimizers
        assert isinstance(optimizer, Replay)
        add, calls = optimizer.memory.add, []

        def failing(batch: Any) -> None:
            add(batch)
            calls.append(batch)
            if len(calls) == 2:
                raise RuntimeError("in the middle")

        optimizer.memory.add = failing  # type: ignore[method-assign]
        with pytest.raises(RuntimeError, match="in the middle"):
            trainer.step()
    with Trainer.restore(tmp_path / "run", trust=True) as restored:
        assert restored.counters.iteration == 3
        restored.step()
        assert restored.weights_sha256() == expected


def test_functions_that_a_checkpoint_names_are_imported_on_trust_only(tmp_path: Path) -> None:
    config = dqn({"policies": {"default": {"graph": "rlcore.testing.linear_q:LinearQ"}}})
    config["optimizer"] |= {"hindsight": {"reward": "os:system"}, "devices": ["cpu"]}
    with Trainer(config) as trainer:
        trainer.save(tmp_path / "saved")
    with pytest.raises(CheckpointError, match=r"policies\.default\.optimizer\.hindsight\.reward=os:system"):
        Trainer.restore(tmp_path / "saved")


def test_settings_that_are_wrong_are_named() -> None:
    for wrong, message in [
        ({"capacity": 0}, "optimizer.capacity"),
        ({"prioritized": {"alfa": 1}}, "optimizer.prioritized.alfa"),
        ({"learnt_per_sampled": 0}, "optimizer.learnt_per_sampled"),
    ]:
        config = dqn()
        config["optimizer"] |= wrong
        with pytest.raises(ConfigError, match=message):
            Trainer(config)


def test_it_shares_evaluators_with_an_optimizer_of_another_kind(tmp_path: Path) -> None:
    pytest.importorskip("rlcore_sync")
    config = dqn(
        {
            "env": "rlcore.testing.environments:TwoAgentEnv",
            "filter": "none",
            "policies": {
                "left": {"graph": "rlcore.testing.linear_q:LinearQ", "policy": {"n_step": 2}},
                "right": {"graph": "numpy.pg", "optimizer": {"name": "multi_gpu"}},
            },
            "policy_of": {"left": "left", "right": "right"},
        }
    )
    with Trainer(config) as trainer:
        rows = [without_times(trainer.step()) for _ in range(4)]
        sha256 = trainer.weights_sha256()
    # Three rounds of two times eight steps, of which multi_gpu takes one at a time.
    assert [row["env_steps"] for row in rows] == [48, 96, 144, 192]
    with Trainer(config, out=tmp_path / "run") as trainer:
        trainer.step()
        trainer.step()
    with Trainer.restore(tmp_path / "run", overrides={"stop.iteration": 9}, trust=True) as restored:
        assert [without_times(restored.step()) for _ in range(2)] == rows[2:]
        assert restored.weights_sha256() == sha256
