from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.acting import QActor, QConfig
from rlcore.acting.q_architecture import QArchitecture, factorised_noise
from rlcore.acting.q_network import QNetwork
from rlcore.acting.saved import actor_from, describe_actor
from rlcore.batch import SampleBatch
from rlcore.errors import ConfigError, NoLegalActionError, SpaceError, UserError
from rlcore.policy_graph import Actor, Progress

OBS = spaces.Box(-10, 10, (2,), np.float32)
MODEL = {"hidden": []}


def make(obs_space: Any = OBS, actions: int = 3, weights: Any = None, **settings: Any) -> QActor:
    config = QConfig(**{"model": MODEL, **settings})
    space = spaces.Discrete(actions, start=4)
    own = QArchitecture.of(obs_space, space, config).init(np.random.default_rng(0))
    return QActor(obs_space, space, config, {**own, **(weights or {})})


def act(actor: QActor, obs: Any, explore: bool = False, seed: int = 0, **more: Any) -> list[int]:
    actions = actor.act(np.asarray(obs, np.float32), rng=np.random.default_rng(seed), explore=explore, **more).actions
    assert isinstance(actions, np.ndarray) and actions.dtype == np.int64
    found: list[int] = actions.tolist()
    return found


def test_it_takes_the_best_action() -> None:
    weights = {
        "q.out.weight": np.array([[1, 0, -1], [0, 2, 0]], np.float32),
        "q.out.bias": np.array([0, 0, 0.5], np.float32),
    }
    actor = make(weights=weights)
    assert isinstance(actor, Actor)
    assert actor.q_values(np.array([[1, 2]], np.float32)).tolist() == [[1.0, 4.0, -0.5]]
    assert act(actor, [[1, 2], [3, 0], [-1, 0]]) == [1, 0, 2]


def test_dueling_values() -> None:
    weights = {
        "q.value.weight": np.array([[1], [0]], np.float32),
        "q.advantage.weight": np.array([[0, 0, 0], [3, 0, 0]], np.float32),
    }
    actor = make(weights=weights, dueling=True)
    # V = 2; A = [3, 0, 0], less their mean.
    assert actor.q_values(np.array([[2, 1]], np.float32)).tolist() == [[4.0, 1.0, 1.0]]


def test_values_of_distributions_are_their_means() -> None:
    logits = np.log(np.array([[0.2, 0.3, 0.5], [0.5, 0.25, 0.25]], np.float32)).reshape(-1)
    weights = {"q.out.weight": np.zeros((2, 6), np.float32), "q.out.bias": logits}
    actor = make(actions=2, weights=weights, distribution={"low": -1, "high": 1, "atoms": 3})
    assert actor.q_values(np.zeros((1, 2), np.float32)) == pytest.approx(np.array([[0.3, -0.25]]), abs=1e-6)


def test_noise_is_on_the_weights() -> None:
    actor = make(actions=1, noisy=0.5)
    weights = actor.get_weights()
    np.testing.assert_allclose(weights["q.out.weight_noise"], 0.5 / np.sqrt(2.0), rtol=1e-6)
    architecture = QArchitecture.of(OBS, spaces.Discrete(1), QConfig(model=MODEL, noisy=0.5))
    network = QNetwork(architecture, None, weights)
    noise, x = np.array([2.0, -1.0, 3.0], np.float32), np.array([[1.0, 4.0]], np.float32)
    disturbed = weights["q.out.weight"] + weights["q.out.weight_noise"] * np.outer(noise[:2], noise[2:])
    bias = weights["q.out.bias"] + weights["q.out.bias_noise"] * noise[2:]
    np.testing.assert_allclose(network(x, (), noise)[0], x @ disturbed + bias, rtol=1e-5)
    np.testing.assert_allclose(network(x, ())[0], x @ weights["q.out.weight"] + weights["q.out.bias"], rtol=1e-6)


def test_factorised_noise_has_the_size_of_the_root() -> None:
    noise, plain = factorised_noise(1, 5, np.random.default_rng(3))[0], np.random.default_rng(3)
    x = plain.standard_normal((1, 5), np.float32)[0]
    np.testing.assert_allclose(noise, np.sign(x) * np.sqrt(np.abs(x)), rtol=1e-6)


def test_noisy_networks_explore_without_epsilon() -> None:
    actor = make(noisy=0.5, epsilon=0.0)
    obs = np.ones((1, 2), np.float32)
    assert len({act(actor, obs, explore=True, seed=seed)[0] for seed in range(30)}) > 1
    assert len({act(actor, obs, seed=seed)[0] for seed in range(30)}) == 1


