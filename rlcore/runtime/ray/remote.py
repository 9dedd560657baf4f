"""``PolicyEvaluator.remote`` and ``Trainer.remote``: the object as a plain Ray actor, for programs that talk to Ray
themselves."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import cloudpickle
import ray

from rlcore.runtime.ray import session
from rlcore.runtime.sending import adopt, packed, program


def remote_object(kind: Any, positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The handle of an actor whose methods are those of ``kind``, made with these arguments in its own process.

    It is placed where a CPU is free and holds none afterwards, as Ray's actors do unless told otherwise. A process
    that is not connected to Ray is connected until it ends.
    """
    # A wrong name is an error here and not in the worker.
    inspect.signature(kind).bind(*positional, **named)
    session.stay()
    given = packed((tuple(positional), dict(named)), f"a {kind.__name__}")
    return _actor_class(kind).remote(program(), given)


@functools.cache
def _actor_class(kind: Any) -> Any:
    def build(self: Any, known: bytes, arguments: bytes) -> None:
        adopt(known)
        positional, named = cloudpickle.loads(arguments)
        kind.__init__(self, *positional, **named)

    return ray.remote(type(kind.__name__, (kind,), {"__init__": build, "__module__": kind.__module__}))
