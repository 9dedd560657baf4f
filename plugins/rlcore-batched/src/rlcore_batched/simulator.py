"""Simulator: the rules of a world as functions of arrays, for any number of copies at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from rlcore.columns import Array, Columns
from rlcore_batched.noise import Bits

#: The state of ``n`` copies: ``{variable: array [n, ...]}``.
State = dict[str, Array]

Positive = Annotated[int, Field(ge=1)]


class SimulatorSettings(BaseModel):
    """What all simulators take. ``time_limit``: steps after which an episode is truncated; the simulator's own where
    it is left out."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    time_limit: Positive | None = None


class Outcome(NamedTuple):
    """What a step led to: the new state, ``rewards [n]`` or ``[n, players]``, and who terminated, bool ``[n]``."""

    state: State
    rewards: NDArray[Any]
    terminated: NDArray[np.bool_]


Own = TypeVar("Own", bound=SimulatorSettings)


class Simulator(ABC, Generic[Own]):
    """Functions of arrays, without a state of their own; no argument is changed in place.

    What is random follows from the seeds that episodes start from, uint64 ``[n]`` (:mod:`rlcore_batched.noise`). A
    simulator that draws during its episodes keeps them in its state, as the variable ``dice``.
    """

    #: The pydantic model of its settings.
    Settings: ClassVar[type[SimulatorSettings]] = SimulatorSettings
    #: Steps after which an episode is truncated; None for never.
    time_limit: int | None = None
    #: How many steps are a second of a video.
    frames_per_second: float = 30.0
    #: The spaces of one copy (of one player).
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]

    def __init__(self, settings: Own) -> None:
        self.settings = settings
        if settings.time_limit is not None:
            self.time_limit = settings.time_limit

    @abstractmethod
    def start(self, seeds: Bits) -> State:
        """The states in which episodes with these seeds begin."""

    @abstractmethod
    def step(self, state: State, actions: NDArray[Any]) -> Outcome:
        """One step of all copies, with ``actions [n, ...]`` of the action space."""

    @abstractmethod
    def observe(self, state: State) -> Columns:
        """What is seen of the states, new arrays ``[n, ...]``."""

    @abstractmethod
    def terminal(self, state: State) -> NDArray[np.bool_]:
        """Whether episodes terminate in these states, bool ``[n]``."""

    def from_obs(self, obs: Columns) -> State | None:
        """The states that observations show; None where they do not show all of it."""
        return None

    @abstractmethod
    def draw(self, state: State) -> NDArray[np.uint8]:
        """A picture ``[height, width, 3]`` of the first copy."""


def take(state: State, index: Any) -> State:
    """The copies at ``index``."""
    return {name: array[index] for name, array in state.items()}


def put(state: State, index: Any, values: State) -> None:
    """Overwrites the copies at ``index``."""
    for name, array in state.items():
        array[index] = values[name]


def length(state: State) -> int:
    """The number of copies."""
    return len(next(iter(state.values())))
