"""What is known of a game of OpenSpiel: what players see of it, and whether it can be planned with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.masks import ACTION_MASK
from rlcore.errors import EnvError
from rlcore.model import BOARD, MODEL_STATE
from rlcore_multiagent.masks import OBSERVATION, beside_mask

Seen = Literal["observation", "information_state"]


class Views:
    """What players see of the states of ``game``: the tensor that ``seen`` names, in the shape that the game gives it,
    and which of the game's actions are legal.

    With ``moves`` more than 0 they also see all moves so far, those of chance among them, -1 behind them.
    """

    def __init__(self, game: Any, seen: Seen, moves: int) -> None:
        self._seen, self._leaf = seen, BOARD if moves else OBSERVATION
        self.actions: int = game.num_distinct_actions()
        shapes = {
            "observation": game.observation_tensor_shape,
            "information_state": game.information_state_tensor_shape,
        }
        self._shape = tuple(shapes[seen]())
        outcomes = game.max_chance_outcomes() if moves else 0
        self._dtype: Any = np.int16 if max(self.actions, outcomes) <= np.iinfo(np.int16).max else np.int32
        self.moves = moves
        #: The observation space of every player.
        self.space = self._space(max(self.actions, outcomes))

    def _space(self, options: int) -> gymnasium.spaces.Dict:
        board = gymnasium.spaces.Box(-np.inf, np.inf, self._shape, np.float32)
        if not self.moves:
            return beside_mask(board, self.actions)
        played = gymnasium.spaces.Box(-1, options - 1, (self.moves,), self._dtype)
        masked = beside_mask(gymnasium.spaces.Dict({BOARD: board}), self.actions)
        return gymnasium.spaces.Dict([*masked.items(), (MODEL_STATE, played)])

    def of(self, state: Any, player: int, legal: list[int]) -> dict[str, NDArray[Any]]:
        """What a player sees who has these ``legal`` actions."""
        mask = np.zeros(self.actions, np.int8)
        mask[legal] = 1
        found: dict[str, NDArray[Any]] = {self._leaf: self._tensor(state, player), ACTION_MASK: mask}
        if self.moves:
            found[MODEL_STATE] = self.played(state.history())
        return found

    def none(self) -> dict[str, NDArray[Any]]:
        """What nobody sees, ``[0, ...]``."""
        boxes = self.space.spaces.items()
        return {leaf: np.zeros((0, *(box.shape or ())), box.dtype) for leaf, box in boxes}

    def _tensor(self, state: Any, player: int) -> NDArray[np.float32]:
        if state.is_terminal() and self._seen == "information_state":
            # Games need not say what is known once they are over; nothing is ever expected of it.
            return np.zeros(self._shape, np.float32)
        tensor = state.observation_tensor if self._seen == "observation" else state.information_state_tensor
        return np.array(tensor(player), np.float32).reshape(self._shape)

    def played(self, history: list[int]) -> NDArray[Any]:
        """A row of moves. ``EnvError`` where there are more than the game said that there would be."""
        if len(history) > self.moves:
            raise EnvError(f"the game goes on after the {self.moves} moves that it said are the most")
        row = np.full(self.moves, -1, self._dtype)
        row[: len(history)] = history
        return row


def most_moves(game: Any) -> int:
    """Of a game to its end, with those of chance."""
    return int(game.max_game_length()) + (int(game.max_chance_nodes_in_history()) if has_chance(game) else 0)


def has_chance(game: Any) -> bool:
    """Whether chance moves in it."""
    import pyspiel

    return bool(game.get_type().chance_mode != pyspiel.GameType.ChanceMode.DETERMINISTIC)


def why_no_planning(game: Any) -> str:
    """What keeps players from planning with the rules of ``game``; empty where nothing does."""
    import pyspiel

    kind = game.get_type()
    if kind.dynamics != pyspiel.GameType.Dynamics.SEQUENTIAL:
        return "players move at the same time, and a search expects them to take turns"
    if kind.information != pyspiel.GameType.Information.PERFECT_INFORMATION:
        return "players do not see all there is, and a search goes by the state of the game"
    if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
        return "it does not say with which probabilities chance moves"
    return ""


#: Makes the game; picklable.
Load = Callable[[], Any]
