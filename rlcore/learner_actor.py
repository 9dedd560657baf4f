"""LearnerActor: the learner in a process of its own, with a queue of work before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlcore.graph_spec import GraphSpec
from rlcore.learner import Learner
from rlcore.learnt import Learnt
from rlcore.policy_graph import Progress, Weights
from rlcore.runtime.base import Runtime


class LearnerReport(NamedTuple):
    """What became of one call's work, and the learner's seconds: at it, and idle before it came."""

    learnt: Learnt
    learn_s: float
    wait_s: float


class LearnerActor:
    """What learners of their own share, whatever they learn from; the runtime's queue of their calls keeps them busy.

    Subclasses add methods that learn: between ``begin`` and ``end``, which take the time.
    """

    def __init__(self, specs: Mapping[str, GraphSpec], devices: Sequence[str], runtime: Runtime) -> None:
        self.learner = Learner(specs, devices)
        self._now = runtime.now
        self._env_steps = 0
        self._began = self._ended = self._now()

    def begin(self, env_steps: int) -> None:
        """Something is to be learnt from, when so many environment steps have been sampled."""
        self._began = self._now()
        # Calls that were sent to one that is lost may be sent again, out of order.
        if env_steps > self._env_steps:
            self.learner.advance(env_steps - self._env_steps)
            self._env_steps = env_steps

    def end(self) -> tuple[float, float]:
        """Seconds since ``begin``, and idle before it."""
        waited, self._ended = self._began - self._ended, self._now()
        return self._ended - self._began, waited

    def acting_weights(self) -> tuple[dict[str, Progress], dict[str, Weights]]:
        """How far every policy is, and what samplers need of it."""
        return self.learner.progress, self.learner.acting_weights()

    def get_weights(self) -> dict[str, Weights]:
        """Every weight of every policy."""
        return self.learner.get_weights()

    def graph_states(self) -> dict[str, dict[str, Any]]:
        """``{policy_id: state}`` of the graphs."""
        return self.learner.graph_states()

    def snapshot(self) -> tuple[None, dict[str, Any]]:
        """Nothing, and the state: a driver hands it on by reference, for one that takes this one's place."""
        return None, self.get_state()

    def resume(self, state: dict[str, Any]) -> dict[str, Progress]:
        """Goes on from ``get_state``'s tree; how far every policy is then."""
        self.set_state(state)
        return self.learner.progress

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly."""
        return {"learner": self.learner.get_state(), "env_steps": self._env_steps}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self.learner.set_state(state["learner"])
        self._env_steps = int(state["env_steps"])
