"""BatchedEnv: the one environment contract. Many environments, handed over as arrays when they are ready."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns

if TYPE_CHECKING:
    from rlcore.model import BatchedModel

#: The group's name in an environment whose agents all have the same spaces.
DEFAULT_GROUP = "default"

#: ``(observation_space, action_space)``
Spaces = tuple[gymnasium.Space[Any], gymnasium.Space[Any]]


@dataclass(slots=True)
class StepBatch:
    """Agents of one group that are ready, one row each: how the last transition ended, and what comes next.

    ============ ======= ======== ===============================================================
    column       dtype   shape    meaning
    ============ ======= ======== ===============================================================
    slot         int     [n]      index of the environment copy
    agent_id     int/str [n]      the agent within it; zeros for a single agent
    reward       float32 [n]      since the agent's last row (0 where nothing came before)
    terminated   bool    [n]      the last transition ended the agent's episode for good
    truncated    bool    [n]      a limit ended it
    final_obs    space's [k, ...] true last observations of the k rows that ended, in row order
    obs          space's [n, ...] the next observation
    first        bool    [n]      ``obs`` opens a new episode
    needs_action bool    [n]      an action is expected for this row
    env_step     int64   [n]      step of the environment in its episode at ``obs``
    episode_over bool    [n]      with this transition the whole episode of the slot is over
    ============ ======= ======== ===============================================================

    The one rule for endings: a transition that ends carries its reward, its flag and the true final observation; the
    next observation of that slot is ``first``, in the same row (same-step reset) or in a later one (then this row has
    ``needs_action`` false, and its ``obs`` means nothing).

    A row that is ``first`` although its action was under way and nothing ended says that the environment was lost and
    began anew: the transition of that action did not happen, and the episode before breaks off where it was chosen.
    """

    slot: NDArray[Any]
    agent_id: NDArray[Any]
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    final_obs: Columns
    obs: Columns
    first: NDArray[np.bool_]
    needs_action: NDArray[np.bool_]
    env_step: NDArray[np.int64]
    episode_over: NDArray[np.bool_]


class BatchedEnv(ABC):
    """Many environments behind one interface; not a Gymnasium vector environment, which is one possible source.

    The caller's loop::

        env.reset(seed)
        while True:
            for group, step in env.poll(timeout).items():
                rows = np.flatnonzero(step.needs_action)
                env.send({group: (step.slot[rows], actions)})

    Actions are the environment's own (already clipped or shifted), in the order of the rows that were handed over;
    nested ones as ``{leaf: array}``. Arrays handed out stay as they are until the next ``poll`` or ``send``, which may
    use them again: the receiver copies.
    """

    #: ``{group name: (observation_space, action_space)}`` of one agent.
    groups: dict[str, Spaces]
    #: ``{group name: ids of all agents that may ever be in it}``, where the environment knows them; else empty.
    agents: Mapping[str, Sequence[Any]] = MappingProxyType({})
    #: How many copies of the environment there are.
    num_slots: int
    #: How users name it: in errors, checkpoints and results.
    name: str = "environment"
    #: True where there is one group with one agent, and every ``poll`` hands over all slots in order.
    lockstep: bool = False
    #: How many of its steps are a second of a video.
    frames_per_second: float = 30.0

    @abstractmethod
    def reset(self, seed: int | None) -> None:
        """Starts a new episode in every slot; ``seed`` makes all slots' randomness repeatable and distinct."""

    @abstractmethod
    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        """Whatever is ready; waits until something is. ``TimeoutError`` after ``timeout`` seconds, nothing lost."""

    @abstractmethod
    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        """``{group: (slots, actions)}`` for rows handed over with ``needs_action``. ``ValueError`` for any other."""

    def rest(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Nobody looks at ``slots`` any more until ``reset`` or ``set_state``; which of them will rest.

        It is said between a ``poll`` and its answer. An environment may do without the steps of slots that rest, so
        that they stand where they are: actions for rows that were handed over are still awaited, but ignored, and later
        rows, which ``lockstep`` hands over as ever, need no action and tell of no transition. Here no slot rests.
        """
        return slots[:0]

    @abstractmethod
    def get_state(self) -> dict[str, Any] | None:
        """A tree of dicts, arrays, numbers and strings from which ``set_state`` goes on exactly; None if impossible.

        It is asked for between a ``poll`` and the ``send`` that answers it, or before the first ``reset``.
        """

    @abstractmethod
    def set_state(self, state: dict[str, Any]) -> list[int]:
        """Goes on from ``state``; returns the slots that could not be restored and were reset instead.

        The next ``poll`` hands over every slot as it stood, without a last transition (reward 0, no flags), also the
        rows that had been handed over before; ``first`` holds where an episode is at its start.
        """

    def model(self) -> BatchedModel | None:
        """The rules of the environment for planners, where they are known."""
        return None

    def render(self, slot: int) -> Array | None:
        """An RGB frame ``[height, width, 3]`` uint8 of one slot, or None where it cannot be drawn."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Releases what is held; may be called twice."""
