"""Acting without a framework: networks and action distributions in numpy, and the actors made of them."""

from __future__ import annotations

from rlcore.acting.actor import ActorCriticActor, Postprocess
from rlcore.acting.architecture import LOG_STD, Architecture, refuse_all_but_dense, remarks_on_encoders
from rlcore.acting.box_scale import BoxScale
from rlcore.acting.deterministic import DeterministicActor, DeterministicConfig
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
from rlcore.acting.model_config import ModelConfig
from rlcore.acting.networks import MLP, layer_names, orthogonal
from rlcore.acting.observations import FlatObs, with_batch_axis
from rlcore.acting.products import Product, distribution_for
from rlcore.acting.q_actor import QActor
from rlcore.acting.q_config import QConfig, Support
from rlcore.acting.scaling import remarks_on
from rlcore.acting.soft import SoftActor, SoftConfig
from rlcore.acting.stacked import Stackable, StackedActor, stack
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
    "Architecture",
    "BoxScale",
    "Categorical",
    "DeterministicActor",
    "DeterministicConfig",
    "DiagonalGaussian",
    "Distribution",
    "Draw",
    "FlatObs",
    "ModelConfig",
    "MultiCategorical",
    "Postprocess",
    "Product",
    "QActor",
    "QConfig",
    "SoftActor",
    "SoftConfig",
    "SquashedGaussian",
    "Stackable",
    "StackedActor",
    "Support",
    "distribution_for",
    "layer_names",
    "mask_for",
    "masked",
    "orthogonal",
    "refuse_all_but_dense",
    "remarks_on",
    "remarks_on_encoders",
    "stack",
    "to_env",
    "with_batch_axis",
]
