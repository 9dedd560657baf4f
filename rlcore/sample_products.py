"""What evaluators make of their samples where those are, for optimizers that do not want the samples themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcore.batch import MultiAgentBatch
    from rlcore.policy_evaluator import PolicyEvaluator


class SampleProduct(ABC):
    """What is made of a sample in the evaluator that collected it, such as gradients; it is sent there with each call.

    Two that are equal are made once, for all streams that ask for them.
    """

    @property
    @abstractmethod
    def results(self) -> int:
        """How many results it has beside its note."""

    @abstractmethod
    def make(self, evaluator: PolicyEvaluator, sample: MultiAgentBatch) -> tuple[Any, ...]:
        """A note, which comes to the driver and is to be small, and so many results, which come as references."""


class Replica(ABC):
    """What makes an evaluator's weights of what it was sent by reference; it is sent there too."""

    @abstractmethod
    def weights(self, evaluator: PolicyEvaluator, parts: tuple[Any, ...]) -> dict[str, dict[str, Any]]:
        """``{policy_id: {name: array}}`` from the values of the references."""
