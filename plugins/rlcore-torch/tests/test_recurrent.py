"""Policy graphs with an LSTM, from acting to learning."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

import rlcore
from rlcore.batch import SampleBatch, concat
from rlcore.errors import UserError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import PIECE
from rlcore.sampling.collect import Episodes, Fragment
from rlcore.testing.environments import Count, Drawn, ScatteredCount
from rlcore.trainer import Trainer
from rlcore_torch import A3C, APPO, IMPALA, PPO, PolicyGradient

Build = Callable[..., Any]
VECTOR = Box(-1.0, 1.0, (4,), np.float32)
SPACES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "discrete": (VECTOR, Discrete(3, start=5), {}),
    "box": (VECTOR, Box(-1.0, 1.0, (2,), np.float32), {"initial_log_std": -0.5}),
    "squashed": (VECTOR, Box(-1.0, 3.0, (2,), np.float32), {"squash": True}),
    "masked": (Dict({"place": VECTOR, "action_mask": MultiBinary(4)}), Discrete(4), {}),
}
GRAPHS = [PolicyGradient, A3C, PPO, IMPALA, APPO]
each_graph = pytest.mark.parametrize("graph", GRAPHS)
each_space = pytest.mark.parametrize("space", SPACES)
shared_or_not = pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])


def recurrent(build: Build, graph: Any = PPO, space: str = "discrete", shared: bool = False, **more: Any) -> Any:
    observation_space, action_space, settings = SPACES[space]
    model = {"hidden": [8], "lstm": 6, "shared_value": shared}
    own = build(graph, action_space, observation_space=observation_space, model=model, **{**settings, **more})
    # The last layers start so small that actions hardly depend on anything.
    weights = own.get_weights()
    own.set_weights({"policy.out.weight": 50 * weights["policy.out.weight"]})
    return own


def evaluator_of(policy: Any, graph: Any, steps: Any = None, num_envs: int = 3) -> PolicyEvaluator:
    env = partial(Drawn, graph.observation_space, graph.action_space)
    return PolicyEvaluator(env=env, graph=policy, num_envs=num_envs, collect=steps or Fragment(9), rng=4)


def sampled(graph: Any, count: int = 1, **settings: Any) -> SampleBatch:
    """Random experience: episodes of many lengths, so pieces of many lengths."""
    evaluator = evaluator_of(graph, graph, **settings)
    return concat([evaluator.sample() for _ in range(count)])


def assert_close(ours: Any, theirs: Any, tolerance: float = 1e-5) -> None:
    assert ours.keys() == theirs.keys()
    for name, column in ours.items():
        np.testing.assert_allclose(column, theirs[name], rtol=tolerance, atol=tolerance, err_msg=name)


@each_graph
@each_space
@shared_or_not
def test_graph_and_actor_agree_over_many_steps(build: Build, graph: Any, space: str, shared: bool) -> None:
    own = recurrent(build, graph, space, shared)
    actor = pickle.loads(pickle.dumps(own.actor()))
    assert own.minibatch_unit is PIECE
    ours, theirs = evaluator_of(own, own), evaluator_of(actor, own)
    for _ in range(4):
        first, second = ours.sample(), theirs.sample()
        assert isinstance(first, SampleBatch) and isinstance(second, SampleBatch)
        assert_close(first.rows, second.rows)
        assert_close(first.cuts, second.cuts)
        assert len(first.state_in()) == (4 if graph.has_value and not shared else 2)


@shared_or_not
def test_a_step_of_the_graph_is_a_step_of_the_actor(build: Build, shared: bool) -> None:
    own = recurrent(build, PPO, "box", shared)
    actor = own.actor()
    state, rng = own.initial_state(5), np.random.default_rng(0)
    for _ in range(30):
        obs = rng.standard_normal((5, 4)).astype(np.float32)
        ours = own.act(obs, state, explore=False, rng=rng)
        theirs = actor.act(obs, state, explore=False, rng=rng)
        np.testing.assert_allclose(ours.actions, theirs.actions, atol=1e-5)
        assert_close(ours.extras, theirs.extras)
        for one, other in zip(ours.state, theirs.state, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
        np.testing.assert_allclose(own.values(obs, state), actor.values(obs, state), atol=1e-6)
        np.testing.assert_allclose(own.values(obs, state), ours.extras["vf_preds"], atol=1e-6)
        state = ours.state


@pytest.mark.parametrize("acts", ["graph", "actor"])
def test_a_state_that_does_not_fit_is_refused(build: Build, acts: str) -> None:
    recurrent_one, plain = (build(PPO, observation_space=VECTOR, model={"lstm": lstm}) for lstm in (3, 0))
    policy, other = (own if acts == "graph" else own.actor() for own in (recurrent_one, plain))
    obs, rng = np.zeros((2, 4), np.float32), np.random.default_rng(0)
    message = r"a recurrent state of 4 parts \[2, \.\.\.\] with 2 observations, not "
    for state in ((), policy.initial_state(3), policy.initial_state(2)[:3]):
        for call in (partial(policy.act, rng=rng), policy.values):
            with pytest.raises(UserError, match=message):
                call(obs, state)
    with pytest.raises(UserError, match=r"no recurrent state with 2 observations, not \[2, 3\]"):
        other.act(obs, policy.initial_state(2)[:1], rng=rng)
    for n in (0, 1, 2):
        out = policy.act(obs[:n], policy.initial_state(n), rng=rng)
        assert len(out.actions) == n and [len(part) for part in out.state] == [n] * 4


@each_space
@shared_or_not
def test_B131_replayed_numbers_are_those_of_the_rollout(build: Build, space: str, shared: bool) -> None:
    own = recurrent(build, PPO, space, shared)
    batch = sampled(own, 3)
    assert len(set(batch.cuts["length"].tolist())) > 3
    assert len(np.unique(batch["vf_preds"])) == len(batch), "values that are not distinct tell nothing"
    np.testing.assert_allclose(own.log_probs(batch), batch["action_logp"], atol=1e-5)
    bare = SampleBatch({name: column for name, column in batch.rows.items() if name != "vf_preds"}, batch.cuts)
    np.testing.assert_allclose(own.postprocess(bare)["vf_preds"], batch["vf_preds"], atol=1e-5)


@shared_or_not
@pytest.mark.parametrize("acts", ["graph", "actor"])
def test_B128_the_ratio_is_one_before_the_first_update(build: Build, shared: bool, acts: str) -> None:
    env, obs = partial(Count, length=10), Box(-np.inf, np.inf, (1,))
    own = build(PPO, Discrete(2), observation_space=obs, model={"lstm": 6, "shared_value": shared})
    policy = own if acts == "graph" else own.actor()
    evaluator = PolicyEvaluator(env=env, graph=policy, num_envs=2, collect=Fragment(4), rng=1)
    batches = [evaluator.sample() for _ in range(3)]
    for batch, first in zip(batches, (0, 4, 8), strict=True):
        assert batch["t"][0] == first and batch.state_in()[0][0].any() == (first > 0)
        stats = own.gradients(batch).stats
        assert stats["clip_fraction"] == 0.0 and abs(stats["kl"]) < 1e-10
    # Pieces that begin with the initial state in place of their own are others.
    stripped = batches[1].with_cuts(**{f"state_in.{i}": np.zeros_like(p) for i, p in enumerate(batches[1].state_in())})
    assert np.abs(own.log_probs(stripped) - batches[1]["action_logp"]).max() > 1e-5


@pytest.mark.parametrize("collect", [Fragment(5), Episodes(3)], ids=["fragment", "episodes"])
def test_B125_a_graph_begins_every_episode_with_the_initial_state(build: Build, collect: Any) -> None:
    own = build(PPO, Discrete(2), observation_space=Box(-np.inf, np.inf, (1,)), model={"lstm": 6})
    evaluator = PolicyEvaluator(env=partial(Count, length=2), graph=own, num_envs=2, collect=collect, rng=1)
    for _ in range(2):
        batch = evaluator.sample()
        starts = batch["t"][batch.cuts["start"]]
        assert (starts == 0).sum() > 1
        for part in batch.state_in():
            assert (part.any(axis=1) == (starts == 1)).all()
        for t in range(2):
            assert np.ptp(batch["vf_preds"][batch["t"] == t]) < 1e-6


def test_memory_is_kept_apart_where_slots_come_as_they_like(build: Build) -> None:
    own = build(PPO, Discrete(2), observation_space=Box(-np.inf, np.inf, (1,)), model={"lstm": 6})
    evaluator = PolicyEvaluator(env=ScatteredCount, graph=own.actor(), num_envs=3, collect=Fragment(7), rng=0)
    values: dict[int, set[float]] = {}
    for _ in range(3):
        batch = evaluator.sample()
        np.testing.assert_allclose(own.log_probs(batch), batch["action_logp"], atol=1e-6)
        for t, value in zip(batch["t"].tolist(), batch["vf_preds"].tolist(), strict=True):
            values.setdefault(t, set()).add(round(value, 5))
    assert [len(values[t]) for t in range(3)] == [1, 1, 1] and len(set.union(*values.values())) == 3


def test_the_last_value_of_a_piece_remembers_it(build: Build) -> None:
    own = recurrent(build, PPO)
    batch = sampled(own)
    np.testing.assert_allclose(batch.cuts["last_value"], own.values(batch.last_obs, batch.last_state()), atol=1e-6)
    forgotten = own.values(batch.last_obs, own.initial_state(batch.pieces))
    assert np.abs(forgotten - batch.cuts["last_value"]).max() > 1e-3


@each_graph
@shared_or_not
def test_gradients_of_pieces_add_up_by_rows(build: Build, graph: Any, shared: bool) -> None:
    own = recurrent(build, graph, "discrete", shared, normalize_advantages=False)
    batch = sampled(own, 2)
    whole, rows = own.gradients(batch), batch.cuts["length"]
    assert whole.count == len(batch) == rows.sum()
    parts = [own.gradients(batch, np.array(units)) for units in np.array_split(np.arange(batch.pieces), 3)]
    assert sum(part.count for part in parts) == whole.count and len({part.count for part in parts}) > 1
    for name, gradient in whole.gradients.items():
        mean = sum(part.count * part.gradients[name] for part in parts) / whole.count
        np.testing.assert_allclose(mean, gradient, atol=1e-6, err_msg=name)
        assert gradient.any(), name
    # One piece alone is the same as a batch of that piece.
    alone = own.gradients(batch.take_pieces([1]))
    chosen = own.gradients(batch, np.array([1]))
    assert chosen.count == alone.count == rows[1]
    assert_close(chosen.gradients, alone.gradients, 1e-6)


@each_space
def test_gradients_by_finite_differences(build: Build, space: str) -> None:
    own = recurrent(build, A3C, space, vf_loss_coeff=0.5, entropy_coeff=0.01)
    batch, weights = sampled(own), own.get_weights()
    gradients = own.gradients(batch).gradients
    rng = np.random.default_rng(0)
    direction = {name: rng.standard_normal(array.shape).astype(np.float32) for name, array in weights.items()}
    losses = []
    for step in (1e-2, -1e-2):
        own.set_weights({name: array + np.float32(step) * direction[name] for name, array in weights.items()})
        losses.append(own.gradients(batch).stats["loss"])
    slope = sum(float((gradients[name] * direction[name]).sum()) for name in weights)
    assert (losses[0] - losses[1]) / 2e-2 == pytest.approx(slope, rel=2e-2, abs=2e-3)


@each_graph
@each_space
def test_two_devices_learn_like_one(build: Build, graph: Any, space: str) -> None:
    # Graphs with V-trace normalise the advantages of each device's share.
    more = {"normalize_advantages": False} if graph.in_time_order else {}
    one, two = (recurrent(build, graph, space, devices=devices, **more) for devices in (("cpu",), ("cpu", "cpu")))
    batch = sampled(one, 2)
    first, second = one.pin(batch), two.pin(batch)
    for units in (None, np.array([3, 0, 2, 1]), np.array([1]), np.arange(5)):
        ours, theirs = one.learn(first, units), two.learn(second, units)
        assert ours.rows == theirs.rows == batch.cuts["length"][slice(None) if units is None else units].sum()
        assert ours.stats == pytest.approx(theirs.stats, rel=1e-4, abs=1e-6)
    assert_close(one.get_weights(), two.get_weights(), 2e-6)


@each_graph
def test_learning_from_pinned_pieces_is_learning_from_the_batch(build: Build, graph: Any) -> None:
    one, two = (recurrent(build, graph) for _ in range(2))
    batch = sampled(one)
    pinned = one.pin(batch)
    for units in (None, np.array([1, 0]), None):
        assert one.learn(pinned, units).stats == two.learn(batch, units).stats
    assert_close(one.get_weights(), two.get_weights(), 0.0)


def test_memory_is_learnt(build: Build) -> None:
    """What the first observation says is paid for two steps later, when nothing shows it any more."""
    own = build(
        PPO,
        Discrete(2),
        observation_space=Box(-1.0, 1.0, (2,), np.float32),
        model={"hidden": [16], "lstm": 16},
        learning_rate=1e-2,
        gamma=0.9,
        entropy_coeff=0.01,
    )
    evaluator = PolicyEvaluator(env=Recall, graph=own, num_envs=16, collect=Fragment(12), rng=0)
    rewards = []
    for _ in range(40):
        batch = evaluator.sample()
        rewards.append(float(batch["rewards"].sum() / batch["terminated"].sum()))
        pinned = own.pin(batch)
        for _ in range(4):
            own.learn(pinned)
    assert np.mean(rewards[:3]) < 0.7 and np.mean(rewards[-5:]) > 0.95


class Recall(gymnasium.Env[Any, Any]):
    """The first observation is -1 or 1; the third action is paid 1 where it says which."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = Box(-1.0, 1.0, (2,), np.float32), Discrete(2)
        self.t = self.shown = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t, self.shown = 0, int(self.np_random.integers(2))
        return np.array([2 * self.shown - 1, 0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        reward = float(self.t == 3 and action == self.shown)
        return np.array([0, self.t / 3], np.float32), reward, self.t == 3, False, {}


CONFIG: dict[str, Any] = {
    "algorithm": "ppo",
    "framework": "torch",
    "env": "CartPole-v1",
    "evaluators": {"envs": 3, "fragment": 11},
    "model": {"hidden": [8], "lstm": 5},
    "optimizer": {"minibatch_size": 12, "epochs": 2},
    "seed": 5,
    "stop": {"iteration": 99},
}


@pytest.mark.parametrize("optimizer", ["multi_gpu", "allreduce"])
def test_runs_with_evaluation_filters_and_several_evaluators(optimizer: str) -> None:
    changes = {
        "optimizer": {"name": optimizer, "minibatch_size": 10, "epochs": 2},
        "evaluators": {"envs": 2, "fragment": 9, "count": 2},
        "runtime": "inline",
        "filter": "mean_std",
        "evaluation": {"every_env_steps": 36, "episodes": 2},
    }
    with Trainer({**CONFIG, **changes}) as trainer:
        rows = [trainer.step() for _ in range(2)]
    assert all(row["evaluation_episodes"] == 2 and np.isfinite(row["loss"]) for row in rows)


@pytest.mark.parametrize(
    "changes",
    [{}, {"model": {"lstm": 5, "shared_value": True}}, {"algorithm": "a2c"}, {"algorithm": "pg", "optimizer": {}}],
    ids=["ppo", "shared", "a2c", "pg"],
)
def test_B088_a_run_that_goes_on_is_the_run_that_never_stopped(changes: dict[str, Any], tmp_path: Path) -> None:
    config = {**CONFIG, **changes}
    with Trainer(config) as trainer:
        for _ in range(5):
            trainer.step()
        expected = trainer.weights_sha256(), trainer.row["episode_return_mean"]
    with Trainer(config) as trainer:
        for _ in range(2):
            trainer.step()
        trainer.save(tmp_path / "two")
    with Trainer.restore(tmp_path / "two") as restored:
        assert not restored.restarts
        for _ in range(3):
            restored.step()
        assert (restored.weights_sha256(), restored.row["episode_return_mean"]) == expected


def test_a_trained_policy_remembers_until_it_is_reset(tmp_path: Path) -> None:
    with Trainer(CONFIG) as trainer:
        trainer.step()
        trainer.save(tmp_path / "saved")
    numpy, torch = (rlcore.load_policy(tmp_path / "saved", framework=name) for name in (None, "torch"))
    obs = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    for policy in (numpy, torch):
        first = [policy.act(row) for row in obs]
        assert policy._memory is not None
        state = policy._memory.state
        assert len(state) == 4 and all(part.any() for part in state)
        policy.reset()
        assert [policy.act(row) for row in obs] == first
    assert numpy._memory is not None and torch._memory is not None
    for one, other in zip(numpy._memory.state, torch._memory.state, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
