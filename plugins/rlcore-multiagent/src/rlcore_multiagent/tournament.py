"""Tournaments: policies play each other, and a table says how often each wins against each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.envs import EnvSource
from rlcore.errors import UserError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_source import PolicySource
from rlcore.sampling.collect import Episodes


@dataclass(frozen=True)
class Outcomes:
    """Games between two players from the first one's side."""

    wins: int
    draws: int
    losses: int

    @property
    def win_rate(self) -> float:
        """Wins, and half of the draws, among all games."""
        return (self.wins + 0.5 * self.draws) / (self.wins + self.draws + self.losses)


def play_games(
    env: EnvSource,
    first: PolicySource,
    second: PolicySource,
    games: int,
    *,
    seats: Mapping[Any, int],
    env_settings: Mapping[str, Any] | None = None,
    num_envs: int = 10,
    explore: bool = False,
    seed: int = 0,
) -> Outcomes:
    """``games`` games of ``first`` against ``second``: actors or policy graphs, which act deterministically unless they
    ``explore``.

    ``seats`` is ``{agent_id: 0 or 1}``: ``first`` acts for those with 0, ``second`` for the others, and the other way
    round in the second half of the games. A game is won by whoever has the higher return.
    """
    if set(seats.values()) != {0, 1}:
        raise UserError(f"seats says 0 or 1 of each agent, and each of some, not {dict(seats)}")
    if games < 2:
        raise UserError(f"play_games plays at least two games, half with the seats exchanged, not {games}")
    counts = {"wins": 0, "draws": 0, "losses": 0}
    for share, names in ((games - games // 2, ("first", "second")), (games // 2, ("second", "first"))):
        evaluator = PolicyEvaluator(
            env=env,
            env_settings=env_settings,
            policies={"first": first, "second": second},
            policy_of={agent: names[side] for agent, side in seats.items()},
            num_envs=min(num_envs, share),
            collect=Episodes(share),
            explore=explore,
            rng=seed,
        )
        try:
            for episode in evaluator.play():
                returns = episode.policy_returns
                lead = returns.get("first", 0.0) - returns.get("second", 0.0)
                counts["wins" if lead > 0 else "losses" if lead < 0 else "draws"] += 1
        finally:
            evaluator.close()
    return Outcomes(**counts)


@dataclass(frozen=True)
class WinRates:
    """``rates[i, j]`` is the win rate of ``names[i]`` against ``names[j]``, a half on the diagonal."""

    names: tuple[str, ...]
    rates: NDArray[np.float64]

    def __str__(self) -> str:
        width = max(map(len, self.names), default=0) + 2
        head = " " * width + "".join(f"{name:>{width}}" for name in self.names)
        rows = [
            f"{name:<{width}}" + "".join(f"{rate:>{width}.2f}" for rate in row)
            for name, row in zip(self.names, self.rates, strict=True)
        ]
        return "\n".join([head, *rows])


def win_rates(
    env: EnvSource,
    players: Mapping[str, PolicySource],
    games: int,
    *,
    seats: Mapping[Any, int],
    env_settings: Mapping[str, Any] | None = None,
    explore: bool = False,
    seed: int = 0,
) -> WinRates:
    """Every player against every other, ``games`` games each (see :func:`play_games`)."""
    names = tuple(players)
    rates = np.full((len(names), len(names)), 0.5)
    for i, first in enumerate(names):
        for j in range(i + 1, len(names)):
            found = play_games(
                env,
                players[first],
                players[names[j]],
                games,
                seats=seats,
                env_settings=env_settings,
                explore=explore,
                seed=seed + i * len(names) + j,
            )
            rates[i, j], rates[j, i] = found.win_rate, 1.0 - found.win_rate
    return WinRates(names, rates)
