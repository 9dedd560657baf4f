"""ApexLearner: the learner in a process of its own, with a queue of minibatches before it."""

from __future__ import annotations

from typing import NamedTuple

from rlcore.batch import MultiAgentBatch, SampleBatch
from rlcore.errors import OptimizerError
from rlcore.learner_actor import LearnerActor
from rlcore_apex.replay_actor import Drawn, NewPriorities, new_priorities


class Learnt(NamedTuple):
    """What became of one minibatch, and the learner's seconds: at it, and idle before it came."""

    policy_id: str
    rows: int
    stats: dict[str, float]
    skipped: bool
    learn_s: float
    wait_s: float


class ApexLearner(LearnerActor):
    """Learns from minibatches of replay actors, and says what their new priorities are."""

    def learn(self, drawn: Drawn, minibatch: SampleBatch, env_steps: int) -> tuple[Learnt, NewPriorities]:
        """One update; ``env_steps`` is how many have been sampled by now.

        Raises ``NonFiniteError`` after too many skipped in a row, ``OptimizerError`` for a graph without TD errors.
        """
        policy_id = drawn.policy_id
        self.begin(env_steps)
        pinned = self.learner.pin(MultiAgentBatch({policy_id: minibatch}, 0))
        output = self.learner.learn(pinned)[policy_id]
        if output.td_error is None and not output.skipped:
            raise OptimizerError(f"policy '{policy_id}' gives no TD error, which the priorities of replay go by")
        learnt = Learnt(policy_id, output.rows or 0, output.stats, output.skipped, *self.end())
        return learnt, new_priorities(drawn, minibatch, None if output.skipped else output.td_error)
