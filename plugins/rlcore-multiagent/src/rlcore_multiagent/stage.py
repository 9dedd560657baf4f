"""Stage: one copy of a game for several agents, whatever library it comes from. Not a BatchedEnv, which holds many."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from rlcore.columns import Array
from rlcore.env import Spaces
from rlcore.model import BatchedModel


class Ending(NamedTuple):
    """How an agent's episode ended: the observation it ended on, and whether for good (else a limit ended it)."""

    obs: Any
    terminated: bool


class Turn(NamedTuple):
    """What one move of a game led to; agents by their number.

    ``rewards`` may name any agent: what one earns that is neither asked nor ended is kept for it. ``asked`` are those
    that act next, with what they see; none of them has ``ended``. Once the game is ``over`` nobody is asked, and every
    agent that was ever asked has ended.
    """

    rewards: Mapping[int, float]
    ended: Mapping[int, Ending]
    asked: Mapping[int, Any]
    over: bool


class Stage(ABC):
    """One copy of a game. Agents are numbered in the order of ``agents``; observations are nested as their spaces are.

    The same seed and actions always lead to the same turns: saved games are played again from those.
    """

    #: The ids of all agents that may ever take part.
    agents: Sequence[str]
    #: By agent, its observation and action space.
    spaces: Sequence[Spaces]
    #: How many of its moves are a second of a video.
    frames_per_second: ClassVar[float] = 4.0

    @abstractmethod
    def open(self, seed: int) -> Turn:
        """Begins a game; nobody has earned anything yet."""

    @abstractmethod
    def step(self, actions: Mapping[int, Any]) -> Turn:
        """Goes on with an action of each agent that was asked."""

    def model(self) -> BatchedModel | None:
        """The rules for planners, picklable, where they are known: of the game's seats, in the order of ``agents``."""
        return None

    def render(self) -> Array | None:
        """An RGB frame ``[height, width, 3]`` uint8, or None where it draws nothing."""
        return None

    def close(self) -> None:
        """Releases what it holds; may be called twice."""


#: Makes one copy; picklable by cloudpickle.
Build = Callable[[], Stage]
