"""ApexLearner: the learner in a process of its own, with a queue of minibatches before it."""

from __future__ import annotations

from rlcore.batch import MultiAgentBatch, SampleBatch
from rlcore.errors import OptimizerError
from rlcore.learner_actor import LearnerActor, LearnerReport
from rlcore.learnt import Learnt
from rlcore_apex.replay_actor import Drawn, NewPriorities, new_priorities


class ApexLearner(LearnerActor):
    """Learns from minibatches of replay actors, and says what their new priorities are."""

    def learn(self, drawn: Drawn, minibatch: SampleBatch, env_steps: int) -> tuple[LearnerReport, NewPriorities]:
        """One update; ``env_steps`` is how many have been sampled by now.

        Raises ``NonFiniteError`` after too many skipped in a row, ``OptimizerError`` for a graph without TD errors.
        """
        policy_id = drawn.policy_id
        self.begin(env_steps)
        pinned = self.learner.pin(MultiAgentBatch({policy_id: minibatch}, 0))
        output = self.learner.learn(pinned)[policy_id]
        if output.td_error is None and not output.skipped:
            raise OptimizerError(f"policy '{policy_id}' gives no TD error, which the priorities of replay go by")
        learnt = Learnt()
        learnt.note(policy_id, output.stats, output.rows or 0, output.skipped)
        priorities = new_priorities(drawn, minibatch, None if output.skipped else output.td_error)
        return LearnerReport(learnt, *self.end()), priorities
