"""What the seed decides: how long things take and what goes wrong. Each worker has random numbers of its own."""

from __future__ import annotations

import random
from typing import NamedTuple

from rlcore.errors import RlcoreError
from rlcore.runtime.sim.config import Cost, FaultKind, SimConfig

#: The faults that have a rate, in the order in which one random number chooses among them.
_RATED = tuple(FaultKind)


class SimulatedError(RlcoreError):
    """Raised by a call whose fault is ``error``."""


class Fate(NamedTuple):
    """What was decided for one call: seconds of its message, its run and its answer, and what goes wrong.

    ``moment`` is when, in parts of its run, a worker dies.
    """

    request_s: float
    run_s: float
    answer_s: float
    fault: FaultKind | None
    moment: float


class Faults:
    """How many things may still go wrong in the whole cluster."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        #: Injected so far, planned ones included.
        self.count = 0

    def spent(self) -> bool:
        """Whether nothing goes wrong any more unless it is planned."""
        return self._limit is not None and self.count >= self._limit


class Chance:
    """The random numbers of one worker. What one draws changes nothing for the others."""

    def __init__(self, config: SimConfig, stream: int, faults: Faults, number: int | None = None) -> None:
        """``number`` is that of the worker; None stands for what never fails: the driver itself."""
        self._config = config
        self._faults = faults
        self._random = random.Random(config.seed << 40 | stream)
        self._factor = 1.0
        for slow in config.slow_workers:
            self._factor *= slow.factor if slow.worker == number else 1.0
        self._plan = {(one.method, one.call): one.fault for one in config.plan if one.worker == number}
        self._fails = number is not None
        self._calls: dict[str, int] = {}

    def tie(self) -> float:
        """A number that orders what happens at the same time."""
        return self._random.random()

    def latency(self) -> float:
        """Seconds of one message."""
        return self._drawn(self._config.latency)

    def fate(self, method: str) -> Fate:
        """What becomes of the next call of ``method``. Always draws as many random numbers, whatever becomes of it."""
        request_s, answer_s = self.latency(), self.latency()
        run_s = self._drawn(self._config.costs.get(method, self._config.call)) * self._factor
        straggles, chosen, moment = (self._random.random() for _ in range(3))
        if straggles < self._config.stragglers.probability:
            run_s *= self._config.stragglers.factor
        number = self._calls.get(method, 0)
        self._calls[method] = number + 1
        fault = self._plan.get((method, number)) or self._by_rate(chosen)
        if fault is not None:
            self._faults.count += 1
        return Fate(request_s, run_s, answer_s, fault, moment)

    def _by_rate(self, chosen: float) -> FaultKind | None:
        if not self._fails or self._faults.spent():
            return None
        for kind in _RATED:
            chosen -= getattr(self._config.rates, kind.value)
            if chosen < 0:
                return kind
        return None

    def _drawn(self, cost: Cost) -> float:
        varied = self._random.lognormvariate(0.0, cost.spread)
        return cost.seconds * varied if cost.spread else cost.seconds
