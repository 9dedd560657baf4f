"""Acting without a framework: networks and action distributions in numpy, and the actors made of them."""

from __future__ import annotations

from rlcore.acting.actor import LOG_STD, ActorCriticActor, Postprocess, actor_critic_shapes, init_actor_critic
from rlcore.acting.distributions import (
    PRE_TANH,
    Categorical,
    DiagonalGaussian,
    Distribution,
    Draw,
    MultiCategorical,
    SquashedGaussian,
)
from rlcore.acting.masks import ACTION_MASK, ActionMask, mask_for, masked
from rlcore.acting.networks import MLP, ModelConfig, init_mlp, layer_names, mlp_shapes, orthogonal
from rlcore.acting.observations import FlatObs, with_batch_axis
from rlcore.acting.products import Product, distribution_for
from rlcore.acting.scaling import remarks_on
from rlcore.acting.to_env import to_env
from rlcore.policy_graph import Actor

__all__ = [
    "ACTION_MASK",
    "LOG_STD",
    "MLP",
    "PRE_TANH",
    "ActionMask",
    "Actor",
    "ActorCriticActor",
    "Categorical",
    "DiagonalGaussian",
    "Distribution",
    "Draw",
    "FlatObs",
    "ModelConfig",
    "MultiCategorical",
    "Postprocess",
    "Product",
    "SquashedGaussian",
    "actor_critic_shapes",
    "distribution_for",
    "init_actor_critic",
    "init_mlp",
    "layer_names",
    "mask_for",
    "masked",
    "mlp_shapes",
    "orthogonal",
    "remarks_on",
    "to_env",
    "with_batch_axis",
]
