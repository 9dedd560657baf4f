"""Acting without a framework: networks and action distributions in numpy, and the actors made of them."""

from __future__ import annotations

from rlcore.acting.actor import LOG_STD, ActorCriticActor, Postprocess, actor_critic_shapes, init_actor_critic
from rlcore.acting.distributions import (
    PRE_TANH,
    Categorical,
    DiagonalGaussian,
    Distribution,
    Draw,
    SquashedGaussian,
    distribution_for,
    mask_logits,
)
from rlcore.acting.networks import MLP, ModelConfig, init_mlp, layer_names, mlp_shapes, orthogonal
from rlcore.acting.observations import FlatObs, with_batch_axis
from rlcore.acting.to_env import to_env
from rlcore.policy_graph import Actor

__all__ = [
    "LOG_STD",
    "MLP",
    "PRE_TANH",
    "Actor",
    "ActorCriticActor",
    "Categorical",
    "DiagonalGaussian",
    "Distribution",
    "Draw",
    "FlatObs",
    "ModelConfig",
    "Postprocess",
    "SquashedGaussian",
    "actor_critic_shapes",
    "distribution_for",
    "init_actor_critic",
    "init_mlp",
    "layer_names",
    "mask_logits",
    "mlp_shapes",
    "orthogonal",
    "to_env",
    "with_batch_axis",
]
