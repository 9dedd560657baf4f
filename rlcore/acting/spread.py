"""SpreadActing: a policy that has a part of its acting done by workers of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod

from rlcore.runtime.base import Runtime


class SpreadActing(ABC):
    """What an evaluator does for policies of this kind: it has a runtime to drive workers with, and they have not.

    A policy that is never told of one acts alone, and does the same.
    """

    @abstractmethod
    def spread(self, runtime: Runtime) -> None:
        """From now on ``runtime`` may be asked for workers; with settings that ask for none, nothing happens."""

    @abstractmethod
    def act_alone(self) -> None:
        """Ends them; may be called twice."""
