from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch.distributions import Categorical, Normal

from rlcore.batch import SampleBatch
from rlcore.errors import SpaceError
from rlcore.policy_graph import Progress
from rlcore_torch import SAC, TD3
from rlcore_torch.soft_losses import gaussian

Build = Callable[..., Any]
OBS = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
CROOKED = gymnasium.spaces.Box(np.array([0, -3], np.float32), np.array([10, 1], np.float32))
DISCRETE = gymnasium.spaces.Discrete(3, start=5)
MODEL = {"hidden": [6, 5]}


def transitions(discrete: bool = False, rows: int = 7, seed: int = 0) -> SampleBatch:
    rng = np.random.default_rng(seed)
    unit = rng.uniform(-1, 1, (rows, 2))
    continuous = (np.array([5, -1]) + np.array([5, 2]) * unit).astype(np.float32)
    return SampleBatch(
        {
            "obs": rng.standard_normal((rows, 3)).astype(np.float32),
            "actions": rng.integers(0, 3, rows) if discrete else continuous,
            "rewards": rng.standard_normal(rows).astype(np.float32),
            "terminated": np.arange(rows) == 2,
            "truncated": np.zeros(rows, np.bool_),
            "steps": np.ones(rows, np.int32),
            "discounts": np.where(np.arange(rows) == 2, 0.0, 0.9).astype(np.float32),
            "weights": rng.random(rows).astype(np.float32),
        },
        {
            "start": np.arange(rows),
            "length": np.ones(rows, np.int64),
            "bootstrap": np.arange(rows) != 2,
            "last_obs": rng.standard_normal((rows, 3)).astype(np.float32),
        },
    )


def mlp(weights: Any, name: str, x: Any) -> Any:
    for layer in ("hidden_0", "hidden_1"):
        x = torch.relu(x @ weights[f"{name}.{layer}.weight"] + weights[f"{name}.{layer}.bias"])
    return x @ weights[f"{name}.out.weight"] + weights[f"{name}.out.bias"]


def float64(own: Any) -> Any:
    rng = np.random.default_rng(3)
    own.set_weights({n: rng.standard_normal(a.shape).astype(np.float32) / 2 for n, a in own.get_weights().items()})
    weights = {name: torch.tensor(a, dtype=torch.float64) for name, a in own.get_weights().items()}
    for name in own.trainable:
        weights[name].requires_grad_()
    return weights


def agrees(own: Any, batch: SampleBatch, weights: Any, q_loss: Any, policy_loss: Any, temperature_loss: Any) -> Any:
    """Compares gradients with those of three losses, each of its own parameters only."""
    found = own.gradients(batch)
    for loss, prefix in ((q_loss, "q"), (policy_loss, "policy"), (temperature_loss, "log_alpha")):
        names = [name for name in sorted(own.trainable) if name.startswith(prefix)]
        for name, gradient in zip(names, torch.autograd.grad(loss, [weights[n] for n in names]), strict=True):
            np.testing.assert_allclose(found.gradients[name], gradient.numpy(), rtol=2e-4, atol=1e-6, err_msg=name)
    assert found.stats["q_loss"] == pytest.approx(q_loss.item(), rel=1e-4)
    assert found.stats["policy_loss"] == pytest.approx(policy_loss.item(), rel=1e-4)
    return found


