"""A ladder: the versions of a run against players of known strength, and against each other."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlcore.errors import UserError
from rlcore.model import BatchedModel
from rlcore.saved_policies import SavedPolicy, read_policies
from rlcore.tree_search.matches import compare
from rlcore.tree_search.players import Player, RandomPlayer, network_search_player, playout_player
from rlcore.tree_search.settings import SearchConfig


@dataclass(frozen=True)
class LadderConfig:
    """``openings`` random ones of up to ``opening_moves`` moves are played from every place; ``mcts`` are the
    simulations of plain Monte Carlo tree search, ``simulations`` those of the run's own versions (null: its own)."""

    mcts: tuple[int, ...] = (100, 400, 1600)
    openings: int = 20
    opening_moves: int = 2
    simulations: int | None = None
    seed: int = 0


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
class Version:
    """A checkpoint of a run as a player."""

    iteration: int
    env_steps: int
    player: Player


def climb(run: Path | str, config: LadderConfig, trust: bool = False) -> Iterator[Rung]:
    """The rungs of all checkpoints of a run, the first version first: against a random player, plain searches, and
    every earlier version. ``UserError`` for a run of no policy that searches."""
    model, versions = versions_of(run, config.simulations, trust)
    opponents: dict[str, Player] = {"random": RandomPlayer(model)}
    opponents |= {f"mcts-{count}": playout_player(model, count) for count in config.mcts}
    for version in versions:
        for name, opponent in opponents.items():
            # The same openings for every version.
            rng = np.random.default_rng(config.seed)
            score, _ = compare(model, version.player, opponent, config.openings, config.opening_moves, rng)
            yield Rung(version.iteration, version.env_steps, name, *score, score.rate)
        opponents[f"version-{version.iteration}"] = version.player


def versions_of(
    run: Path | str, simulations: int | None, trust: bool = False
) -> tuple[BatchedModel, list[Version]]:
    """The rules of a run's game, and its checkpoints as players that do not explore, the first one first."""
    folder = Path(run) / "checkpoints"
    numbers = sorted(int(path.name) for path in folder.glob("*") if path.name.isdigit())
    saved = [_only(read_policies(folder / str(number)), run) for number in numbers]
    model = saved[0].run.rules(trust) if saved and saved[0].run is not None else None
    if model is None:
        raise UserError(f"{run}: no checkpoint of a run whose environment has rules to play by")
    versions = []
    for number, one in zip(numbers, saved, strict=True):
        policy = one.build(None, trust)
        search = getattr(policy, "search", None)
        if not isinstance(search, SearchConfig):
            raise UserError(f"{run}: its policy does not plan")
        if simulations is not None:
            search = search.model_copy(update={"simulations": simulations})
        player = network_search_player(model, functools.partial(policy.call, "network"), search)
        versions.append(Version(number, _env_steps(folder / str(number)), player))
    return model, versions


def _only(saved: dict[str, SavedPolicy], run: Path | str) -> SavedPolicy:
    if len(saved) != 1:
        raise UserError(f"{run}: a ladder is for runs of one policy, this one has {', '.join(sorted(saved))}")
    return next(iter(saved.values()))


def _env_steps(checkpoint: Path) -> int:
    from rlcore.checkpoint import load_tree
    from rlcore.replay_memory import REPLAY

    return int(load_tree(checkpoint, leave_out=(REPLAY,))[1]["env_steps"])


def table(rungs: Sequence[Rung]) -> str:
    """A line a version and a column an opponent: points in percent, and wins, draws and losses."""
    versions = list(dict.fromkeys((rung.iteration, rung.env_steps) for rung in rungs))
    opponents = list(dict.fromkeys(rung.opponent for rung in rungs))
    found = {(rung.iteration, rung.opponent): rung for rung in rungs}
    lines = [["iteration", "env steps", *opponents]]
    for iteration, env_steps in versions:
        cells = [_cell(found.get((iteration, opponent))) for opponent in opponents]
        lines.append([str(iteration), str(env_steps), *cells])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def _cell(rung: Rung | None) -> str:
    return "" if rung is None else f"{100 * rung.rate:.0f}% {rung.wins}/{rung.draws}/{rung.losses}"


def trees(rungs: Sequence[Rung]) -> list[dict[str, Any]]:
    """As JSON has them."""
    return [asdict(rung) for rung in rungs]


def draw(rungs: Sequence[Rung], path: Path) -> Path:
    """A picture: the share of the points against every player of known strength, over environment steps. ``UserError``
    where matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        hint = "pip install matplotlib"
        raise UserError(f"drawing needs matplotlib, which cannot be imported ({error}): {hint}") from error
    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for opponent in dict.fromkeys(rung.opponent for rung in rungs if not rung.opponent.startswith("version-")):
        own = [rung for rung in rungs if rung.opponent == opponent]
        axes.plot([rung.env_steps for rung in own], [100 * rung.rate for rung in own], marker="o", label=opponent)
    axes.axhline(50.0, color="grey", linewidth=0.8)
    axes.set(xlabel="environment steps", ylabel="points in percent", ylim=(-3, 103))
    axes.legend(title="against")
    figure.savefig(path)
    return path
