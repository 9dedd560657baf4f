"""Graphs that learn as they should not."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from rlcore.batch import ADVANTAGES, SampleBatch
from rlcore.optim import Adam
from rlcore.policy_graph import PIECE, GradientOutput, LearnOutput, Pinned
from rlcore.testing.constant import TableValue
from rlcore.testing.linear import BIAS, WEIGHT, LinearPG

_numbers = itertools.count()


class Gradients(LinearPG):
    """What gradients() gives goes through ``changed``."""

    def gradients(self, batch: Any, units: Any = None) -> GradientOutput:
        out = super().gradients(batch, units)
        self.changed(out, batch)
        return out

    def changed(self, out: GradientOutput, batch: Any) -> None:
        pass


def replaced(out: GradientOutput, **changes: Any) -> None:
    for name, value in changes.items():
        object.__setattr__(out, name, value)


class NoBias(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        del out.gradients[BIAS]


class FlatGradients(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        out.gradients[WEIGHT] = out.gradients[WEIGHT].reshape(-1)

    def apply_gradients(self, gradients: Any) -> None:
        shape = self._weights[WEIGHT].shape
        super().apply_gradients({**gradients, WEIGHT: gradients[WEIGHT].reshape(shape)})


class NaNGradients(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        out.gradients[BIAS][0] = np.nan


class GradientsCount(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        self._env_steps += 1


class GradientsWrite(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        if isinstance(batch, SampleBatch):
            batch.rows[ADVANTAGES] = batch.rows[ADVANTAGES] * 1.0
            batch.rows[ADVANTAGES][0] = 5.0


class GradientsDrift(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        self.calls = getattr(self, "calls", 0) + 1
        out.gradients[BIAS][:] += self.calls


class CountsBatch(Gradients):
    def gradients(self, batch: Any, units: Any = None) -> GradientOutput:
        out = super().gradients(batch, units)
        replaced(out, count=batch.rows if isinstance(batch, Pinned) else len(batch))
        return out


class Sums(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        for gradient in out.gradients.values():
            gradient *= out.count


class LearnsTwice(LinearPG):
    def learn(self, batch: Any, units: Any = None) -> LearnOutput:
        super().learn(batch, units)
        return super().learn(batch, units)


class PinsHalf(LinearPG):
    def learn(self, batch: Any, units: Any = None) -> LearnOutput:
        if isinstance(batch, Pinned):
            batch = Pinned(batch.held._replace(advantages=batch.held.advantages * np.float32(0.5)), batch.rows)
        return super().learn(batch, units)

    def gradients(self, batch: Any, units: Any = None) -> GradientOutput:
        if isinstance(batch, Pinned):
            batch = Pinned(batch.held._replace(advantages=batch.held.advantages * np.float32(0.5)), batch.rows)
        return super().gradients(batch, units)


class PinsOneRow(LinearPG):
    def pin(self, batch: SampleBatch) -> Any:
        return Pinned(super().pin(batch).held, 1)


class LearnsAtRandom(LinearPG):
    def apply_gradients(self, gradients: Any) -> None:
        super().apply_gradients(gradients)
        self._load({BIAS: self._weights[BIAS] + np.float32(1e-3 * next(_numbers))})


class LearnsNothing(LinearPG):
    def apply_gradients(self, gradients: Any) -> None:
        pass


class WritesBatch(LinearPG):
    def pin(self, batch: SampleBatch) -> Any:
        batch.rows[ADVANTAGES] -= batch.rows[ADVANTAGES].mean()
        return super().pin(batch)


class OtherRule(LinearPG):
    def update_rule(self) -> Any:
        own = super().update_rule()
        used = self.__class__ is OtherRule and not getattr(self, "_applying", False)
        return Adam(own.learning_rate * 2, own.max_grad_norm, epsilon=own.epsilon) if used else own  # type: ignore[attr-defined]

    def apply_gradients(self, gradients: Any) -> None:
        self._applying = True
        super().apply_gradients(gradients)
        self._applying = False


class AppliesNaN(LinearPG):
    def learn(self, batch: Any, units: Any = None) -> LearnOutput:
        out = self.gradients(batch, units)
        self._load({name: self._weights[name] - 0.01 * gradient for name, gradient in out.gradients.items()})
        return LearnOutput(out.stats)


class SkipsHalf(LinearPG):
    """Counts an update that it skips."""

    def learn(self, batch: Any, units: Any = None) -> LearnOutput:
        out = super().learn(batch, units)
        self._env_steps += out.skipped
        return out


class StaysSkipping(LinearPG):
    stuck = False

    def learn(self, batch: Any, units: Any = None) -> LearnOutput:
        out = super().learn(batch, units)
        self.stuck = self.stuck or out.skipped
        return out._replace(skipped=self.stuck)


class NeedsTwo(LinearPG):
    """Divides by the deviation of the minibatch."""

    def gradients(self, batch: Any, units: Any = None) -> GradientOutput:
        out = super().gradients(batch, units)
        if out.count == 1:
            out.gradients[BIAS][:] = np.nan
        return out


class ArrayStats(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        replaced(out, stats={**out.stats, "loss": np.zeros(2)})


class ShortErrors(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        replaced(out, td_error=np.zeros(out.count + 1))


class PieceOfRows(TableValue):
    """Counts pieces where it averages over rows."""

    def gradients(self, batch: Any, units: Any = None) -> GradientOutput:
        out = super().gradients(batch, units)
        if self.minibatch_unit is PIECE:
            replaced(out, count=len(units) if units is not None else out.count)
        return out