def test_one_update_against_the_formulae(build: Build) -> None:
    own, batch = build(SAC, CROOKED, observation_space=OBS, model=MODEL, target_entropy=-1.5), transitions()
    weights = float64(own)
    (drawn,) = own.minibatches(own.pin(batch), None)
    obs, after = torch.tensor(batch["obs"]).double(), torch.tensor(batch.cuts["last_obs"]).double()
    unit = (torch.tensor(batch["actions"]).double() - torch.tensor([5, -1])) / torch.tensor([5, 2])
    alpha = weights["log_alpha"].detach().exp()

    def act(x: Any, noise: Any) -> tuple[Any, Any]:
        mean, log_std = mlp(weights, "policy", x).chunk(2, 1)
        normal = Normal(mean, log_std.clamp(-20, 2).exp())
        sample = normal.mean + normal.stddev * noise.double()
        log_probs = normal.log_prob(sample) - torch.log(1 - sample.tanh() ** 2)
        return sample.tanh(), log_probs.sum(1, keepdim=True)

    def lowest(prefix: str, x: Any, actions: Any) -> Any:
        return torch.min(*[mlp(weights, f"{prefix}{q}", torch.cat([x, actions], 1)) for q in ("q1", "q2")])

    with torch.no_grad():
        actions, log_probs = act(after, drawn["next_noise"])
        soft = lowest("target_", after, actions) - alpha * log_probs
        goal = torch.tensor(batch["rewards"])[:, None] + torch.tensor(batch["discounts"])[:, None] * soft
    errors = torch.stack([mlp(weights, q, torch.cat([obs, unit], 1)) - goal for q in ("q1", "q2")])
    importance = torch.tensor(batch["weights"]).double()[:, None]
    q_loss = (importance * errors.square() / 2).sum(0).mean()
    actions, log_probs = act(obs, drawn["noise"])
    policy_loss = (alpha * log_probs - lowest("", obs, actions)).mean()
    temperature_loss = -(weights["log_alpha"] * (log_probs.detach() - 1.5)).mean()
    found = agrees(own, batch, weights, q_loss, policy_loss, temperature_loss)
    np.testing.assert_allclose(found.td_error, errors.detach().abs().mean(0)[:, 0], rtol=1e-4)
    assert found.stats["entropy"] == pytest.approx(-log_probs.mean().item(), rel=1e-4)
    assert found.stats["temperature"] == pytest.approx(alpha.item(), rel=1e-5) == own.call("temperature")


def test_one_update_of_discrete_actions_against_the_formulae(build: Build) -> None:
    own, batch = build(SAC, DISCRETE, observation_space=OBS, model=MODEL), transitions(discrete=True)
    weights = float64(own)
    obs, after = torch.tensor(batch["obs"]).double(), torch.tensor(batch.cuts["last_obs"]).double()
    alpha = weights["log_alpha"].detach().exp()
    with torch.no_grad():
        policy = Categorical(logits=mlp(weights, "policy", after))
        lowest = torch.min(*[mlp(weights, f"target_{q}", after) for q in ("q1", "q2")])
        soft = (policy.probs * lowest).sum(1) + alpha * policy.entropy()
        goal = torch.tensor(batch["rewards"]) + torch.tensor(batch["discounts"]) * soft
    rows, actions = torch.arange(7), torch.tensor(batch["actions"])
    errors = torch.stack([mlp(weights, q, obs)[rows, actions] - goal for q in ("q1", "q2")])
    q_loss = (torch.tensor(batch["weights"]).double() * errors.square() / 2).sum(0).mean()
    policy = Categorical(logits=mlp(weights, "policy", obs))
    lowest = torch.min(*[mlp(weights, q, obs) for q in ("q1", "q2")])
    policy_loss = -((policy.probs * lowest).sum(1) + alpha * policy.entropy()).mean()
    entropy = policy.entropy().detach().mean()
    temperature_loss = weights["log_alpha"] * (entropy - 0.5 * math.log(3))
    found = agrees(own, batch, weights, q_loss, policy_loss, temperature_loss)
    np.testing.assert_allclose(found.td_error, errors.detach().abs().mean(0), rtol=1e-4)
    assert found.stats["entropy"] == pytest.approx(entropy.item(), rel=1e-4)


def test_B095_log_probabilities_where_tanh_saturates() -> None:
    outputs = torch.tensor([[10.0, math.log(0.1)]])
    actions, log_probs = gaussian(outputs, torch.zeros(1, 1))
    assert actions.item() == 1.0
    assert log_probs.item() == pytest.approx(19.997, abs=2e-3)


def test_B077_the_temperature_goes_on_being_learnt(build: Build) -> None:
    one, two = (build(SAC, CROOKED, observation_space=OBS, model=MODEL, seed=seed) for seed in (0, 1))
    batch = transitions()
    for _ in range(5):
        one.learn(batch)
    two.set_state(one.get_state())
    assert two.call("temperature") == one.call("temperature") != 1.0
    for _ in range(10):
        before = two.call("temperature")
        one.learn(batch)
        two.learn(batch)
        assert two.call("temperature") == one.call("temperature") != before


def test_the_temperature_falls_where_there_is_too_much_entropy(build: Build) -> None:
    own = build(SAC, CROOKED, observation_space=OBS, model=MODEL, target_entropy=-50.0, temperature_learning_rate=0.1)
    own.learn(transitions())
    assert own.call("temperature") == pytest.approx(math.exp(-0.1), rel=1e-4)


