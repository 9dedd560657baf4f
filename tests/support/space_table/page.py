"""The space table as a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from support.space_table.cells import TOLERANCE, Cell, Figures, Refused
from support.space_table.rows import ACTIONS, ALGORITHMS, MODELS, OBSERVATIONS, REFUSED, Algorithm


@dataclass(frozen=True)
class Fault:
    """A cell that raised, or in which something cannot be compared."""

    what: str


Result = Figures | Refused | Fault
Results = Mapping[Cell, Result]

#: The partners of the spaces in the first two tables.
SEEN, DONE = "Box", "nested"
#: In place of a number where there is nothing to compare.
NOTHING = "-"


def action_rows(algorithm: Algorithm) -> dict[str, Cell]:
    """Every action space, with the plainest observations."""
    return {name: Cell(algorithm, SEEN, name) for name in (*ACTIONS, *REFUSED)}


def observation_rows(algorithm: Algorithm) -> dict[str, Cell]:
    """Every observation space, with actions of every kind."""
    return {name: Cell(algorithm, name, DONE) for name in (*OBSERVATIONS, *REFUSED)}


def model_rows(algorithm: Algorithm) -> dict[str, Cell]:
    """Every model, in spaces of its own."""
    return {name: Cell(algorithm, model.observed, model.acted, model) for name, model in MODELS.items()}


def pairs(algorithm: Algorithm) -> list[Cell]:
    """Every observation space with every action space."""
    return [Cell(algorithm, seen, done) for done in ACTIONS for seen in OBSERVATIONS] if algorithm.every_pair else []


def all_cells() -> list[Cell]:
    """Each cell of the page once, in its order."""
    found = []
    for algorithm in ALGORITHMS:
        for rows in (action_rows, observation_rows, model_rows):
            found += list(rows(algorithm).values())
        found += pairs(algorithm)
    return [cell for i, cell in enumerate(found) if cell not in found[:i]]


@dataclass
class Notes:
    """The reasons for refusals, each numbered once."""

    reasons: list[str] = field(default_factory=list)

    def shown(self, result: Result) -> str:
        """What stands in a cell."""
        match result:
            case Refused(reason):
                if reason not in self.reasons:
                    self.reasons.append(reason)
                return f"refused: {self.reasons.index(reason) + 1}"
            case Fault(what):
                return f"**fault: {what}**"
        return number(result.largest) if result.good else f"**{number(result.largest)}**"


def number(value: float | None) -> str:
    """A deviation with one digit."""
    return NOTHING if value is None else "0" if value == 0.0 else f"{value:.0e}".replace("e-0", "e-")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def worst(results: Iterable[Result]) -> Result:
    """The first fault, the largest figures, or a refusal where there are no figures."""
    found = list(results)
    faults = [one for one in found if isinstance(one, Fault)]
    if faults:
        return faults[0]
    figures = [one for one in found if isinstance(one, Figures)]
    if not figures:
        return found[0]
    largest = figures[0]
    for one in figures[1:]:
        largest = largest.worst(one)
    return largest


def by_algorithm(results: Results) -> str:
    """The largest figures of each, over all of its cells."""
    rows = []
    for algorithm in ALGORITHMS:
        own = [result for cell, result in results.items() if cell.algorithm is algorithm]
        kinds = [str(sum(isinstance(one, kind) for one in own)) for kind in (Figures, Refused, Fault)]
        largest = worst([one for one in own if isinstance(one, Figures)] or [Figures()])
        figures = [number(getattr(largest, each.name)) for each in fields(Figures)]
        rows.append([f"`{algorithm.graph}`", *kinds, *figures])
    head = ["", "compared", "refused", "faults", "ratio", "ratio, graph acts", "actor", "values", "restored"]
    return table(head, rows)


def each_space(results: Results, notes: Notes, kind: str) -> str:
    """A row for each space, or model, and a column for each algorithm."""
    make = {"action": action_rows, "observation": observation_rows, "model": model_rows}[kind]
    columns = [make(algorithm) for algorithm in ALGORITHMS]
    head = [kind, *(f"`{algorithm.graph}`" for algorithm in ALGORITHMS)]
    return table(head, ([name, *(notes.shown(results[own[name]]) for own in columns)] for name in columns[0]))


def every_pair(results: Results, notes: Notes) -> str:
    """The worst of the algorithms that are tried in every pair of spaces."""
    tried = [algorithm for algorithm in ALGORITHMS if algorithm.every_pair]
    rows = [
        [done, *(notes.shown(worst(results[Cell(one, seen, done)] for one in tried)) for seen in OBSERVATIONS)]
        for done in ACTIONS
    ]
    return table(["action \\ observation", *OBSERVATIONS], rows)


def page(results: Results) -> str:
    """The whole page."""
    notes = Notes()
    pair_names = ", ".join(f"`{one.graph}`" for one in ALGORITHMS if one.every_pair)
    tables = [each_space(results, notes, kind) for kind in ("action", "observation", "model")]
    pair_table = every_pair(results, notes)
    reasons = "\n".join(f"{i}. {reason}" for i, reason in enumerate(notes.reasons, 1))
    return f"""# Space table

Which algorithm acts in and sees which [space](spaces.md), and how exactly. Written by `make space-table`, which runs
every cell: {len(results)} runs of two iterations of 32 rows in an environment of these spaces, in which everything is
drawn at random. The policy is trained, saved, restored and trained on, and acts from its checkpoint on raw
observations.

A cell shows the largest deviation that was found in its run, as a share of the number where that is above 1, of

- the ratio from 1: the probability that the graph gives an action of a fresh sample, over the one noted when it was
  acted, before the first update and with trained weights; once as the actor sampled it, and once where the graph
  acted itself, which has to give exactly 1;
- the actor from its graph: actions, log-probabilities and states, exploring and not, and values;
- the weights of a restored run from those of one that went on, after another iteration; they have to be equal.

All have to be {number(TOLERANCE)} at most; what is not stands in bold. What is left is rounding: actor and graph, and
calls with other numbers of rows, add up float32 numbers in other orders. Where a space or a model is refused, it is
when the run is built, for the reason of that number at the end of the page.

## By algorithm

The largest of each over all cells.

{by_algorithm(results)}

## Actions

Observations are a `{SEEN}`, beside the mask where there is one.

{tables[0]}

## Observations

The action is nested: Boxes, Discrete, MultiDiscrete and MultiBinary in a Dict of Tuples and Dicts.

{tables[1]}

## Models

{tables[2]}

## Every pair

The largest deviation over {pair_names}, but for those that refuse the action.

{pair_table}

## Reasons

{reasons}
"""
