"""EvaluatorTask: what an optimizer has evaluators do that is not sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rlcore.policy_evaluator import PolicyEvaluator


class EvaluatorTask(Protocol):
    """Is sent to an evaluator with each call of ``PolicyEvaluator.perform``, so it is small and can be pickled.

    What it gives crosses as results of workers do. It leaves the environment where samples go on from, or resets it:
    an evaluator that also samples begins new episodes by itself then.
    """

    def perform(self, evaluator: PolicyEvaluator, *args: Any) -> Any:
        """Does it in the evaluator's process. References among the arguments of the call arrive as their values."""
        ...
