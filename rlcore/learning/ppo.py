"""Proximal policy optimisation (Schulman et al. 2017): the clipped surrogate, a KL penalty, or both."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat, model_validator

from rlcore.batch import ACTION_LOGP, ADVANTAGES, VALUE_TARGETS, VF_PREDS
from rlcore.learning.actor_critic import ActorCriticConfig, ActorCriticRules
from rlcore.learning.coefficient import Coefficient
from rlcore.optim import Adam, UpdateRule
from rlcore.policy_graph import GraphConfig, Progress
from rlcore.schedule import PositiveSchedule, value_at

#: The scalar among the columns of a minibatch that bounds the ratio.
CLIP = "clip"


class PPOConfig(ActorCriticConfig):
    """``clip`` (a schedule) bounds the ratio in the surrogate; null leaves it unbounded, which needs the penalty.

    ``value_clip`` bounds how far an update gains from moving a value; null does not. ``epsilon`` is Adam's.

    Two settings with names that are alike, both the field's, do different things. ``kl_target`` is what the penalty
    adapts to: its weight ``kl_coeff`` is doubled between batches where the KL divergence exceeds one and a half times
    the target, and halved where the target exceeds one and a half times it. ``target_kl`` stops: a batch is left after
    an update whose minibatch had a larger divergence, with or without a penalty.
    """

    clip: PositiveSchedule | None = 0.2
    value_clip: PositiveFloat | None = None
    kl_coeff: NonNegativeFloat = 0.0
    kl_target: PositiveFloat | None = 0.01
    target_kl: PositiveFloat | None = None
    epsilon: PositiveFloat = 1e-5

    @model_validator(mode="after")
    def _bounded(self) -> PPOConfig:
        if self.clip is None and self.kl_coeff == 0.0:
            raise ValueError("without clip, kl_coeff must be above 0: nothing would bound an update")
        return self


class PPORules(ActorCriticRules):
    """Terms: ``policy_loss entropy value_loss kl``, and ``clip_fraction`` where there is a clip.

    ``kl`` estimates KL(policy that acted || policy now), before the update.
    """

    Config: ClassVar[type[GraphConfig]] = PPOConfig
    config: PPOConfig

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        self._kl_coeff = self.config.kl_coeff
        self._last_kl: float | None = None

    def update_rule(self) -> UpdateRule:
        return Adam(self._learning_rate, self.config.max_grad_norm, epsilon=self.config.epsilon)

    def loss_columns(self) -> tuple[str, ...]:
        columns = (ACTION_LOGP, ADVANTAGES, VALUE_TARGETS)
        return columns if self.config.value_clip is None else (*columns, VF_PREDS)

    def coefficients(self) -> dict[str, Coefficient]:
        coefficients = {
            "policy_loss": Coefficient(-1.0, -1.0),
            "entropy": Coefficient(self._entropy_coeff, -1.0),
            "value_loss": Coefficient(self.config.vf_loss_coeff),
            "kl": Coefficient(self._kl_coeff),
        }
        return coefficients if self.config.clip is None else {**coefficients, "clip_fraction": Coefficient()}

    def watched(self) -> frozenset[str]:
        return super().watched() | {"clip_fraction"} | ({"kl"} if self.config.kl_coeff == 0.0 else set())

    def scalars(self) -> dict[str, float]:
        return {} if self.config.clip is None else {CLIP: value_at(self.config.clip, self._env_steps)}

    def stop_above(self) -> tuple[str, float] | None:
        return None if self.config.target_kl is None else ("kl", self.config.target_kl)

    def on_progress(self, progress: Progress) -> None:
        """Also adapts the KL coefficient, once new samples have come, by the last divergence of the batch before."""
        if progress.env_steps > self._env_steps and self._last_kl is not None:
            self._kl_coeff = self._adapted(self._kl_coeff, self._last_kl)
        super().on_progress(progress)
        kl = progress.stats.get("kl", float("nan"))
        self._last_kl = kl if kl == kl else self._last_kl

    def _adapted(self, coeff: float, kl: float) -> float:
        """Schulman et al. 2017, section 4."""
        target = self.config.kl_target
        if target is None:
            return coeff
        return coeff * 2.0 if kl > 1.5 * target else coeff / 2.0 if kl < target / 1.5 else coeff

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "kl_coeff": self._kl_coeff, "last_kl": self._last_kl}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._kl_coeff, self._last_kl = float(state["kl_coeff"]), state["last_kl"]