def test_a_fixed_temperature_is_no_weight(build: Build) -> None:
    own = build(SAC, CROOKED, observation_space=OBS, model=MODEL, temperature=0.25)
    assert "log_alpha" not in own.get_weights() and own.call("temperature") == 0.25
    stats = own.learn(transitions()).stats
    assert stats["temperature"] == 0.25 and stats["temperature_loss"] == 0.0


def test_only_critics_have_targets(build: Build) -> None:
    own = build(SAC, CROOKED, observation_space=OBS, model=MODEL, tau=0.5)
    targets = {name for name in own.get_weights() if name.startswith("target_")}
    assert targets == {f"target_{name}" for name in own.trainable if name.startswith("q")}
    own.set_weights({"q2.out.bias": np.ones(1, np.float32)})
    own.on_progress(Progress(env_steps=1, updates=1))
    assert own.get_weights()["target_q2.out.bias"].tolist() == [0.5]
    assert own.acting == {name for name in own.trainable if name.startswith("policy")}


def test_masks_are_in_the_loss(build: Build) -> None:
    space = gymnasium.spaces.Dict(place=OBS, action_mask=gymnasium.spaces.MultiBinary(3))
    own = build(SAC, DISCRETE, observation_space=space, model=MODEL)
    plain = transitions(discrete=True)
    rows = {name: column for name, column in plain.rows.items() if name != "obs"}
    cuts = {name: column for name, column in plain.cuts.items() if name != "last_obs"}
    only = np.eye(3, dtype=np.int8)
    rows |= {"obs.place": plain["obs"], "obs.action_mask": only[plain["actions"]]}
    after = np.zeros((7, 3), np.int8)
    cuts |= {"last_obs.place": plain.cuts["last_obs"], "last_obs.action_mask": after}
    output = own.learn(SampleBatch(rows, cuts))
    assert not output.skipped
    assert output.stats["entropy"] == 0.0, "one action is left"


@pytest.mark.parametrize(
    "space",
    [gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32), gymnasium.spaces.MultiDiscrete([2, 3])],
    ids=str,
)
def test_B092_other_actions_are_refused(build: Build, space: Any) -> None:
    with pytest.raises(SpaceError, match=r"cannot rescale an unbounded box|needs a bounded Box"):
        build(SAC, space)


@pytest.mark.parametrize("graph", [SAC, TD3])
def test_two_devices_learn_as_one(build: Build, graph: Any) -> None:
    one, two = (
        build(graph, CROOKED, observation_space=OBS, model=MODEL, tau=0.5, devices=devices)
        for devices in (("cpu",), ("cpu", "cpu"))
    )
    batch = transitions(rows=9)
    for number in range(1, 5):
        # In order: noise is drawn row by row, one device after the other.
        units = np.sort(np.random.default_rng(number).permutation(9)[:7])
        first, second = one.learn(batch, units), two.learn(batch, units)
        np.testing.assert_allclose(first.td_error, second.td_error, rtol=1e-4, atol=1e-5)
        for own in (one, two):
            own.on_progress(Progress(env_steps=number, updates=number))
    for name, array in one.get_weights().items():
        np.testing.assert_allclose(array, two.get_weights()[name], rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("devices", [("cpu",), ("cpu", "cpu")], ids=len)
@pytest.mark.parametrize("graph", [SAC, TD3])
def test_minibatches_pinned_together_are_learnt_from_as_apart(build: Build, graph: Any, devices: Any) -> None:
    together, apart = (
        build(graph, CROOKED, observation_space=OBS, model=MODEL, devices=devices, tau=0.1) for _ in range(2)
    )
    batch = transitions(rows=12)
    parts = [batch.take_pieces(range(first, first + 4)) for first in (0, 4, 8)]
    for pinned, part in zip(together.pin_minibatches(batch, 3), parts, strict=True):
        one, other = together.learn(pinned), apart.learn(apart.pin(part))
        assert one.stats == other.stats and one.rows == other.rows == 4
        np.testing.assert_array_equal(one.td_error, other.td_error)
    for name, array in together.get_weights().items():
        np.testing.assert_array_equal(array, apart.get_weights()[name])
