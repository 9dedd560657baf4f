from __future__ import annotations

import pickle
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.acting import ActorCriticActor, Architecture, ModelConfig
from rlcore.batch import SampleBatch
from rlcore.errors import ConfigError, UserError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.returns import gae
from rlcore.sampling.collect import Episodes, Fragment
from rlcore.testing.environments import Count, DictCountEnv

OBS = spaces.Box(-np.inf, np.inf, (1,), np.float32)
DISCRETE = spaces.Discrete(2)
RHO = partial(gae, gamma=0.9, lambda_=0.95)


def make(observation_space: Any = OBS, action_space: Any = DISCRETE, *, value: bool = True, **model: Any) -> Any:
    config = ModelConfig(**{"hidden": (6,), "lstm": 5, **model})
    weights = Architecture.of(observation_space, action_space, config, value=value).init(np.random.default_rng(0))
    # Large enough that steps tell apart; observations of Count are some ten.
    scaled = {name: array * np.float32(0.1) for name, array in weights.items() if name.endswith("hidden_0.weight")}
    weights |= scaled
    return ActorCriticActor(observation_space, action_space, config, weights, value=value, rho=RHO if value else None)


def played(actor: Any, obs: Any) -> list[Any]:
    """Acts through ``obs [steps, n, ...]`` from the initial state."""
    state, outputs = actor.initial_state(len(obs[0])), []
    for step in obs:
        outputs.append(actor.act(step, state, rng=np.random.default_rng(3)))
        state = outputs[-1].state
    return outputs


@pytest.mark.parametrize(("shared", "parts"), [(False, 4), (True, 2)])
def test_the_state_goes_in_and_out(shared: bool, parts: int) -> None:
    actor = make(shared_value=shared)
    state = actor.initial_state(3)
    assert [part.shape for part in state] == [(3, 5)] * parts
    assert all(part.dtype == np.float32 and not part.any() for part in state)
    obs = np.arange(1, 4, dtype=np.float32)[:, None]
    first = actor.act(obs, state, rng=np.random.default_rng(0))
    assert [part.shape for part in first.state] == [(3, 5)] * parts
    assert not any(part.any() for part in state), "what was handed in has changed"
    again = actor.act(obs, state, rng=np.random.default_rng(0))
    assert all((one == other).all() for one, other in zip(first.state, again.state, strict=True))
    later = actor.act(obs, first.state, rng=np.random.default_rng(0))
    assert (later.extras["vf_preds"] != first.extras["vf_preds"]).all()


def test_equal_to_the_network_written_out() -> None:
    actor = make(shared_value=True)
    weights = {name: array.astype(np.float64) for name, array in actor.get_weights().items()}
    obs = np.random.default_rng(1).standard_normal((6, 2, 1)).astype(np.float32)
    h, c = np.zeros((2, 5)), np.zeros((2, 5))
    for x, output in zip(obs, played(actor, obs), strict=True):
        hidden = np.tanh(x @ weights["shared.hidden_0.weight"] + weights["shared.hidden_0.bias"])
        gates = hidden @ weights["shared.lstm.weight_x"] + h @ weights["shared.lstm.weight_h"]
        i, f, g, o = np.split(gates + weights["shared.lstm.bias"], 4, axis=1)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        np.testing.assert_allclose(output.state[0], h, atol=1e-6)
        np.testing.assert_allclose(output.state[1], c, atol=1e-6)
        values = (h @ weights["value.out.weight"] + weights["value.out.bias"])[:, 0]
        np.testing.assert_allclose(output.extras["vf_preds"], values, atol=1e-6)
        logits = h @ weights["policy.out.weight"] + weights["policy.out.bias"]
        logp = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        taken = logp[np.arange(2), output.actions]
        np.testing.assert_allclose(output.extras["action_logp"], taken, atol=1e-6)


def test_rows_do_not_mix() -> None:
    actor = make()
    obs = np.random.default_rng(1).standard_normal((4, 3, 1)).astype(np.float32)
    together = played(actor, obs)[-1]
    for row in range(3):
        alone = played(actor, obs[:, row : row + 1])[-1]
        for one, other in zip(together.state, alone.state, strict=True):
            np.testing.assert_allclose(one[row], other[0], atol=1e-6)


def test_a_shared_network_without_memory_gives_values_on_the_way() -> None:
    actor = make(lstm=0, shared_value=True)
    obs = np.arange(4, dtype=np.float32)[:, None]
    output = actor.act(obs, rng=np.random.default_rng(0))
    assert output.state == ()
    np.testing.assert_array_equal(output.extras["vf_preds"], actor.values(obs))


def test_without_values_there_are_none() -> None:
    actor = make(value=False)
    assert len(actor.initial_state(2)) == 2
    output = actor.act(np.zeros((2, 1), np.float32), actor.initial_state(2), rng=np.random.default_rng(0))
    assert "vf_preds" not in output.extras
    with pytest.raises(UserError, match="no value network"):
        actor.values(np.zeros((2, 1), np.float32), output.state)


