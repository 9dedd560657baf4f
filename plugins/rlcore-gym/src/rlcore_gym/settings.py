"""The environment settings that are kept for this package; all others are the environment's own keywords."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from rlcore.validation import validate
from rlcore_gym.atari import AtariSettings
from rlcore_gym.wrapping import WrapperSettings, Wrapping, wrapper_settings

SYNC, THREAD, PROCESS, NATIVE = "sync", "thread", "process", "native"

#: Seconds that one call of one environment may take in a worker where nothing else is said.
STEP_TIMEOUT = 300.0

Positive = Annotated[int, Field(ge=1)]


class GymSettings(BaseModel):
    """How copies of an environment are wrapped and run.

    ``vectorization``: ``sync`` steps copies one after the other, ``thread`` and ``process`` in ``workers`` threads or
    processes side by side, ``native`` takes the vector implementation that is registered with the id.

    ``step_timeout``: seconds after which a worker whose environment has not come back from one call counts as lost.
    ``on_failure``: whether an environment that raised, or a worker that was lost, ends the run or begins anew.

    ``atari``, ``wrappers`` and ``frame_stack`` are applied in this order, the first innermost; ``time_limit`` counts
    the steps of what comes out.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True)

    vectorization: Literal["sync", "thread", "process", "native"] = "sync"
    workers: Positive | None = None
    step_timeout: Annotated[float, Field(gt=0)] = STEP_TIMEOUT
    on_failure: Literal["raise", "restart"] = "raise"
    atari: AtariSettings | None = None
    wrappers: tuple[WrapperSettings, ...] = ()
    frame_stack: Positive | dict[str, Positive] | None = None
    time_limit: Positive | None = None

    @field_validator("atari", mode="before")
    @classmethod
    def _atari(cls, value: Any) -> Any:
        if isinstance(value, bool):
            return {} if value else None
        return value

    @field_validator("wrappers", mode="before")
    @classmethod
    def _wrappers(cls, value: Any) -> tuple[WrapperSettings, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError("should be a list of wrappers, from the innermost to the outermost")
        return tuple(wrapper_settings(entry) for entry in value)

    @field_validator("step_timeout", mode="before")
    @classmethod
    def _seconds(cls, value: Any) -> Any:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    def worker_count(self, num_envs: int) -> int:
        """How many workers share ``num_envs`` copies: as many as were asked for, else one for each usable core."""
        return min(num_envs, self.workers or len(usable_cores()))

    @property
    def wrapping(self) -> Wrapping:
        """All that goes around each copy."""
        return Wrapping(self.atari, self.wrappers, self.frame_stack)

    @property
    def restarts(self) -> bool:
        """Whether what failed begins anew."""
        return self.on_failure == "restart"


#: The names of these settings.
RESERVED = frozenset(GymSettings.model_fields)


def split_settings(settings: Mapping[str, Any]) -> tuple[GymSettings, dict[str, Any]]:
    """The settings of this package, and the rest. ``ConfigError`` for wrong ones, a line for each."""
    own = {key: value for key, value in settings.items() if key in RESERVED}
    rest = {key: value for key, value in settings.items() if key not in RESERVED}
    return validate(GymSettings, own, "env_settings"), rest


def usable_cores() -> list[int]:
    """The processor cores that this process may use."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return sorted(affinity(0)) if affinity is not None else list(range(os.cpu_count() or 1))
