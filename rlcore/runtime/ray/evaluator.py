"""``PolicyEvaluator.remote``: an evaluator as a plain Ray actor, for programs that talk to Ray themselves."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import cloudpickle
import ray

from rlcore.runtime.ray import session
from rlcore.runtime.sending import adopt, packed, program

if TYPE_CHECKING:
    from rlcore.policy_evaluator import PolicyEvaluator


def remote_evaluator(evaluator: type[PolicyEvaluator], arguments: Mapping[str, Any]) -> Any:
    """The handle of an actor whose methods are those of ``evaluator``, made with ``arguments`` in its own process.

    It is placed where a CPU is free and holds none afterwards, as Ray's actors do unless told otherwise. A process
    that is not connected to Ray is connected until it ends.
    """
    # A wrong name is an error here and not in the worker.
    inspect.signature(evaluator).bind(**arguments)
    session.stay()
    actor_class = _actor_class(evaluator)
    return actor_class.remote(program(), packed(dict(arguments), f"a {evaluator.__name__}"))


@functools.cache
def _actor_class(evaluator: type[Any]) -> Any:
    def build(self: PolicyEvaluator, known: bytes, arguments: bytes) -> None:
        adopt(known)
        evaluator.__init__(self, **cloudpickle.loads(arguments))

    return ray.remote(type(evaluator.__name__, (evaluator,), {"__init__": build, "__module__": evaluator.__module__}))
