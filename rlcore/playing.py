"""Playing against a trained policy: one game, move by move, whoever the others are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rlcore.errors import UserError
from rlcore.loading import TrainedPolicy
from rlcore.model import BatchedModel
from rlcore.saved_policies import SavedPolicy, read_policies


class PlayedGame:
    """One game by the rules ``model``: ``seat`` is the human's, -1 where the policy plays all sides."""

    def __init__(self, model: BatchedModel, policy: TrainedPolicy, seat: int, seed: int) -> None:
        if not -1 <= seat < model.players:
            raise UserError(f"--seat: there are {model.players} players, numbered from 0")
        self.model = model
        self.seat = seat
        self._policy = policy
        self._rng = np.random.default_rng(seed)
        self._state = model.initial(1, self._rng)
        #: What every player has got so far.
        self.returns = np.zeros(model.players)

    @property
    def over(self) -> bool:
        """Whether the game has ended."""
        return bool(self.model.terminal(self._state)[0])

    @property
    def humans_turn(self) -> bool:
        """Whether the human is to move."""
        return not self.chance_moves and int(self.model.to_play(self._state)[0]) == self.seat

    @property
    def chance_moves(self) -> bool:
        """Whether what comes next is drawn."""
        outcomes = self.model.chance(self._state)
        return outcomes is not None and bool(outcomes[0].sum() > 0.0)

    def legal(self) -> list[int]:
        """The moves that there are."""
        legal = self.model.legal(self._state)
        assert legal is not None
        return [int(action) for action in np.flatnonzero(legal[0])]

    def text(self) -> str:
        """The position, drawn."""
        return self.model.text(self._state)

    def others_move(self) -> int:
        """The move of the policy, or of chance, which is made."""
        if self.chance_moves:
            action = int(self.model.draw_moves(self._state, self._rng)[0])
        else:
            obs = _structured(self.model.observe(self._state))
            action = int(np.asarray(self._policy.act(obs))[0])
        self.make(action)
        return action

    def make(self, action: int) -> None:
        """Makes a move."""
        self._state, rewards = self.model.step(self._state, np.array([action]), self._rng)
        self.returns += rewards[0]


def _structured(obs: Any) -> Any:
    """By dotted leaf, as dictionaries within dictionaries."""
    if not isinstance(obs, Mapping):
        return obs
    found: dict[str, Any] = {}
    for leaf, array in obs.items():
        *path, name = leaf.split(".")
        inner = found
        for key in path:
            inner = inner.setdefault(key, {})
        inner[name] = array
    return found


def load_game(
    path: Path | str, *, policy: str | None, seat: int, simulations: int | None, seed: int, trust: bool
) -> PlayedGame:
    """A game against the policy of a run or checkpoint; ``simulations`` of each of its moves, where it plans.

    Raises ``UserError`` where its environment has no rules to play by, and what loading raises.
    """
    saved = _chosen(read_policies(path), policy, path)
    model = None if saved.run is None else saved.run.rules(trust)
    if model is None or model.legal(model.initial(1, np.random.default_rng(seed))) is None:
        raise UserError(f"{path}: there are no rules to play by: its environment has no model() with discrete moves")
    built = saved.build(None, trust)
    if simulations is not None:
        built.call("set_search", {"simulations": simulations})
    return PlayedGame(model, TrainedPolicy(saved, built, seed), seat, seed)


def _chosen(saved: Mapping[str, SavedPolicy], policy: str | None, path: Path | str) -> SavedPolicy:
    if (policy is None and len(saved) > 1) or (policy is not None and policy not in saved):
        raise UserError(f"{path}: name one of its policies with --policy: {', '.join(sorted(saved))}")
    return saved[policy] if policy is not None else next(iter(saved.values()))