def test_an_actor_has_no_convolutions_and_no_custom_model() -> None:
    image = spaces.Box(0, 255, (36, 36, 3), np.uint8)
    for space, model, key in (
        (image, ModelConfig(), "encoder"),
        (OBS, ModelConfig(custom="package.module:build"), "custom"),
    ):
        with pytest.raises(ConfigError, match=rf"^model\.{key}: .*") as caught:
            ActorCriticActor(space, DISCRETE, model, {})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("collect", [Fragment(5), Episodes(4)], ids=["fragment", "episodes"])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_B125_every_episode_begins_with_the_initial_state(shared: bool, collect: Any, num_envs: int) -> None:
    actor = make(shared_value=shared)
    evaluator = PolicyEvaluator(env=partial(Count, length=2), graph=actor, num_envs=num_envs, collect=collect, rng=1)
    fresh = played(actor, np.array([[[10.0]], [[11.0]]], np.float32))
    for _ in range(3):
        batch = evaluator.sample()
        assert isinstance(batch, SampleBatch)
        starts = batch["t"][batch.cuts["start"]]
        for part, after_one in zip(batch.state_in(), fresh[0].state, strict=True):
            assert not part[starts == 0].any()
            # Every other piece goes on from what the opening observation has left.
            np.testing.assert_allclose(part[starts == 1], np.repeat(after_one, (starts == 1).sum(), 0), atol=1e-6)
        # So all values of equal steps are equal, whichever episode they are of.
        for t, output in enumerate(fresh):
            np.testing.assert_allclose(batch["vf_preds"][batch["t"] == t], output.extras["vf_preds"][0], atol=1e-5)


def test_B128_a_fragment_goes_on_from_where_the_last_one_stopped() -> None:
    actor = make()
    env = partial(Count, length=10)
    evaluator = PolicyEvaluator(env=env, graph=actor, num_envs=1, collect=Fragment(4), rng=1)
    fresh = played(actor, (10.0 + np.arange(10, dtype=np.float32)).reshape(10, 1, 1))
    first, second, third = (evaluator.sample() for _ in range(3))
    assert second["t"].tolist() == [4, 5, 6, 7] and third["t"].tolist() == [8, 9, 0, 1]
    for before, after in ((first, second), (second, third)):
        for left, found in zip(before.last_state(), after.state_in(), strict=True):
            assert left[-1].any() and (left[-1] == found[0]).all()
    for batch in (first, second, third):
        expected = np.array([fresh[t].extras["vf_preds"][0] for t in batch["t"]])
        np.testing.assert_allclose(batch["vf_preds"], expected, atol=1e-5)
    # The value after a piece is that of its last observation, seen with the memory of the rows before.
    np.testing.assert_allclose(first.cuts["last_value"], second["vf_preds"][:1], atol=1e-6)
    assert not third.cuts["bootstrap"][0] and third.state_in()[0][1].tolist() == [0.0] * 5


def test_parts_of_an_observation_and_a_memory() -> None:
    space = spaces.Dict({"a": OBS, "b": spaces.Box(-np.inf, np.inf, (2,), np.float32)})
    actor = make(space, shared_value=True)
    evaluator = PolicyEvaluator(env=DictCountEnv, graph=actor, num_envs=2, collect=Fragment(7), rng=1)
    batch = evaluator.sample()
    assert len(batch) == 14 and set(batch["t"]) == {0, 1, 2}
    for part in batch.state_in():
        assert (part.any(axis=1) == (batch["t"][batch.cuts["start"]] > 0)).all()


def test_evaluators_keep_the_memory_when_they_are_saved() -> None:
    def evaluator() -> PolicyEvaluator:
        return PolicyEvaluator(env=partial(Count, length=10), graph=make(), num_envs=2, collect=Fragment(4), rng=1)

    whole = evaluator()
    whole.sample()
    saved = pickle.loads(pickle.dumps(whole.get_state()))
    restored = evaluator()
    restored.set_state(saved)
    expected, found = whole.sample(), restored.sample()
    assert expected.rows.keys() == found.rows.keys() and expected.cuts.keys() == found.cuts.keys()
    for table, other in ((expected.rows, found.rows), (expected.cuts, found.cuts)):
        assert all((table[name] == other[name]).all() for name in table)


def test_it_pickles_without_a_framework() -> None:
    actor = make(shared_value=True)
    obs = np.arange(3, dtype=np.float32)[:, None]
    output = actor.act(obs, actor.initial_state(3), rng=np.random.default_rng(0))
    code = (
        "import pickle, sys, numpy as np\n"
        "actor, obs, expected = pickle.load(sys.stdin.buffer)\n"
        "output = actor.act(obs, actor.initial_state(3), rng=np.random.default_rng(0))\n"
        "assert (output.actions == expected.actions).all()\n"
        "assert all((a == b).all() for a, b in zip(output.state, expected.state, strict=True))\n"
        "assert not {'torch', 'tensorflow', 'ray'} & set(sys.modules), sorted(sys.modules)\n"
    )
    sent = pickle.dumps((actor, obs, output))
    result = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr.decode()
