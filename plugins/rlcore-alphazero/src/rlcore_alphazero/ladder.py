"""A ladder: the versions of a run against players of known strength, and against each other."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlcore.checkpoint import load_tree
from rlcore.errors import UserError
from rlcore.model import BatchedModel
from rlcore.replay_memory import REPLAY
from rlcore.saved_policies import read_policy
from rlcore.tree_search.leaves import Predict
from rlcore.tree_search.matches import compare
from rlcore.tree_search.mistakes import mistakes_by_part, mistakes_of
from rlcore.tree_search.players import Player, RandomPlayer, network_search_player, playout_player
from rlcore.tree_search.searching import search_of
from rlcore.tree_search.settings import SearchConfig


@dataclass(frozen=True)
class LadderConfig:
    """``openings`` random ones of up to ``opening_moves`` moves are played from every place; ``mcts`` are the
    simulations of plain Monte Carlo tree search, ``simulations`` those of the run's own versions (null: its own).
    ``checkpoints`` are the iterations whose checkpoints take part (none: all), ``policy`` names one of several."""

    mcts: tuple[int, ...] = (100, 400, 1600)
    openings: int = 20
    opening_moves: int = 2
    simulations: int | None = None
    checkpoints: tuple[int, ...] = ()
    seed: int = 0
    policy: str | None = None


@dataclass(frozen=True)
class Rung:
    """How the version after so many iterations fared against one opponent."""

    iteration: int
    env_steps: int
    opponent: str
    wins: int
    draws: int
    losses: int
    rate: float


@dataclass(frozen=True)
class Judged:
    """The mistakes of the version after so many iterations, in all solved positions (``all``) or one part of them."""

    iteration: int
    env_steps: int
    part: str
    mistakes: float
    network_mistakes: float


@dataclass(frozen=True)
class Version:
    """A checkpoint of a run as a player, with its network and the settings of its search."""

    iteration: int
    env_steps: int
    player: Player
    predict: Predict
    search: SearchConfig


def climb(model: BatchedModel, versions: Sequence[Version], config: LadderConfig) -> Iterator[Rung]:
    """The rungs of all versions of a run, the first one first: against a random player, plain searches, and every
    earlier version."""
    opponents: dict[str, Player] = {"random": RandomPlayer(model)}
    opponents |= {f"mcts-{count}": playout_player(model, count) for count in config.mcts}
    for version in versions:
        for name, opponent in opponents.items():
            # The same openings for every version.
            rng = np.random.default_rng(config.seed)
            score, _ = compare(model, version.player, opponent, config.openings, config.opening_moves, rng)
            yield Rung(version.iteration, version.env_steps, name, *score, score.rate)
        opponents[f"version-{version.iteration}"] = version.player


def judge(model: BatchedModel, versions: Sequence[Version]) -> Iterator[Judged]:
    """How often each version makes mistakes, where the game is solved: in all positions and in each part of them."""
    for version in versions:
        whole = mistakes_of(model, version.predict, version.search)
        if whole is None:
            return
        for part, found in {"all": whole, **mistakes_by_part(model, version.predict, version.search)}.items():
            yield Judged(version.iteration, version.env_steps, part, found.mistakes, found.network_mistakes)


def versions_of(
    run: Path | str, config: LadderConfig, trust: bool = False
) -> tuple[BatchedModel, list[Version]]:
    """The rules of a run's game, and its checkpoints as players that do not explore, the first one first.
    ``UserError`` for a run of no policy that searches, and for checkpoints that there are not."""
    folder = Path(run) / "checkpoints"
    numbers = sorted(int(path.name) for path in folder.glob("*") if path.name.isdigit())
    missing = sorted(set(config.checkpoints) - set(numbers))
    if missing:
        raise UserError(f"{run}: no checkpoint of iteration {', '.join(map(str, missing))}")
    numbers = list(config.checkpoints) or numbers
    saved = [read_policy(folder / str(number), config.policy) for number in numbers]
    model = saved[0].run.rules(trust) if saved and saved[0].run is not None else None
    if model is None:
        raise UserError(f"{run}: no checkpoint of a run whose environment has rules to play by")
    versions = []
    for number, one in zip(numbers, saved, strict=True):
        policy = one.build(None, trust)
        search = search_of(policy)
        if search is None:
            raise UserError(f"{run}: its policy does not plan")
        if config.simulations is not None:
            search = search.model_copy(update={"simulations": config.simulations})
        predict = functools.partial(policy.call, "network")
        player = network_search_player(model, predict, search)
        versions.append(Version(number, _env_steps(folder / str(number)), player, predict, search))
    return model, versions


def _env_steps(checkpoint: Path) -> int:
    return int(load_tree(checkpoint, leave_out=(REPLAY,))[1]["env_steps"])
