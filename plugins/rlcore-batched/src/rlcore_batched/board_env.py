"""BoardEnv: copies of a board game in which two players take turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.acting.masks import ACTION_MASK
from rlcore.columns import Columns, take
from rlcore.env import StepBatch
from rlcore.model import BatchedModel
from rlcore_batched.array_env import ArrayEnv, Phase
from rlcore_batched.games.bit_boards import BitBoardGame
from rlcore_batched.noise import episode_seeds
from rlcore_batched.seats import Seats


class BoardEnv(ArrayEnv):
    """Agents 0 and 1 of one group. Whoever is to move has a row; agent 0 begins, or whoever sits there where seats are
    shuffled.

    The poll in which a game ends has two rows of its slot: that of the agent whose observation opens the next game,
    and, after the rows of all slots, that of the other one, who has to wait. Both terminate, with 1 and -1 or both with
    0.
    """

    def __init__(self, game: BitBoardGame, num_slots: int, name: str) -> None:
        super().__init__((game.observation_space, game.action_space), num_slots, name, np.arange(num_slots))
        self.frames_per_second = game.frames_per_second
        self.agents = dict.fromkeys(self.groups, tuple(range(game.players)))
        self._game = game
        self._seats = Seats(num_slots, game.settings)
        # Nothing is random in these games.
        self._rng = np.random.default_rng(0)
        self._open()

    def _open(self) -> None:
        self._states = self._game.initial(self.num_slots, self._rng)
        self._deal(np.arange(self.num_slots))

    def _deal(self, index: NDArray[np.int64]) -> None:
        self._seats.deal(index, episode_seeds(self._seed, index, self._episode[index]))

    def _shown(self) -> StepBatch:
        n = self.num_slots
        movers = self._game.to_play(self._states)
        nobody = np.zeros(n, np.bool_)
        obs = self._game.view(self._states, movers)
        return StepBatch(
            slot=self._waiting,
            agent_id=self._seats.of[self._waiting, movers],
            reward=np.zeros(n, np.float32),
            terminated=nobody,
            truncated=nobody,
            final_obs=take(obs, slice(0, 0)),
            obs=obs,
            first=self._t < self._game.players,
            needs_action=np.ones(n, np.bool_),
            env_step=self._t,
            episode_over=nobody,
        )

    def _check(self, actions: NDArray[Any]) -> None:
        legal = self._game.legal(self._states)[self._waiting, actions]
        if not legal.all():
            slot = int(np.flatnonzero(~legal)[0])
            raise ValueError(
                f"{self.name}, slot {slot}: action {actions[slot]} is no legal move; '{ACTION_MASK}' says which are"
            )

    def _advance(self, actions: NDArray[Any]) -> StepBatch:
        game = self._game
        self._states, rewards = game.step(self._states, actions, self._rng)
        self._t += 1
        over = game.terminal(self._states)
        if not over.any():
            return self._shown()
        ended = np.flatnonzero(over)
        last, lengths, seats = take(self._states, ended), self._t[ended], self._seats.of[ended]
        assert not isinstance(self._states, dict)
        self._states[ended] = game.initial(len(ended), self._rng)
        self._t[ended] = 0
        self._episode[ended] += 1
        self._deal(ended)
        shown = self._shown()
        # By ended slot, who opens the next game and who waits, and which players these were.
        opening = shown.agent_id[ended]
        waiting = 1 - opening
        players = [seats[np.arange(len(ended)), agents] for agents in (opening, waiting)]
        paid = [rewards[ended, own] for own in players]
        return _with_endings(shown, ended, waiting, paid, lengths, [game.view(last, own) for own in players])

    def _copied(self) -> dict[str, Any]:
        return {"states": np.array(self._states)}

    def _take_over(self, state: Mapping[str, Any], kept: int) -> None:
        assert not isinstance(self._states, dict)
        self._states[:kept] = np.asarray(state["states"], np.uint64)[:kept]
        self._deal(np.arange(self.num_slots))

    def model(self) -> BatchedModel | None:
        """The rules of the game."""
        return self._game

    def render(self, slot: int) -> NDArray[np.uint8] | None:
        if self._phase is Phase.RESET:
            return None
        return self._game.draw(take(self._states, slice(slot, slot + 1)))


def _with_endings(
    shown: StepBatch,
    ended: NDArray[np.int64],
    waiting: NDArray[np.int64],
    paid: list[NDArray[np.float32]],
    lengths: NDArray[np.int64],
    views: list[dict[str, NDArray[Any]]],
) -> StepBatch:
    """``shown`` with the endings of slots ``ended``: in their rows those of the agents who open the next games, behind
    them those of the agents ``waiting``. ``paid`` and ``views`` are of these two, in this order."""
    n, k = len(shown.slot), len(ended)
    reward = np.zeros(n + k, np.float32)
    reward[ended], reward[n:] = paid
    over = np.zeros(n + k, np.bool_)
    over[ended] = over[n:] = True
    assert isinstance(shown.obs, dict)
    obs: Columns = {leaf: np.concatenate([array, views[1][leaf]]) for leaf, array in shown.obs.items()}
    return StepBatch(
        slot=np.concatenate([shown.slot, ended]),
        agent_id=np.concatenate([shown.agent_id, waiting]),
        reward=reward,
        terminated=over,
        truncated=np.zeros(n + k, np.bool_),
        final_obs={leaf: np.concatenate([view[leaf] for view in views]) for leaf in shown.obs},
        obs=obs,
        first=np.concatenate([shown.first, np.zeros(k, np.bool_)]),
        needs_action=np.arange(n + k) < n,
        env_step=np.concatenate([shown.env_step, lengths]),
        episode_over=over.copy(),
    )
