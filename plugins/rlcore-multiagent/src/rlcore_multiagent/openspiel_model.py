"""OpenSpielModel: the rules of a game of OpenSpiel, to plan with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns
from rlcore.errors import EnvError
from rlcore.model import MODEL_STATE, BatchedModel
from rlcore_multiagent.openspiel_rules import Load, Seen, Views, has_chance, most_moves

#: How many positions are held ready, so that they need not be played out again.
HELD_READY = 50_000


class OpenSpielModel(BatchedModel):
    """A state is a row of all moves so far, int16 or int32 ``[n, moves]``, those of chance among them, -1 behind them.

    Positions are played out from the beginning of the game. That is what states mean; where a position was come to
    by ``step`` it is held ready for a while, which changes nothing but the time that it takes. Players are the game's.
    """

    def __init__(self, load: Load, seen: Seen) -> None:
        self._load, self._seen = load, seen
        self._begin()

    def _begin(self) -> None:
        import pyspiel

        self._game = game = self._load()
        self._views = Views(game, self._seen, most_moves(game))
        self._outcomes: int = game.max_chance_outcomes() if has_chance(game) else 0
        self.players = game.num_players()
        at_the_end = game.get_type().reward_model == pyspiel.GameType.RewardModel.TERMINAL
        self.best_return = float(game.max_utility()) if at_the_end else None
        self._ready: dict[bytes, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"_load": self._load, "_seen": self._seen}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def initial(self, n: int, rng: np.random.Generator) -> Columns:
        return np.tile(self._views.played([]), (n, 1))

    def from_obs(self, obs: Columns) -> Columns:
        assert isinstance(obs, dict)
        return obs[MODEL_STATE]

    def legal(self, states: Columns) -> NDArray[np.bool_]:
        """No action of a game that is over, or where chance is to move."""
        found = np.zeros((len(states), self._views.actions), np.bool_)
        for row, state in enumerate(self._positions(states)):
            if not state.is_chance_node():
                found[row, state.legal_actions()] = True
        return found

    def chance(self, states: Columns) -> NDArray[np.float64] | None:
        if not self._outcomes:
            return None
        found = np.zeros((len(states), self._outcomes))
        for row, state in enumerate(self._positions(states)):
            if state.is_chance_node():
                for outcome, probability in state.chance_outcomes():
                    found[row, outcome] = probability
        return found

    def step(
        self, states: Columns, actions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Columns, NDArray[np.float32]]:
        """``EnvError`` for an action that is not legal. Rewards are what players' returns grow by."""
        assert not isinstance(states, dict)
        after = np.array(states)
        rewards = np.zeros((len(after), self.players), np.float32)
        lengths = (after >= 0).sum(axis=1)
        for row, (state, action) in enumerate(zip(self._positions(states), actions.tolist(), strict=True)):
            if action not in state.legal_actions():
                raise EnvError(f"action {action} is not legal after the moves {state.history()}")
            child = state.clone()
            child.apply_action(action)
            if lengths[row] == self._views.moves:
                self._views.played(child.history())
            after[row, lengths[row]] = action
            rewards[row] = np.subtract(child.returns(), state.returns())
            self._hold(after[row].tobytes(), child)
        return after, rewards

    def to_play(self, states: Columns) -> NDArray[np.int64]:
        return np.array([max(0, state.current_player()) for state in self._positions(states)], np.int64)

    def observe(self, states: Columns) -> Columns:
        """Where nobody is to move, what the first player sees."""
        rows = [
            self._views.of(state, player, state.legal_actions() if state.current_player() >= 0 else [])
            for state in self._positions(states)
            for player in [max(0, state.current_player())]
        ]
        if not rows:
            return self._views.none()
        return {leaf: np.stack([row[leaf] for row in rows]) for leaf in rows[0]}

    def terminal(self, states: Columns) -> NDArray[np.bool_]:
        return np.array([state.is_terminal() for state in self._positions(states)], np.bool_)

    def text(self, states: Columns) -> str:
        return str(next(self._positions(states)))

    # -- positions

    def _positions(self, states: Columns) -> Iterator[Any]:
        """Those of OpenSpiel, which are not to be changed."""
        assert not isinstance(states, dict)
        for row in states:
            key = row.tobytes()
            state = self._ready.get(key)
            if state is None:
                state = self._played_out(row)
                self._hold(key, state)
            yield state

    def _played_out(self, row: Array) -> Any:
        state = self._game.new_initial_state()
        for action in row[row >= 0].tolist():
            if action not in state.legal_actions():
                raise EnvError(f"action {action} is not legal after the moves {state.history()}")
            state.apply_action(action)
        return state

    def _hold(self, key: bytes, state: Any) -> None:
        if len(self._ready) >= HELD_READY:
            self._ready.clear()
        self._ready[key] = state
