"""ModelOptimizer: the worker that the candidate learns in."""

from __future__ import annotations

from rlcore.batch import SampleBatch
from rlcore.learner_actor import LearnerActor, LearnerReport
from rlcore.minibatches import Learnt
from rlcore.policy_optimizer import MeanStats


class ModelOptimizer(LearnerActor):
    """Learns from minibatches that come from the replay buffer by reference."""

    def learn(self, env_steps: int, updates: int, batch: SampleBatch) -> LearnerReport:
        """From ``batch`` in so many minibatches, one behind the other, when so many environment steps have been
        sampled. ``NonFiniteError`` after too many skipped updates in a row."""
        self.begin(env_steps)
        (policy_id,) = self.learner.graphs
        stats, skipped = MeanStats(), self.learner.skipped_updates
        for output in self.learner.learn_minibatches(policy_id, batch, updates):
            stats.add(policy_id, output.stats, output.rows or 0)
        skipped = self.learner.skipped_updates - skipped
        return LearnerReport(Learnt(len(batch), updates - skipped, skipped, stats), *self.end())
