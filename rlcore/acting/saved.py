"""Actors as data: what a checkpoint keeps of one beside its weights, so that a policy acts without its framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium

from rlcore.acting.actor import ActorCriticActor
from rlcore.acting.model_config import ModelConfig
from rlcore.errors import CheckpointError
from rlcore.policy_graph import Actor, Weights
from rlcore.validation import validate_plain

_ACTOR_CRITIC = "actor_critic"


def describe_actor(actor: Actor | None) -> dict[str, Any] | None:
    """``actor`` as plain JSON, without its weights; None for one of a class that the kernel does not know."""
    # Not isinstance: what a subclass changes would be lost.
    if type(actor) is ActorCriticActor:
        return {"kind": _ACTOR_CRITIC, **actor.describe()}
    return None


def actor_from(
    description: Mapping[str, Any],
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    weights: Weights,
) -> Actor:
    """An actor that acts as the described one did. ``CheckpointError`` for a description that is none of ours.

    It cannot postprocess as the original did: rho is not part of a description.
    """
    try:
        if description["kind"] != _ACTOR_CRITIC:
            raise CheckpointError(f"this rlcore knows no actor of kind '{description['kind']}'")
        model = validate_plain(ModelConfig, description["model"], "model")
        squash, value = bool(description["squash"]), bool(description["value"])
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"no actor can be made of {dict(description)!r}") from error
    return ActorCriticActor(observation_space, action_space, model, weights, squash=squash, value=value)
