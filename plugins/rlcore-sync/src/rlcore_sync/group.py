"""Replicas of allreduce that average among themselves: gloo, NCCL, whatever the framework of their graphs offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlcore.collective import Collective, Seat
from rlcore.crew import LOST
from rlcore.errors import OptimizerError, RlcoreError, WorkerLost
from rlcore.evaluator_set import EvaluatorSet
from rlcore.graph_spec import GraphSpec
from rlcore.group_member import Broken
from rlcore.places import TRIES
from rlcore.runtime.base import Handle, Runtime
from rlcore.sample_reader import Round
from rlcore_sync.averages import Averages, Minibatch, Update

#: Where ranks meet that are all on one machine.
LOOPBACK = "127.0.0.1"


class Group(Averages):
    """The replicas are the ranks of a collective, one call for each update.

    The group is formed by those who have a sample, and formed anew where these change or one is lost. A rank that is
    gone, or hangs, is noticed by the others within half of the time that evaluators have to answer.
    """

    def __init__(self, evaluators: EvaluatorSet, runtime: Runtime, name: str, specs: dict[str, GraphSpec]) -> None:
        """``OptimizerError`` where a graph has no such collective, or evaluators are not processes of their own."""
        self._evaluators = evaluators
        self._runtime = runtime
        self._name = name
        self._policies = tuple(specs)
        self._collective, *_ = [_offered(name, spec) for spec in specs.values()]
        if runtime.address(evaluators.handles[0]) is None:
            raise OptimizerError(
                f"optimizer.collective: '{name}' needs evaluators that are processes of their own: "
                "set runtime to ray, and evaluators.count to 1 or more"
            )
        self._ranks: list[Handle] = []
        self._broken = 0

    def update(self, samples: Round, minibatch: Minibatch) -> Update | None:
        handles = [sample.handle for sample in samples]
        if not self._is_of(handles) and not self._form(handles):
            return None
        calls = [
            sample.handle.submit("gradients_together", self._policies, sample.info.number, units, returns=2)
            for sample, units in zip(samples, minibatch, strict=True)
        ]
        outputs = self._evaluators.settle([(handle, out) for handle, (out, _) in zip(handles, calls, strict=True)])
        if not self._is_whole(outputs):
            return None
        try:
            mean = self._evaluators.result(calls[0][1])
        except WorkerLost:
            # Whose it was is seen when the group forms anew.
            self._ranks = []
            return None
        self._broken = 0
        return Update(outputs, mean)

    def _is_of(self, handles: Sequence[Handle]) -> bool:
        return len(handles) == len(self._ranks) and all(map(_is, handles, self._ranks))

    def _form(self, handles: Sequence[Handle]) -> bool:
        """Whether they are a group now; some may have been lost over it."""
        self._ranks = []
        hosts = self._evaluators.settle([(handle, self._runtime.address(handle)) for handle in handles])
        if LOST in hosts:
            return False
        hosts = hosts if len(set(hosts)) > 1 else [LOOPBACK] * len(hosts)
        first, seated = handles[0], (len(handles), self._evaluators.timeout_s / 2)
        opening = first.submit("open_group", self._policies, self._collective, hosts[0])
        (address,) = self._evaluators.settle([(first, opening)])
        if address is LOST:
            return False
        seats = [Seat(address, host, rank, *seated) for rank, host in enumerate(hosts)]
        joining = [
            (handle, handle.submit("join_group", self._policies, self._collective, seat))
            for handle, seat in zip(handles, seats, strict=True)
        ]
        if not self._is_whole(self._evaluators.settle(joining)):
            return False
        self._ranks = list(handles)
        return True

    def _is_whole(self, outcomes: Sequence[Any]) -> bool:
        """Whether nobody was lost. ``RlcoreError`` where it breaks again and again and nobody ever is."""
        broken = [outcome.cause for outcome in outcomes if isinstance(outcome, Broken)]
        lost = any(outcome is LOST for outcome in outcomes)
        if not broken and not lost:
            return True
        self._ranks = []
        self._broken = 0 if lost else self._broken + 1
        if self._broken >= TRIES:
            raise RlcoreError(
                f"the group of evaluators broke {TRIES} times in a row, and none of them was lost: {broken[0]} "
                f"(optimizer.collective: {self._name})"
            )
        return False


def _is(one: object, other: object) -> bool:
    return one is other


def _offered(name: str, spec: GraphSpec) -> type[Collective]:
    offered = spec.graph.collectives
    if name not in offered:
        raise OptimizerError(
            f"optimizer.collective: policy graph {spec.graph.__name__} offers no '{name}'; "
            f"it offers: {', '.join(sorted(offered)) or 'none'}"
        )
    return offered[name]
