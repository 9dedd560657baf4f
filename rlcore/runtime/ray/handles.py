"""The driver's side of workers: handles, references, and how values and failures come out of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.exceptions import ObjectLostError, RayError

from rlcore.errors import MachineLost, RlcoreError, ValueLost, WorkerLost
from rlcore.runtime.inline import InlineHandle, InlineRef, argument
from rlcore.runtime.ray.crossing import crossing
from rlcore.runtime.ray.failures import LOSSES, reason, root, with_its_machine
from rlcore.runtime.sending import explain


@dataclass(frozen=True, eq=False)
class RayRef:
    """The outcome of a call on ``handle``, or (None) of a put, wherever it is; ``parts``: what it is the average of."""

    object_ref: Any
    handle: RayHandle | None = None
    parts: tuple[AnyRef, ...] = ()


#: ``InlineRef`` is what is settled in this process already: a local worker's results, and calls that could not be sent.
AnyRef = RayRef | InlineRef
Counted = tuple[AnyRef, AnyRef | Mapping[str, float]]


class RayHandle:
    """A worker that is a Ray actor; can itself be sent to workers."""

    def __init__(self, actor: Any, name: str) -> None:
        self.actor = actor
        self.name = name
        self._killed = False

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RayHandle) and self.actor_id == other.actor_id

    def __hash__(self) -> int:
        return hash(self.actor_id)

    @property
    def actor_id(self) -> str:
        """As Ray's errors name it."""
        return str(self.actor._actor_id.hex())

    def kill(self) -> None:
        """Ends the actor at once; it can still have begun what was submitted before."""
        self._killed = True
        if ray.is_initialized():
            ray.kill(self.actor)

    def submit(self, method: str, *args: Any, returns: int = 1) -> Any:
        """Sends the call; see :class:`rlcore.runtime.base.Handle`."""
        return self._send("call", (method, returns, *args), returns)

    def address(self) -> AnyRef:
        """A reference to the address of the actor's node."""
        ref: AnyRef = self._send("address", (), returns=1)
        return ref

    def average(self, parts: Sequence[Counted]) -> tuple[AnyRef, AnyRef]:
        """References to the average of trees with their counts, and to its counts."""
        trees, counts = [tree for tree, _ in parts], [count for _, count in parts]
        mean, total = self._send("average", (len(parts), *trees, *counts), returns=2)
        return (replace(mean, parts=tuple(trees)) if isinstance(mean, RayRef) else mean), total

    def _send(self, kind: str, args: Sequence[Any], returns: int) -> Any:
        try:
            # Ray kills in its own time, and calls may overtake that.
            if self._killed:
                raise WorkerLost(self, "it was killed")
            # Ray would start a new cluster for the call.
            if not ray.is_initialized():
                raise WorkerLost(self, "Ray has been shut down")
            method = getattr(self.actor, kind)
            if returns != 1:
                method = method.options(num_returns=returns)
            sent = _sent(method.remote, args)
        except Exception as error:  # raised as itself by whoever gets the reference
            failed = InlineRef(error=error)
            return failed if returns == 1 else (failed,) * returns
        return RayRef(sent, self) if returns == 1 else tuple(RayRef(part, self) for part in sent)


class LocalHandle(InlineHandle):
    """A worker that is an object of the driver's process, beside others that are not."""

    def submit(self, method: str, *args: Any, returns: int = 1) -> Any:
        """Runs the call now, on the values of references."""
        try:
            args = tuple(InlineRef(fetch([arg])[0]) if isinstance(arg, RayRef) else arg for arg in args)
        except WorkerLost as loss:
            failed = InlineRef(error=ValueLost.of(loss))
            return failed if returns == 1 else (failed,) * returns
        except Exception as error:  # raised as itself by whoever gets the reference
            failed = InlineRef(error=error)
            return failed if returns == 1 else (failed,) * returns
        return super().submit(method, *args, returns=returns)


def _argument(arg: Any) -> Any:
    """What is given to Ray for ``arg``: Ray has references arrive as their values."""
    if isinstance(arg, RayRef):
        return arg.object_ref
    return crossing(argument(arg) if isinstance(arg, InlineRef) else arg)


def _sent(send: Callable[..., Any], args: Sequence[Any]) -> Any:
    given = [_argument(arg) for arg in args]
    try:
        return send(*given)
    except TypeError as error:
        # Ray's own message for what cannot be pickled is a page.
        raise TypeError(f"cannot send an argument to a worker: {explain(list(args), error)}") from error


def put(value: Any) -> RayRef:
    """A reference to a snapshot of ``value``."""
    _check_connected()
    return RayRef(_sent(ray.put, [value]))


def settled(ref: InlineRef) -> Any:
    """The value of a settled reference; raises where it has none."""
    if ref.error is not None:
        raise ref.error
    return ref.value


def fetch(refs: Sequence[AnyRef]) -> list[Any]:
    """The values of ``refs``; raises the first failure as itself."""
    values = [settled(ref) if isinstance(ref, InlineRef) else None for ref in refs]
    remote = [(i, ref) for i, ref in enumerate(refs) if isinstance(ref, RayRef)]
    if not remote:
        return values
    _check_connected()
    try:
        found = ray.get([ref.object_ref for _, ref in remote])
    except RayError as error:
        failure = _failure(error, [ref for _, ref in remote])
    else:
        for (i, _), value in zip(remote, found, strict=True):
            values[i] = value
        return values
    # Outside of the clause, or it would have Ray's wrapper as its context.
    raise failure


def _failure(error: RayError, refs: Sequence[RayRef]) -> BaseException:
    found = root(error)
    if not isinstance(found, RayError):
        return found
    if not isinstance(found, LOSSES):
        return RlcoreError(f"Ray failed: {reason(found)}")
    handles = [ref.handle for ref in refs if ref.handle is not None]
    actor_id = getattr(found, "actor_id", None)
    lost = next((handle for handle in handles if handle.actor_id == actor_id), handles[0] if handles else None)
    kind = MachineLost if with_its_machine(found) else WorkerLost
    if isinstance(found, ObjectLostError) or (isinstance(lost, RayHandle) and actor_id not in (None, lost.actor_id)):
        # The actor that is gone was to give an argument of the call.
        kind = ValueLost
    return kind(lost if lost is not None else "of Ray", reason(found))


def _check_connected() -> None:
    # Ray would start a new cluster.
    if not ray.is_initialized():
        raise RlcoreError("Ray has been shut down")