def test_B073_epsilon_goes_on_where_it_was() -> None:
    actor, other = (make(epsilon=[[0, 1.0], [10_000, 0.05]]) for _ in range(2))
    actor.on_progress(Progress(env_steps=5000))
    other.set_state(actor.get_state())
    assert other.call("epsilon") == pytest.approx(0.525)
    other.call("set_epsilon", np.array([0.5, 0.25]))
    assert other.call("epsilon").tolist() == [0.5, 0.25]
    other.call("set_epsilon", None)
    assert other.call("epsilon") == pytest.approx(0.525)
    with pytest.raises(UserError, match="no utility 'explore'; it has: epsilon, set_epsilon"):
        other.call("explore")


def test_masks_are_obeyed() -> None:
    space = spaces.Dict(place=OBS, action_mask=spaces.MultiBinary(3))
    actor = make(space, epsilon=1.0)
    obs = {"place": np.zeros((100, 2), np.float32), "action_mask": np.tile([0, 1, 0], (100, 1)).astype(np.int8)}
    for explore in (True, False):
        actions = actor.act(obs, explore=explore, rng=np.random.default_rng(0)).actions
        assert (np.asarray(actions) == 1).all()
    with pytest.raises(NoLegalActionError, match="row 0"):
        actor.act({**obs, "action_mask": np.zeros((100, 3), np.int8)}, rng=np.random.default_rng(0))


def pieces() -> SampleBatch:
    """Two pieces: one of three rows that goes on, one of two that terminates."""
    return SampleBatch(
        {
            "obs": np.array([[1, 0], [2, 0], [3, 0], [4, 0], [5, 0]], np.float32),
            "actions": np.array([0, 1, 1, 0, 1]),
            "rewards": np.ones(5, np.float32),
            "terminated": np.array([0, 0, 0, 0, 1], np.bool_),
            "truncated": np.zeros(5, np.bool_),
        },
        {
            "start": np.array([0, 3]),
            "length": np.array([3, 2]),
            "bootstrap": np.array([True, False]),
            "last_obs": np.array([[10, 0], [20, 0]], np.float32),
        },
    )


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        # Q(s, 0) = s, Q(s, 1) = -s, so that the best is worth s; r + s' / 2 - Q.
        (1, [1 + 1 - 1, 1 + 1.5 + 2, 1 + 5 + 3, 1 + 2.5 - 4, 1 + 5]),
        (2, [1.5 + 0.75 - 1, 1.5 + 2.5 + 2, 1 + 5 + 3, 1.5 - 4, 1 + 5]),
    ],
)
def test_priorities_of_fresh_rows(n: int, expected: list[float]) -> None:
    weights = {"q.out.weight": np.array([[1, -1], [0, 0]], np.float32)}
    actor = make(actions=2, weights=weights, n_step=n, gamma=0.5, initial_priorities=True)
    assert actor.lookahead == n - 1
    done = actor.postprocess(pieces())
    np.testing.assert_allclose(done["priorities"], np.abs(expected), rtol=1e-6)
    assert done["priorities"].dtype == np.float32
    assert done["discounts"].tolist()[-1] == 0.0


@pytest.mark.parametrize(
    "space",
    [spaces.Box(-1, 1, (2,), np.float32), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2), spaces.Text(3)],
    ids=str,
)
def test_actions_that_are_not_discrete_are_refused(space: Any) -> None:
    with pytest.raises(SpaceError, match=f"action space {type(space).__name__}"):
        QArchitecture.of(OBS, space, QConfig())


def test_what_fits_not_together_is_refused() -> None:
    with pytest.raises(ValueError, match="rows of a recurrent policy have none of their own"):
        QConfig(model={"lstm": 4}, initial_priorities=True)
    with pytest.raises(ValueError, match="low 1 should be below high 1"):
        QConfig(distribution={"low": 1, "high": 1})
    with pytest.raises(ConfigError, match="shared_value"):
        make(model={"shared_value": True})
    with pytest.raises(UserError, match=r"lacks weights q\.out\.bias, q\.out\.weight"):
        QActor(OBS, spaces.Discrete(2), QConfig(model=MODEL), {})


def test_it_is_made_again_of_what_describes_it() -> None:
    actor = make(model={"hidden": [4], "lstm": 3}, dueling=True, epsilon=0.25)
    description = describe_actor(actor)
    assert description is not None and description["kind"] == "q"
    again = actor_from(description, OBS, spaces.Discrete(3, start=4), actor.get_weights())
    obs, state = np.ones((4, 2), np.float32), actor.initial_state(4)
    for other in (again, pickle.loads(pickle.dumps(actor))):
        ours, theirs = (one.act(obs, state, rng=np.random.default_rng(1)) for one in (actor, other))
        assert np.array_equal(np.asarray(ours.actions), np.asarray(theirs.actions))
        assert all(map(np.array_equal, ours.state, theirs.state))
