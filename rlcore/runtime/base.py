"""The small contract between driver programs and the engine that runs their workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict

Ref = Any


@dataclass(frozen=True)
class Resources:
    """What a worker needs: CPUs, GPUs (fractions are allowed) and custom resources by name."""

    cpus: float = 0.0
    gpus: float = 0.0
    custom: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Demand:
    """So many workers that need ``each``, and the dotted key of the setting that asks for them."""

    setting: str
    count: int
    each: Resources


class RuntimeConfig(BaseModel):
    """Base of every ``Runtime.Config``: the settings beside ``runtime.name``. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Handle(Protocol):
    """A worker. Calls on one handle run in the order submitted."""

    def submit(self, method: str, *args: Any, returns: int = 1) -> Any:
        """Calls ``method``; gives one reference, or a tuple of ``returns`` of them.

        References among ``args`` arrive as their values. Where one has none, the call raises what that one does; where
        it was lost, ``ValueLost``: the worker that is called here is in order.

        What crosses is a snapshot: arrays of numbers, of whatever layout and however deep within a value, arrive
        read-only; arrays of Python objects as copies of one's own.
        """
        ...


class Runtime(ABC):
    """Runs workers. Optimizers call this and nothing below it; nothing reads a clock but ``now()``.

    Made from an instance of its ``Config``, or without arguments.
    """

    Config: ClassVar[type[RuntimeConfig]] = RuntimeConfig
    #: Whether a worker can fail and leave the driver and the other workers unharmed, so that it may be replaced.
    isolates: ClassVar[bool] = True

    def __init__(self, config: RuntimeConfig | None = None) -> None:
        """Gets ready to spawn. ``UserError`` where that is not possible."""

    def require(self, demands: Sequence[Demand]) -> None:
        """Raises ``ConfigError``, with the setting to change, where ``demands`` are more than there ever will be."""

    @abstractmethod
    def spawn(self, build: Callable[[], Any], resources: Resources = Resources()) -> Handle:
        """Starts a worker around the object that ``build()`` (picklable) returns."""

    def local(self, worker: Any) -> Handle:
        """A handle on an object of this process itself, for whoever works in the driver."""
        return self.spawn(lambda: worker)

    def started(self, handle: Handle) -> Ref:
        """A reference that is ready once a worker has what it asked for, and no longer waits for room."""
        return self.put(None)

    def address(self, handle: Handle) -> Ref | None:
        """A reference to the network address of a worker's machine, by which other workers reach it.

        None for a worker that is no process of its own.
        """
        return None

    @abstractmethod
    def get(self, refs: Any) -> Any:
        """The value of a reference, or the list of values of a sequence of them.

        An exception in the worker is raised here as itself; a lost worker is ``WorkerLost``.
        """

    @abstractmethod
    def put(self, value: Any) -> Ref:
        """A reference to a snapshot of ``value``."""

    @abstractmethod
    def wait(self, refs: Sequence[Ref], n: int = 1, timeout: float | None = None) -> tuple[list[Ref], list[Ref]]:
        """``(ready, pending)`` once ``n`` are ready or ``timeout`` seconds have passed."""

    @abstractmethod
    def kill(self, handle: Handle) -> None:
        """Ends a worker; what was in flight on it is lost."""

    @abstractmethod
    def now(self) -> float:
        """Seconds, from an arbitrary origin."""

    @abstractmethod
    def capacity(self) -> Resources:
        """What there is in all."""

    @abstractmethod
    def child(self) -> Runtime:
        """A runtime, picklable, for a worker that drives workers of its own."""

    @abstractmethod
    def reduce(self, refs: Sequence[Ref], counts: Sequence[Mapping[str, float] | Ref]) -> Ref:
        """A reference to the average of trees ``{key: {name: array}}``, weighted by ``counts[i][key]``.

        Counts, too, may be references; it is not waited for any of them.
        A tree without a key, or with a count of 0 for it, takes no part in that key's average.
        """

    def holding_up(self, ref: Ref) -> list[Handle]:
        """The workers that a reference given by ``reduce`` waits for, and who wait for no other in turn.

        None where it waits for nobody, or nothing is known of that.
        """
        return []

    @abstractmethod
    def close(self) -> None:
        """Ends all workers of this runtime; may be called twice."""
