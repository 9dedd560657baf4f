"""One game of OpenSpiel: players in turn or at once, chance drawn here, legal actions as a mask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.masks import ACTION_MASK
from rlcore.errors import EnvError
from rlcore_multiagent.masks import OBSERVATION, beside_mask
from rlcore_multiagent.stage import Ending, Stage, Turn

Seen = Literal["observation", "information_state"]


class OpenSpielStage(Stage):
    """One game, whose agents are ``player_0``, ``player_1`` and so on.

    A player sees ``{"observation": float32, "action_mask": int8}``: the tensor that ``seen`` names, in the shape that
    the game gives it, and which of the game's actions are legal. Its reward is what its return has grown by.
    """

    def __init__(self, load: Callable[[], Any], seen: Seen) -> None:
        game = load()
        self._game, self._seen = game, seen
        self._players: int = game.num_players()
        self._actions: int = game.num_distinct_actions()
        by_name = {
            "observation": game.observation_tensor_shape,
            "information_state": game.information_state_tensor_shape,
        }
        self._shape = tuple(by_name[seen]())
        self.agents = [f"player_{player}" for player in range(self._players)]
        observation = beside_mask(gymnasium.spaces.Box(-np.inf, np.inf, self._shape, np.float32), self._actions)
        self.spaces = [(observation, gymnasium.spaces.Discrete(self._actions))] * self._players
        self._nothing = np.zeros(self._shape, np.float32)
        self._state: Any = None
        self._returns = [0.0] * self._players
        self._rng = np.random.default_rng(0)

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
            ended = {player: Ending(self._observation(player, []), True) for player in range(self._players)}
            return Turn(rewards, ended, {}, True)
        return Turn(rewards, {}, {player: self._see(player) for player in self._acting()}, False)

    def _acting(self) -> list[int]:
        if not self._state.is_simultaneous_node():
            return [self._state.current_player()]
        return [player for player in range(self._players) if self._state.legal_actions(player)]

    def _see(self, player: int) -> dict[str, Any]:
        return self._observation(player, self._state.legal_actions(player))

    def _observation(self, player: int, legal: list[int]) -> dict[str, Any]:
        mask = np.zeros(self._actions, np.int8)
        mask[legal] = 1
        if self._state.is_terminal() and self._seen == "information_state":
            # Games need not say what is known once they are over; nothing is ever expected of it.
            return {OBSERVATION: self._nothing, ACTION_MASK: mask}
        tensor = getattr(self._state, f"{self._seen}_tensor")(player)
        return {OBSERVATION: np.array(tensor, np.float32).reshape(self._shape), ACTION_MASK: mask}
