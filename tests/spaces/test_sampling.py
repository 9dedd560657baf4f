"""Every space end to end: environments, a PolicyEvaluator, actors, learning, checkpoints."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from gymnasium.utils.env_checker import data_equivalence
from support.runs import linear
from support.spaces import ACTIONS, OBSERVATIONS, Mirror

import rlcore
from rlcore import Episodes, Fragment, PolicyEvaluator
from rlcore.acting import distribution_for
from rlcore.batch import ACTION_LOGP, SampleBatch
from rlcore.columns import column_name, leaf_spaces, to_table
from rlcore.errors import EnvError, NoLegalActionError, SpaceError
from rlcore.graph_spec import RemarkWarning
from rlcore.sampling.filters import MeanStd
from rlcore.testing import LinearPG
from rlcore.testing.checks import check_batch

OBS = Box(-1.0, 1.0, (3,), np.float32)


def evaluator(observed: Any, acted: Any, made: list[Mirror] | None = None, **settings: Any) -> PolicyEvaluator:
    """Two environments of these spaces; ``made`` gets them."""

    def make() -> Mirror:
        env = Mirror(observed, acted)
        if made is not None:
            made.append(env)
        return env

    return PolicyEvaluator(
        **{"env": make, "graph": LinearPG, "num_envs": 2, "collect": Fragment(7), "rng": 3, **settings}
    )


def sampled(source: PolicyEvaluator) -> SampleBatch:
    batch = source.sample()
    assert isinstance(batch, SampleBatch)
    source.close()
    return batch


@pytest.mark.parametrize("name", ACTIONS)
def test_environments_get_legal_actions_and_batches_what_was_drawn(name: str) -> None:
    space = ACTIONS[name]
    made: list[Mirror] = []
    batch = sampled(evaluator(OBS, space, made))
    check_batch(batch, OBS, space)
    assert all(len(env.received) >= 7 for env in made[:2])
    names = {column_name("actions", leaf) for leaf in leaf_spaces(space)}
    assert set(to_table("actions", batch.actions)) == names


@pytest.mark.parametrize("name", ACTIONS)
def test_B094_the_graph_finds_its_own_log_probabilities_again(name: str) -> None:
    source = evaluator(OBS, ACTIONS[name])
    graph: Any = source.policies["default"]
    batch = sampled(source)
    distribution = distribution_for(ACTIONS[name], squash=False)
    params = graph.actor().parameters(graph.actor().features(batch.obs))
    again = distribution.log_prob(params, batch.actions, batch.rows)
    np.testing.assert_allclose(np.exp(again - batch[ACTION_LOGP]), 1.0, atol=1e-5)
    weights = graph.get_weights()
    output = graph.learn(batch)
    assert not output.skipped and np.isfinite(list(output.stats.values())).all()
    moved = [name for name, weight in graph.get_weights().items() if not np.array_equal(weight, weights[name])]
    assert moved or name == "discrete_from_2"


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observations_of_every_space_arrive_as_they_are(name: str) -> None:
    space = OBSERVATIONS[name]
    batch = sampled(evaluator(space, Discrete(2)))
    check_batch(batch, space, Discrete(2))
    for leaf, child in leaf_spaces(space).items():
        column = batch[column_name("obs", leaf)]
        assert column.dtype == child.dtype and len(column) == 14
        assert all(child.contains(value if isinstance(child, Discrete) else np.asarray(value)) for value in column)


def test_B091_the_environment_gets_2_and_the_batch_holds_index_0() -> None:
    made: list[Mirror] = []
    batch = sampled(evaluator(OBS, Discrete(1, start=2), made))
    assert batch["actions"].tolist() == [0] * 14
    assert {int(action) for env in made for action in env.received} == {2}


def test_B097_the_environment_gets_the_pair() -> None:
    made: list[Mirror] = []
    batch = sampled(evaluator(OBS, Tuple([Discrete(3), Box(-1, 1, (2,))]), made))
    assert batch["actions.0"].shape == (14,) and batch["actions.1"].shape == (14, 2)
    received = [action for env in made for action in env.received]
    assert all(isinstance(action, tuple) and len(action) == 2 for action in received)
    first = [action for action in made[0].received][:5]
    assert [int(choice) for choice, _ in first] == batch["actions.0"][:5].tolist()
    np.testing.assert_array_equal([part for _, part in first], batch["actions.1"][:5].clip(-1, 1))


class Masked(Mirror):
    """Shows a mask that allows one or more options of each choice, and insists on it. ``blocks_at``: all flags 0."""

    def __init__(self, blocks_at: int | None = None, name: str = "masked") -> None:
        self.legal = MultiDiscrete([3, 2], start=[1, 0])
        mask = Box(0, 1, (5,), np.int8)
        super().__init__(Dict(features=OBS, action_mask=mask), self.legal)
        self.blocks_at = blocks_at

    def observe(self) -> Any:
        self.allowed = [self.np_random.integers(1, 8), self.np_random.integers(1, 4)]
        bits = [self.allowed[0] >> i & 1 for i in range(3)] + [self.allowed[1] >> i & 1 for i in range(2)]
        if self.t == self.blocks_at:
            bits = [1, 1, 1, 0, 0]
        return {"features": self.np_random.random(3, np.float32), "action_mask": np.array(bits, np.int8)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        for choice, allowed in zip(action - self.legal.start, self.allowed, strict=True):
            assert allowed >> int(choice) & 1, f"{action} is illegal in {self.allowed}"
        self.t += 1
        return self.observe(), 1.0, self.t == 6, False, {}


@pytest.mark.parametrize("filter_kind", [None, MeanStd])
def test_masked_actions_are_legal_and_learning_knows_the_mask(filter_kind: Any) -> None:
    extra = {} if filter_kind is None else {"observation_filter": filter_kind}
    source = PolicyEvaluator(env=Masked, graph=LinearPG, num_envs=3, collect=Fragment(50), rng=1, **extra)
    graph: Any = source.policies["default"]
    for _ in range(2):
        batch: Any = source.sample()
        assert batch["obs.action_mask"].dtype == np.int8
        graph.learn(batch)
    actor = graph.actor()
    params = actor.parameters(actor.features(batch.obs))
    assert params.shape == (150, 5)
    before = graph.get_weights()
    output = graph.gradients(batch)
    assert output.stats["entropy"] < np.log(3) + np.log(2) and np.isfinite(list(output.stats.values())).all()
    assert all(np.array_equal(before[name], weight) for name, weight in graph.get_weights().items())
    source.close()


def test_B104_a_mask_without_a_legal_action_names_environment_slot_and_step() -> None:
    def second_blocks(made: list[int] = []) -> Masked:  # noqa: B006  counts the copies
        made.append(1)
        return Masked(blocks_at=4 if len(made) == 2 else None)

    source = PolicyEvaluator(env=second_blocks, graph=LinearPG, num_envs=2, collect=Fragment(50), rng=1)
    message = r"^environment '.*second_blocks.*', slot 1, step 4 of its episode: 'action_mask' leaves no legal action"
    with pytest.raises(NoLegalActionError, match=message) as caught:
        source.sample()
    assert isinstance(caught.value, EnvError)
    source.close()


def test_a_mask_may_be_empty_where_the_episode_is_over() -> None:
    source = PolicyEvaluator(
        env=lambda: Masked(blocks_at=6), graph=LinearPG, num_envs=2, collect=Episodes(4), rng=1
    )
    batch: Any = source.sample()
    assert batch.cuts["last_obs.action_mask"].tolist() == [[1, 1, 1, 0, 0]] * 4
    source.close()


class Reversed(Mirror):
    """Observations whose keys come in the reverse order; ``changes`` are made to each but the first."""

    def __init__(self, **changes: Any) -> None:
        super().__init__(Dict(a=Box(0, 1, (1,)), b=Box(2, 3, (1,)), c=Box(4, 5, (1,))), Discrete(2))
        self.changes = changes

    def observe(self, obs: Any) -> Any:
        changed = {**obs, **(self.changes if self.t else {})}
        return {key: changed[key] for key in sorted(changed, reverse=True) if changed[key] is not None}

    def reset(self, **settings: Any) -> Any:
        obs, info = super().reset(**settings)
        return self.observe(obs), info

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        return self.observe(obs), *rest


def test_B102_the_order_of_keys_does_not_matter() -> None:
    source = PolicyEvaluator(env=Reversed, graph=LinearPG, num_envs=2, collect=Fragment(5), rng=1)
    batch = sampled(source)
    for leaf, low in (("a", 0.0), ("b", 2.0), ("c", 4.0)):
        assert ((batch[f"obs.{leaf}"] >= low) & (batch[f"obs.{leaf}"] <= low + 1.0)).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"b": None}, "lacks the key 'b'"), ({"d": np.zeros(1)}, "has the key 'd', unknown to its space")],
)
def test_B102_a_missing_or_extra_key_is_an_error(changes: dict[str, Any], message: str) -> None:
    source = PolicyEvaluator(
        env=Reversed, env_settings=changes, graph=LinearPG, num_envs=2, collect=Fragment(5), rng=1
    )
    with pytest.raises(EnvError, match=message):
        source.sample()
    source.close()


def test_B109_infos_of_any_kind_touch_nothing() -> None:
    class Talking(Mirror):
        def __init__(self) -> None:
            super().__init__(OBS, Discrete(2))

        def step(self, action: Any) -> Any:
            *result, _ = super().step(action)
            told = {"msg": "hi", "arr": np.ones(3), "object": object()}
            return *result, told if self.t % 2 else {}

    source = PolicyEvaluator(env=Talking, graph=LinearPG, num_envs=3, collect=Fragment(9), rng=3)
    graph: Any = source.policies["default"]
    batch: Any = source.sample()
    assert not graph.learn(batch).skipped
    assert all(column.dtype != object for column in (*batch.rows.values(), *batch.cuts.values()))
    source.close()


def test_B100_the_guess_is_logged_once_and_B099_a_float_image_warns_once(caplog: Any) -> None:
    space = Dict(image=Box(0, 255, (4, 4, 3), np.uint8), floats=Box(0, 255, (4, 4, 3), np.float32))
    with caplog.at_level(logging.INFO, "rlcore"), pytest.warns(RemarkWarning, match="'floats'") as caught:
        source = evaluator(space, Discrete(2))
        source.sample()
        source.sample()
    assert len(caught) == 1
    assert [record.getMessage().split(",")[0] for record in caplog.records] == ["observation 'image'"]
    source.close()
    caplog.clear()
    with caplog.at_level(logging.INFO, "rlcore"), warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        with rlcore.Trainer(linear({"env": lambda: Mirror(space, Discrete(2))})) as trainer:
            trainer.step()
            trainer.evaluate()
    assert len(caplog.records) == 1 and [w.category for w in issued] == [RemarkWarning]


class WithImage(Mirror):
    def __init__(self) -> None:
        super().__init__(Dict(img=Box(0, 255, (8, 8, 3), np.uint8), vec=Box(-9, 9, (4,), np.float32)), Discrete(2))


def test_B101_an_image_beside_a_vector_with_frame_stack_and_normaliser() -> None:
    def stacked() -> gymnasium.Env[Any, Any]:
        return gymnasium.wrappers.FrameStackObservation(WithImage(), 2)

    source = PolicyEvaluator(
        env=stacked, graph=LinearPG, num_envs=2, collect=Fragment(6), rng=0, observation_filter=MeanStd
    )
    source.sample()
    deltas = source.take_filter_deltas()["default"]
    assert deltas["img"] == {} and deltas["vec"]["count"] == 12
    for leaf, one in source.filters["default"].items():
        one.apply(deltas[leaf])
    batch = sampled(source)
    assert batch["obs.img"].shape == (12, 2, 8, 8, 3) and batch["obs.img"].dtype == np.uint8
    assert batch["obs.vec"].shape == (12, 2, 4) and abs(batch["obs.vec"]).max() < 4.0
    graph: Any = source.policies["default"]
    features = graph.actor().features(batch.obs) / 40.0
    assert features[:, : 2 * 8 * 8 * 3].min() >= 0.0 and features[:, : 2 * 8 * 8 * 3].max() <= 1.0


@pytest.mark.parametrize(
    ("observed", "acted", "message"),
    [
        (OBS, Dict(a=Discrete(2), b=gymnasium.spaces.Text(3)), "action space has the part 'b' Text"),
        (gymnasium.spaces.Sequence(Discrete(2)), Discrete(2), "observation space is Sequence"),
        (OBS, Box(-1, 1, (0,)), r"action space Box.* cannot be acted in: it has no numbers"),
    ],
)
def test_B096_what_cannot_be_handled_is_refused_by_name_when_built(observed: Any, acted: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        evaluator(observed, acted)


@pytest.mark.parametrize("name", ACTIONS)
def test_B110_trained_policies_act_on_one_observation_or_several(name: str, tmp_path: Path) -> None:
    observed, acted = OBSERVATIONS["nested"], ACTIONS[name]
    config = linear({"env": lambda: Mirror(observed, acted), "evaluators.fragment": 10})
    with rlcore.Trainer(config) as trainer:
        trainer.step()
        trainer.save(tmp_path / "saved")
    policy = rlcore.load_policy(tmp_path / "saved")
    assert policy.action_space == acted and policy.observation_space == observed
    one = observed.sample()
    for explore in (False, True):
        action = policy.act(one, explore=explore)
        assert acted.contains(action), action
        policy.reset()
    action = policy.act(one)
    policy.reset()
    batch = gymnasium.vector.utils.concatenate(
        observed, [one] * 3, gymnasium.vector.utils.create_empty_array(observed, 3)
    )
    several = policy.act(batch)
    pieces = list(gymnasium.vector.utils.iterate(gymnasium.vector.utils.batch_space(acted, 3), several))
    assert len(pieces) == 3
    assert all(data_equivalence(piece, pieces[0]) for piece in pieces)
