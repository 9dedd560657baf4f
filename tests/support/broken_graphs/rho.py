"""Graphs that postprocess as they should not."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlcore.batch import ADVANTAGES, REWARDS, SampleBatch
from rlcore.returns import backward_scan
from rlcore.testing.linear import LinearPG


class Postprocesses(LinearPG):
    def postprocess(self, batch: SampleBatch, other_agents: Any = None) -> SampleBatch:
        return self.amended(super().postprocess(batch), batch)

    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        return done


class ClipsRewards(Postprocesses):
    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        np.clip(batch.rows[REWARDS], -0.1, 0.1, out=batch.rows[REWARDS])
        return done


class LearnsInRho(Postprocesses):
    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        self._env_steps += 1
        return done


class CountsBatches(Postprocesses):
    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        self.batches = getattr(self, "batches", 0) + 1
        return done.with_rows(**{ADVANTAGES: done[ADVANTAGES] + np.float32(self.batches)})


class GivesColumns(Postprocesses):
    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        return dict(done.rows)


class DropsShortPieces(Postprocesses):
    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        return done.take_pieces(np.flatnonzero(done.cuts["length"] > 3))


class DropsColumns(Postprocesses):
    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        return SampleBatch({name: c for name, c in done.rows.items() if name != "t"}, done.cuts)


class MixesPieces(Postprocesses):
    """Sums rewards over the ends of episodes."""

    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        returns = backward_scan(batch[REWARDS], np.full(len(batch), 0.9)).astype(np.float32)
        return done.with_rows(**{ADVANTAGES: returns})


class NormalisesBatch(Postprocesses):
    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        return done.with_rows(**{ADVANTAGES: done[ADVANTAGES] - done[ADVANTAGES].mean()})
