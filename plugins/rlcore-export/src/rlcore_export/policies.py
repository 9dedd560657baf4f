"""The policies that can be exported: from what they see to the parameters that they act by, and the actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from rlcore.acting.architecture import POLICY, Architecture
from rlcore.acting.body import Body
from rlcore.acting.box_scale import BoxScale
from rlcore.acting.critic_architecture import CriticArchitecture
from rlcore.acting.deterministic import DeterministicConfig, architecture_of
from rlcore.acting.distributions import Distribution
from rlcore.acting.model_config import ModelConfig
from rlcore.acting.observations import FlatObs
from rlcore.acting.products import distribution_for
from rlcore.acting.q_architecture import Q, QArchitecture
from rlcore.acting.q_config import QConfig, Support
from rlcore.acting.q_network import returns_of
from rlcore.acting.soft import SoftChoice, SoftConfig
from rlcore.policy_graph import Weights
from rlcore_export.acted import best, in_box, likeliest, without_illegal
from rlcore_export.described import ActorCritic, Described
from rlcore_export.layers import Layers
from rlcore_export.nodes import GraphBuilder, Value


@dataclass(frozen=True)
class Acting:
    """What a policy computes: ``parameters [n, width]`` that it acts by, before any mask, its actions by leaf as the
    network has them, and the recurrent state after them, parts ``[n, units]``."""

    parameters: Value
    width: int
    actions: Mapping[str, Value]
    state: Sequence[Value]


@dataclass(frozen=True)
class Seen:
    """What a policy is given: observations by leaf behind the filter, in the space ``observation_space``; the flags of
    an action mask, bool ``[n, options]``, None without one; and its recurrent state."""

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    leaves: Mapping[str, Value]
    flags: Value | None
    #: Called with the number of units of each part of the state, whose inputs it makes.
    state: Callable[[Sequence[int]], list[Value]]


def acting(graph: GraphBuilder, policy: Described, seen: Seen, weights: Weights) -> Acting:
    """Adds what ``policy`` computes without exploring. ``SpaceError``, ``ConfigError`` for settings that do not fit."""
    layers = Layers(graph, weights)
    if isinstance(policy, ActorCritic):
        return _actor_critic(graph, layers, policy, seen)
    if isinstance(policy, QConfig):
        return _q(graph, layers, policy, seen)
    if isinstance(policy, DeterministicConfig):
        scale = BoxScale.of(seen.action_space)
        architecture = architecture_of(seen.observation_space, scale, policy)
        outputs = _policy_outputs(layers, architecture, policy.model, seen)
        return Acting(outputs, scale.size, {"": in_box(graph, scale, outputs)}, ())
    return _soft(graph, layers, policy, seen)


def _features(
    layers: Layers, body: Body, network: str, model: ModelConfig, seen: Seen
) -> tuple[Value, list[Value]]:
    flat = FlatObs(seen.observation_space, model.scale, leave_out=frozenset(body.encoders))
    state = seen.state((body.lstm, body.lstm) if body.lstm else ())
    return layers.body(body, network, flat, seen.leaves, state)


def _policy_outputs(layers: Layers, architecture: CriticArchitecture, model: ModelConfig, seen: Seen) -> Value:
    features, _ = _features(layers, architecture, POLICY, model, seen)
    return layers.dense(f"{POLICY}.out", features)


def _actor_critic(graph: GraphBuilder, layers: Layers, policy: ActorCritic, seen: Seen) -> Acting:
    architecture = Architecture.of(
        seen.observation_space, seen.action_space, policy.model, squash=policy.squash, value=policy.value
    )
    # Values are of no use in acting, nor is the recurrent state of a network of their own.
    features, state = _features(layers, architecture, architecture.networks[0], policy.model, seen)
    outputs = layers.dense(f"{POLICY}.out", features)
    distribution = distribution_for(seen.action_space, policy.squash)
    return _by_mode(graph, distribution, outputs, seen, state)


def _by_mode(
    graph: GraphBuilder, distribution: Distribution, outputs: Value, seen: Seen, state: Sequence[Value]
) -> Acting:
    legal = outputs if seen.flags is None else without_illegal(graph, distribution, outputs, seen.flags)
    return Acting(outputs, distribution.outputs, likeliest(graph, distribution, legal), state)


def _soft(graph: GraphBuilder, layers: Layers, policy: SoftConfig, seen: Seen) -> Acting:
    choice = SoftChoice(seen.observation_space, seen.action_space, policy)
    architecture = choice.architecture(seen.observation_space)
    outputs = _policy_outputs(layers, architecture, policy.model, seen)
    if choice.scale is None:
        return _by_mode(graph, distribution_for(seen.action_space, squash=False), outputs, seen, ())
    means, _ = graph.split(outputs, [choice.scale.size] * 2)
    return Acting(outputs, architecture.policy_outputs, {"": in_box(graph, choice.scale, means)}, ())


def _q(graph: GraphBuilder, layers: Layers, policy: QConfig, seen: Seen) -> Acting:
    architecture = QArchitecture.of(seen.observation_space, seen.action_space, policy)
    features, state = _features(layers, architecture, Q, policy.model, seen)
    heads = [layers.dense(f"{Q}.{head}", features) for head in architecture.heads]
    values = _values(graph, architecture, policy.distribution, heads)
    legal = values
    if seen.flags is not None:
        legal = without_illegal(graph, distribution_for(seen.action_space, squash=False), values, seen.flags)
    return Acting(values, architecture.actions, {"": best(graph, legal)}, state)


def _values(
    graph: GraphBuilder, architecture: QArchitecture, support: Support | None, heads: Sequence[Value]
) -> Value:
    """``[n, actions]``, of what the last layers put out; see :class:`rlcore.acting.q_network.QNetwork`."""
    outputs = heads[-1]
    if len(heads) == 1 and support is None:
        return outputs
    outputs = graph.reshape(outputs, [architecture.actions, architecture.atoms])
    if len(heads) > 1:
        mean = graph.apply("ReduceMean", [outputs], {"axes": (1,), "keepdims": 1})
        state_values = graph.reshape(heads[0], [1, architecture.atoms])
        outputs = graph.apply("Add", [graph.apply("Sub", [outputs, mean]), state_values])
    if support is None:
        return graph.reshape(outputs, [architecture.actions])
    probabilities = graph.apply("Softmax", [outputs], {"axis": 2})
    returns = graph.constant(np.asarray(returns_of(support), np.float32)[:, None], "returns")
    return graph.reshape(graph.apply("MatMul", [probabilities, returns]), [architecture.actions])
