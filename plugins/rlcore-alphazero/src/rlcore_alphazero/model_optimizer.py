"""ModelOptimizer: the worker that the candidate learns in."""

from __future__ import annotations

from rlcore.batch import SampleBatch
from rlcore.learner_actor import LearnerActor, LearnerReport
from rlcore.learnt import Learnt


class ModelOptimizer(LearnerActor):
    """Learns from minibatches that come from the replay buffer by reference."""

    def learn(self, env_steps: int, updates: int, batch: SampleBatch) -> LearnerReport:
        """From ``batch`` in so many minibatches, one behind the other, when so many environment steps have been
        sampled. ``NonFiniteError`` after too many skipped updates in a row."""
        self.begin(env_steps)
        (policy_id,) = self.learner.graphs
        learnt = Learnt()
        for output in self.learner.learn_minibatches(policy_id, batch, updates):
            learnt.note(policy_id, output.stats, output.rows or 0, output.skipped)
        return LearnerReport(learnt, *self.end())
