"""LearnerActor: the learner in a process of its own, with a queue of minibatches before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlcore.batch import MultiAgentBatch, SampleBatch
from rlcore.errors import OptimizerError
from rlcore.graph_spec import GraphSpec
from rlcore.learner import Learner
from rlcore.policy_graph import Progress, Weights
from rlcore.runtime.base import Runtime
from rlcore_apex.replay_actor import Drawn, NewPriorities, new_priorities


class Learnt(NamedTuple):
    """What became of one minibatch, and the learner's seconds: at it, and idle before it came."""

    policy_id: str
    rows: int
    stats: dict[str, float]
    skipped: bool
    learn_s: float
    wait_s: float


class LearnerActor:
    """Learns from whatever it is called with; the runtime's queue of its calls is what keeps it busy."""

    def __init__(self, specs: Mapping[str, GraphSpec], devices: Sequence[str], runtime: Runtime) -> None:
        self._learner = Learner(specs, devices)
        self._now = runtime.now
        self._env_steps = 0
        self._done = self._now()

    def learn(self, drawn: Drawn, minibatch: SampleBatch, env_steps: int) -> tuple[Learnt, NewPriorities]:
        """One update; ``env_steps`` is how many have been sampled by now.

        Raises ``NonFiniteError`` after too many skipped in a row, ``OptimizerError`` for a graph without TD errors.
        """
        began, policy_id = self._now(), drawn.policy_id
        self._advance(env_steps)
        pinned = self._learner.pin(MultiAgentBatch({policy_id: minibatch}, 0))
        output = self._learner.learn(pinned)[policy_id]
        if output.td_error is None and not output.skipped:
            raise OptimizerError(f"policy '{policy_id}' gives no TD error, which the priorities of replay go by")
        waited, self._done = began - self._done, self._now()
        learnt = Learnt(policy_id, output.rows or 0, output.stats, output.skipped, self._done - began, waited)
        return learnt, new_priorities(drawn, minibatch, None if output.skipped else output.td_error)

    def _advance(self, env_steps: int) -> None:
        # Calls that were sent to one that is lost may be sent again, out of order.
        if env_steps > self._env_steps:
            self._learner.advance(env_steps - self._env_steps)
            self._env_steps = env_steps

    def acting_weights(self) -> tuple[dict[str, Progress], dict[str, Weights]]:
        """How far every policy is, and what samplers need of it."""
        return self._learner.progress, self._learner.acting_weights()

    def get_weights(self) -> dict[str, Weights]:
        """Every weight of every policy."""
        return self._learner.get_weights()

    def graph_states(self) -> dict[str, dict[str, Any]]:
        """``{policy_id: state}`` of the graphs."""
        return self._learner.graph_states()

    def snapshot(self) -> tuple[None, dict[str, Any]]:
        """Nothing, and the state: a driver keeps it by reference, for one that takes this one's place."""
        return None, self.get_state()

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly."""
        return {"learner": self._learner.get_state(), "env_steps": self._env_steps}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self._learner.set_state(state["learner"])
        self._env_steps = int(state["env_steps"])
