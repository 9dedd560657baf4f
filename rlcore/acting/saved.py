"""Actors as data: what a checkpoint keeps of one beside its weights, so that a policy acts without its framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium

from rlcore.acting.actor import ActorCriticActor
from rlcore.acting.central import CentralCriticActor
from rlcore.acting.deterministic import DeterministicActor, DeterministicConfig
from rlcore.acting.model_config import ModelConfig
from rlcore.acting.q_actor import QActor
from rlcore.acting.q_config import QConfig
from rlcore.acting.soft import SoftActor, SoftConfig
from rlcore.errors import CheckpointError
from rlcore.model import BatchedModel
from rlcore.planning.actor import PlanningActor, PlanningConfig
from rlcore.policy_graph import Actor, Weights
from rlcore.tree_search.actor import SearchActor
from rlcore.tree_search.settings import SearchConfig
from rlcore.validation import validate_plain

_ACTOR_CRITIC = "actor_critic"
_SEARCH = "search"
#: Actors that are made of spaces, a config and weights: by the name of their kind, with their config's class.
_CONFIGURED: Mapping[str, tuple[type[Any], type[Any]]] = {
    "q": (QActor, QConfig),
    "deterministic": (DeterministicActor, DeterministicConfig),
    "soft": (SoftActor, SoftConfig),
    "planning": (PlanningActor, PlanningConfig),
}


def describe_actor(actor: Actor | None) -> dict[str, Any] | None:
    """``actor`` as plain JSON, without its weights; None for one of a class that the kernel does not know."""
    # Not isinstance: what a subclass changes would be lost.
    # To act, one with a central critic is one without values.
    if isinstance(actor, ActorCriticActor) and type(actor) in (ActorCriticActor, CentralCriticActor):
        return {"kind": _ACTOR_CRITIC, **actor.describe()}
    if isinstance(actor, SearchActor) and type(actor) is SearchActor:
        return {"kind": _SEARCH, **actor.describe()}
    for kind, (own, _) in _CONFIGURED.items():
        if isinstance(actor, own) and type(actor) is own:
            return {"kind": kind, **actor.describe()}
    return None


def searches(description: Mapping[str, Any] | None) -> bool:
    """Whether the described actor needs the environment's model."""
    return description is not None and description.get("kind") == _SEARCH


def actor_from(
    description: Mapping[str, Any],
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    weights: Weights,
    rules: BatchedModel | None = None,
) -> Actor:
    """An actor that acts as the described one did. ``CheckpointError`` for a description that is none of ours.

    One of an actor-critic cannot postprocess as the original did: its rho is not part of a description. One that
    searches does so with ``rules``.
    """
    try:
        kind = description["kind"]
        if kind in _CONFIGURED:
            actor, config = _CONFIGURED[kind]
            settings = validate_plain(config, description["config"], "config")
            made: Actor = actor(observation_space, action_space, settings, weights)
            return made
        if kind not in (_ACTOR_CRITIC, _SEARCH):
            raise CheckpointError(f"this rlcore knows no actor of kind '{kind}'")
        model = validate_plain(ModelConfig, description["model"], "model")
        if kind == _SEARCH:
            search = validate_plain(SearchConfig, description["search"], "search")
            discount = float(description["discount"])
            return SearchActor(
                observation_space, action_space, model, weights, rules=rules, search=search, discount=discount
            )
        squash, value = bool(description["squash"]), bool(description["value"])
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"no actor can be made of {dict(description)!r}") from error
    return ActorCriticActor(observation_space, action_space, model, weights, squash=squash, value=value)
