"""Matches: players play games against each other, all games at once, and are compared by what they get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, length, put, take
from rlcore.model import BatchedModel
from rlcore.tree_search.players import Player


class Games(NamedTuple):
    """Games that were played: ``moves`` int64 ``[games, plies]`` with what chance did among them, -1 behind the end;
    ``returns`` float32 ``[games, players]``; ``seats`` int64 ``[games, players]``, which player had which place."""

    moves: NDArray[np.int64]
    returns: NDArray[np.float32]
    seats: NDArray[np.int64]


class MatchScore(NamedTuple):
    """How many games one player won, drew and lost; a draw is half a win."""

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        """How many there were."""
        return self.wins + self.draws + self.losses

    @property
    def rate(self) -> float:
        """The share of the points."""
        return (self.wins + 0.5 * self.draws) / max(1, self.games)

    def __add__(self, other: object) -> MatchScore:
        if not isinstance(other, MatchScore):
            return NotImplemented
        return MatchScore(self.wins + other.wins, self.draws + other.draws, self.losses + other.losses)


def play_games(
    model: BatchedModel,
    players: Sequence[Player],
    seats: NDArray[np.int64],
    states: Columns,
    rng: np.random.Generator,
) -> Games:
    """Plays on from ``states [games]`` to the end: ``seats[game, place]`` is the player who has that place."""
    n = len(seats)
    returns = np.zeros((n, model.players), np.float32)
    plies: list[NDArray[np.int64]] = []
    for player in players:
        player.begin()
    games = np.flatnonzero(~model.terminal(states))
    states = take(states, games)
    while len(games):
        moves = _moves(model, players, seats, games, states, rng)
        states, rewards = model.step(states, moves, rng)
        returns[games] += rewards
        ply = np.full(n, -1, np.int64)
        ply[games] = moves
        plies.append(ply)
        going_on = ~model.terminal(states)
        games, states = games[going_on], take(states, going_on)
    return Games(np.stack(plies, axis=1) if plies else np.zeros((n, 0), np.int64), returns, seats)


def _moves(
    model: BatchedModel,
    players: Sequence[Player],
    seats: NDArray[np.int64],
    games: NDArray[np.int64],
    states: Columns,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    moves = np.zeros(len(games), np.int64)
    outcomes = model.chance(states)
    drawn = np.zeros(len(games), np.bool_) if outcomes is None else outcomes.sum(axis=1) > 0.0
    if drawn.any():
        moves[drawn] = model.draw_moves(take(states, drawn), rng)
    whose = seats[games, np.where(drawn, 0, model.to_play(states))]
    for number, player in enumerate(players):
        rows = np.flatnonzero((whose == number) & ~drawn)
        if len(rows):
            moves[rows] = player.moves(take(states, rows), games[rows], rng)
    return moves


def compare(
    model: BatchedModel, one: Player, other: Player, rounds: int, opening_moves: int, rng: np.random.Generator
) -> tuple[MatchScore, Games]:
    """``one`` against ``other``: so many openings of up to ``opening_moves`` random moves, each played with ``one`` in
    every place in turn, and ``other`` in all others. Of a game for one player both play each opening alone.

    A game counts as won by ``one`` where it gets more than the others do on average.
    """
    places = max(2, model.players)
    openings = random_openings(model, rounds, opening_moves, rng)
    states = take(openings, np.tile(np.arange(rounds), places))
    turn = np.repeat(np.arange(places), rounds)
    if model.players == 1:
        seats = turn[:, None]
    else:
        seats = np.ones((len(turn), places), np.int64)
        seats[np.arange(len(turn)), turn] = 0
    games = play_games(model, (one, other), seats, states, rng)
    return _score(games, turn, rounds), games


def _score(games: Games, turn: NDArray[np.int64], rounds: int) -> MatchScore:
    returns = games.returns.astype(np.float64)
    if returns.shape[1] == 1:
        own, others = returns[:rounds, 0], returns[rounds:, 0]
    else:
        own = returns[np.arange(len(returns)), turn]
        others = (returns.sum(axis=1) - own) / (returns.shape[1] - 1)
    return MatchScore(int((own > others).sum()), int((own == others).sum()), int((own < others).sum()))


def random_openings(model: BatchedModel, count: int, most: int, rng: np.random.Generator) -> Columns:
    """Positions after none to ``most`` random moves, as often each, none of which is over."""
    states = model.initial(count, rng)
    plies = np.arange(count) % (most + 1)
    for ply in range(most):
        rows = np.flatnonzero(plies > ply)
        if not len(rows):
            continue
        before = take(states, rows)
        after, _ = model.step(before, model.draw_moves(before, rng), rng)
        over = model.terminal(after)
        put(states, rows[~over], take(after, ~over))
    assert length(states) == count
    return states
