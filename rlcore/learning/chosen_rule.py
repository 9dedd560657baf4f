"""Of two update rules the one that a config chooses."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, PositiveFloat, model_validator

from rlcore.optim import Adam, RMSProp, UpdateRule

#: Where ``rmsprop_decay`` is left out.
RMSPROP_DECAY = 0.99


class ChosenRuleConfig(BaseModel):
    """Fields of configs with a choice. ``rmsprop_decay`` is of RMSProp only, left out 0.99; ``epsilon`` of both."""

    update_rule: Literal["rmsprop", "adam"]
    rmsprop_decay: float | None = Field(None, gt=0.0, lt=1.0)
    epsilon: PositiveFloat = 1e-5

    @model_validator(mode="after")
    def _decay_has_effect(self) -> ChosenRuleConfig:
        if self.update_rule == "adam" and self.rmsprop_decay is not None:
            raise ValueError("rmsprop_decay has no effect with update_rule: adam; leave it out, or choose rmsprop")
        return self

    def rule_at(self, learning_rate: float, max_grad_norm: float | None) -> UpdateRule:
        """The rule with this learning rate and bound of the gradients' norm."""
        if self.update_rule == "adam":
            return Adam(learning_rate, max_grad_norm, epsilon=self.epsilon)
        decay = RMSPROP_DECAY if self.rmsprop_decay is None else self.rmsprop_decay
        return RMSProp(learning_rate, max_grad_norm, decay=decay, epsilon=self.epsilon)
