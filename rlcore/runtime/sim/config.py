"""What a simulated cluster is told: its seed, what things cost, and what goes wrong. Times are virtual seconds."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from rlcore.runtime.base import RuntimeConfig

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1)]
Factor = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cost(_Part):
    """How long something takes: log-normal around its median. A number alone is a median that never varies."""

    seconds: Seconds
    #: Standard deviation of the logarithm: with 0.25, two thirds lie between 0.78 and 1.28 of the median.
    spread: Annotated[float, Field(ge=0, le=5)] = 0.0


def _as_cost(value: Any) -> Any:
    return {"seconds": value} if isinstance(value, int | float) and not isinstance(value, bool) else value


AnyCost = Annotated[Cost, BeforeValidator(_as_cost)]


class FaultKind(StrEnum):
    """What becomes of a call."""

    #: Its worker dies while it runs.
    CRASH = "crash"
    #: The same, and what the worker has given that nobody else has yet is gone too, as with its machine.
    MACHINE = "machine"
    #: Its worker never finishes it, nor anything after it.
    HANG = "hang"
    #: It raises :class:`rlcore.runtime.sim.chance.SimulatedError` in place of running; the worker goes on.
    ERROR = "error"
    #: The message to the worker is lost: neither this call nor a later one of the same sender ever arrives.
    REQUEST = "request"
    #: The call runs, and its answer is lost.
    ANSWER = "answer"


class PlannedFault(_Part):
    """The ``call``-th call (from 0) of ``method`` on the ``worker``-th that was spawned (from 0) goes wrong.

    The method ``start`` is the start of the worker; ``average`` an average of ``reduce``.
    """

    worker: Annotated[int, Field(ge=0)]
    method: str
    call: Annotated[int, Field(ge=0)] = 0
    fault: FaultKind


class Rates(_Part):
    """With what probability a call goes wrong, by kind of fault, and after how many faults nothing does any more."""

    crash: Probability = 0.0
    machine: Probability = 0.0
    hang: Probability = 0.0
    error: Probability = 0.0
    request: Probability = 0.0
    answer: Probability = 0.0
    limit: Annotated[int, Field(ge=0)] | None = None


class SlowWorker(_Part):
    """The ``worker``-th that was spawned (from 0) takes ``factor`` times as long for everything."""

    worker: Annotated[int, Field(ge=0)]
    factor: Factor


class Stragglers(_Part):
    """Calls that take ``factor`` times as long, with that probability."""

    probability: Probability = 0.0
    factor: Factor = 10.0


class Away(_Part):
    """When a machine is taken away, and when it comes back; left out, never."""

    since: Seconds
    until: Seconds | None = None


class Machine(_Part):
    """A machine that comes and goes, with so many of the cluster's CPUs. What is on it when it goes is lost."""

    cpus: Annotated[int, Field(ge=1)]
    away: tuple[Away, ...]


class SimConfig(RuntimeConfig):
    """Settings of the runtime ``sim``. The same settings and the same program give the same run, event by event."""

    #: Decides durations, the order of what happens at the same time, and what goes wrong.
    seed: Annotated[int, Field(ge=0)] = 0
    #: CPUs of the cluster. Every worker has those that it asked for to itself, and waits until there are as many free.
    cpus: Annotated[int, Field(ge=1)] = 65536
    #: Those among them that are not always there. They are given away last.
    machines: tuple[Machine, ...] = ()
    #: How long calls take, by name of the method, and those that are not named. ``start`` is a worker's start.
    costs: dict[str, AnyCost] = Field(default_factory=dict)
    call: AnyCost = Cost(seconds=0.001, spread=0.5)
    slow_workers: tuple[SlowWorker, ...] = ()
    stragglers: Stragglers = Stragglers()
    #: How long a message is on its way, beside its bytes.
    latency: AnyCost = Cost(seconds=0.0005, spread=0.25)
    #: How long each message, however small, keeps who sends it and who receives it from the next one.
    message_s: Seconds = 0.0
    #: What each process can send, and what each can receive; left out, bytes take no time.
    bytes_per_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = 1e9
    #: Results up to this size come with the answer; larger ones stay where they are until somebody needs them.
    inline_bytes: Annotated[int, Field(ge=0)] = 100_000
    plan: tuple[PlannedFault, ...] = ()
    rates: Rates = Rates()
    #: The simulation ends with an error when it comes so far.
    max_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    max_events: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _of_the_cluster(self) -> SimConfig:
        if sum(machine.cpus for machine in self.machines) > self.cpus:
            raise ValueError("'machines' have more CPUs than 'cpus', of which theirs are a part")
        return self
