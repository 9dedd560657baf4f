"""One game of OpenSpiel: players in turn or at once, chance drawn here, legal actions as a mask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.errors import EnvError
from rlcore.model import BatchedModel
from rlcore_multiagent.openspiel_model import OpenSpielModel
from rlcore_multiagent.openspiel_rules import Load, Seen, Views, most_moves
from rlcore_multiagent.stage import Ending, Stage, Turn


class OpenSpielStage(Stage):
    """One game, whose agents are ``player_0``, ``player_1`` and so on.

    A player sees ``{"observation": float32, "action_mask": int8}``, and where the game can be planned with
    ``{"board": float32, "action_mask": int8, "model_state": int16}`` (:class:`.openspiel_rules.Views`).
    Its reward is what its return has grown by.
    """

    def __init__(self, load: Load, seen: Seen, *, planning: bool = False) -> None:
        self._load, self._seen, self._planning = load, seen, planning
        game = load()
        self._game = game
        self._views = Views(game, seen, most_moves(game) if planning else 0)
        self._players: int = game.num_players()
        self.agents = [f"player_{player}" for player in range(self._players)]
        self.spaces = [(self._views.space, gymnasium.spaces.Discrete(self._views.actions))] * self._players
        self._state: Any = None
        self._returns = [0.0] * self._players
        self._rng = np.random.default_rng(0)

    def model(self) -> BatchedModel | None:
        return OpenSpielModel(self._load, self._seen) if self._planning else None

    def open(self, seed: int) -> Turn:
        self._rng = np.random.default_rng(seed)
        self._state = self._game.new_initial_state()
        self._returns = [0.0] * self._players
        return self._turn()._replace(rewards={})

    def step(self, actions: Mapping[int, Any]) -> Turn:
        if self._state.is_simultaneous_node():
            self._check(actions)
            # Players who have nothing to choose are not asked; the game takes their only action.
            joint = [actions.get(player, self._only(player)) for player in range(self._players)]
            self._state.apply_actions(joint)
        else:
            self._check(actions)
            self._state.apply_action(actions[self._state.current_player()])
        return self._turn()

    def _check(self, actions: Mapping[int, Any]) -> None:
        for player, action in actions.items():
            if action not in self._state.legal_actions(player):
                raise EnvError(f"player_{player}: action {action} is not legal; its mask says which are")

    def _only(self, player: int) -> int:
        legal: list[int] = self._state.legal_actions(player)
        return legal[0] if legal else 0

    def _turn(self) -> Turn:
        state = self._state
        while state.is_chance_node():
            outcomes, probabilities = zip(*state.chance_outcomes(), strict=True)
            weights: NDArray[np.float64] = np.asarray(probabilities)
            state.apply_action(int(outcomes[int(self._rng.choice(len(outcomes), p=weights / weights.sum()))]))
        before, self._returns = self._returns, state.returns()
        rewards = {player: self._returns[player] - before[player] for player in range(self._players)}
        if state.is_terminal():
            ended = {player: Ending(self._views.of(state, player, []), True) for player in range(self._players)}
            return Turn(rewards, ended, {}, True)
        return Turn(rewards, {}, {player: self._see(player) for player in self._acting()}, False)

    def _acting(self) -> list[int]:
        if not self._state.is_simultaneous_node():
            return [self._state.current_player()]
        return [player for player in range(self._players) if self._state.legal_actions(player)]

    def _see(self, player: int) -> dict[str, Any]:
        return self._views.of(self._state, player, self._state.legal_actions(player))
