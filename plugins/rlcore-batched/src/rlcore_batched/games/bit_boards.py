"""Board games for two players whose positions are sets of cells: one bit of a number for each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from numpy.typing import NDArray

from rlcore.acting.masks import ACTION_MASK
from rlcore.columns import Columns
from rlcore.model import BatchedModel
from rlcore_batched.drawing import BLUE, RED, WHITE, cells
from rlcore_batched.seats import GameSettings

BOARD = "board"
Stones = NDArray[np.uint64]
_ONE = np.uint64(1)


class BoardGameSettings(GameSettings):
    """Board games have no time limit: they end by themselves."""

    time_limit: None = None


class BoardSymmetry:
    """A board that is mirrored or not, and then turned by so many quarters; action ``a`` becomes ``actions[a]``.
    Picklable."""

    def __init__(self, quarters: int, mirrored: bool, actions: NDArray[np.int64]) -> None:
        self._quarters, self._mirrored, self._actions = quarters, mirrored, actions

    def __call__(self, obs: Columns) -> Columns:
        """Observations of a board game ``[n, ...]``."""
        assert isinstance(obs, dict)
        mask = np.empty_like(obs[ACTION_MASK])
        mask[:, self._actions] = obs[ACTION_MASK]
        return {BOARD: turned(obs[BOARD], self._quarters, self._mirrored), ACTION_MASK: mask}


def turned(planes: NDArray[Any], quarters: int, mirrored: bool) -> NDArray[Any]:
    """``[n, rows, columns, ...]``, a view."""
    return np.rot90(planes[:, :, ::-1] if mirrored else planes, quarters, axes=(1, 2))


class BitBoardGame(BatchedModel):
    """Players 0 and 1 put stones on a board in turn, until one has a row of them or no move is left.

    A batch of states is uint64 ``[n, 2]``: the stones of each player, a bit for each cell. The winner gets 1, the loser
    -1. Terminal states stay as they are, whatever is played. Nothing is drawn at random.

    Observations are those of the player who looks, ``{"board": uint8 [n, rows, columns, 2], "action_mask": int8
    [n, actions]}``: its own stones and the other's, and the legal moves.
    """

    Settings: ClassVar[type[BoardGameSettings]] = BoardGameSettings
    players = 2
    best_return = 1.0
    frames_per_second = 2.0
    rows: int
    columns: int
    actions: int

    def __init__(self, settings: BoardGameSettings | None = None) -> None:
        self.settings = settings or BoardGameSettings()
        self.observation_space: gymnasium.Space[Any] = Dict(
            {BOARD: Box(0, 1, (self.rows, self.columns, 2), np.uint8), ACTION_MASK: MultiBinary(self.actions)}
        )
        self.action_space = Discrete(self.actions)
        #: By cell, in the order of the board, the bit that stands for it.
        self._bits = np.array(self.bits(), np.uint64)
        self._full = np.bitwise_or.reduce(_ONE << self._bits)

    # -- what a game has to say

    @abstractmethod
    def bits(self) -> Sequence[int]:
        """By cell, row by row from the top, the number of its bit."""

    @abstractmethod
    def won(self, stones: Stones) -> NDArray[np.bool_]:
        """Whether the stones of one player ``[n]`` hold a row."""

    @abstractmethod
    def open_actions(self, taken: Stones) -> NDArray[np.bool_]:
        """The moves that the cells ``taken [n]`` leave, bool ``[n, actions]``."""

    @abstractmethod
    def landing(self, taken: Stones, actions: NDArray[np.int64]) -> Stones:
        """The cell that each action takes, as a number with one bit ``[n]``; of an action that is not open a cell that
        is taken, or none of the board."""

    # -- the model

    def initial(self, n: int, rng: np.random.Generator) -> Columns:
        return np.zeros((n, 2), np.uint64)

    def from_obs(self, obs: Columns) -> Columns:
        """Both have as many stones before a move of player 0, and one more is the other's before one of player 1."""
        assert isinstance(obs, dict)
        planes = np.asarray(obs[BOARD]).reshape(len(obs[BOARD]), len(self._bits), 2).astype(np.uint64)
        seen = np.bitwise_or.reduce(planes << self._bits[:, None], axis=1)
        counts = planes.sum(axis=1)
        turned = counts[:, 1] > counts[:, 0]
        return np.asarray(np.where(turned[:, None], seen[:, ::-1], seen), np.uint64)

    def legal(self, states: Columns) -> NDArray[np.bool_]:
        stones = _stones(states)
        return np.asarray(self.open_actions(stones[:, 0] | stones[:, 1]) & ~self.terminal(states)[:, None])

    def chance(self, states: Columns) -> NDArray[np.float64] | None:
        return None

    def step(
        self, states: Columns, actions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Columns, NDArray[np.float32]]:
        """``ValueError`` for a move that is not legal, in a state that is not terminal."""
        stones, chosen = _stones(states), np.asarray(actions, np.int64)
        every, over = np.arange(len(stones)), self.terminal(stones)
        taken = stones[:, 0] | stones[:, 1]
        cells = self.landing(taken, chosen)
        illegal = ~over & ((cells & self._full & ~taken) == 0)
        if illegal.any():
            row = int(illegal.argmax())
            raise ValueError(f"action {chosen[row]} of row {row} is no legal move")
        mover = self.to_play(stones)
        after = stones.copy()
        after[every, mover] |= np.where(over, np.uint64(0), cells)
        rewards = np.zeros((len(stones), 2), np.float32)
        won = np.flatnonzero(~over & self.won(after[every, mover]))
        if len(won):
            rewards[won, mover[won]], rewards[won, 1 - mover[won]] = 1.0, -1.0
        return after, rewards

    def to_play(self, states: Columns) -> NDArray[np.int64]:
        counts = np.bitwise_count(_stones(states))
        return np.asarray(counts[:, 0] > counts[:, 1], np.int64)

    def observe(self, states: Columns) -> Columns:
        return self.view(states, self.to_play(states))

    def terminal(self, states: Columns) -> NDArray[np.bool_]:
        stones = _stones(states)
        full = (stones[:, 0] | stones[:, 1]) == self._full
        return np.asarray(full | self.won(stones.reshape(-1)).reshape(-1, 2).any(axis=1))

    # -- beyond the model

    def view(self, states: Columns, players: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """What ``players [n]`` see; ``observe`` is the view of whoever moves."""
        stones = _stones(states)
        ordered = np.where((players == 1)[:, None], stones[:, ::-1], stones)
        planes = ((ordered[:, None, :] >> self._bits[:, None]) & _ONE).astype(np.uint8)
        board = planes.reshape(len(stones), self.rows, self.columns, 2)
        return {BOARD: board, ACTION_MASK: self.legal(stones).astype(np.int8)}

    def text(self, states: Columns) -> str:
        """Player 0 is X, player 1 is O; beneath them, where there is one for each column, the actions."""
        stones = _stones(states)[0]
        has = ((stones[:, None] >> self._bits) & _ONE).astype(np.bool_)
        signs = np.where(has[0], "X", np.where(has[1], "O", ".")).reshape(self.rows, self.columns)
        lines = [" ".join(row) for row in signs]
        if self.actions == self.columns:
            lines.append(" ".join(map(str, range(self.columns))))
        return "\n".join(lines)

    def draw(self, states: Columns) -> NDArray[np.uint8]:
        """A picture of the first board: player 0 is red, player 1 blue."""
        colours = np.full((len(self._bits), 3), WHITE, np.uint8)
        for player, colour in enumerate((RED, BLUE)):
            colours[((_stones(states)[0, player] >> self._bits) & _ONE).astype(np.bool_)] = colour
        return cells(colours.reshape(self.rows, self.columns, 3), 48)


def _stones(states: Columns) -> Stones:
    assert not isinstance(states, dict)
    return states
