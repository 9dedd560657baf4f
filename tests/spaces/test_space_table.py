"""Some cells of the space table, that its figures show what they are about, and the page as it was last written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.space_table.cells import TOLERANCE, Cell, Figures, Refused, run
from support.space_table.page import Fault, Notes, all_cells, number, page, worst
from support.space_table.rows import ACTIONS, ALGORITHMS, MODELS, OBSERVATIONS, REFUSED

from rlcore.policy_graph import ActOutput
from rlcore.testing import LinearPG

pytest.importorskip("rlcore_sync")

BY_GRAPH = {algorithm.graph: algorithm for algorithm in ALGORITHMS}
LINEAR = Cell(BY_GRAPH["numpy.pg"], "nested", "nested, masked by name")


def cell(graph: str, observed: str, acted: str) -> Cell:
    pytest.importorskip({"torch": "rlcore_torch", "tf": "rlcore_tf", "numpy": "rlcore"}[graph.partition(".")[0]])
    return Cell(BY_GRAPH[graph], observed, acted)


@pytest.mark.parametrize(
    ("graph", "observed", "acted"),
    [
        ("torch.pg", "Discrete", "Discrete with start"),
        ("torch.a3c", "image", "Box, asymmetric, squashed"),
        ("torch.ppo", "nested", "nested, masked by name"),
        ("torch.ppo", "Box", "Box, float16"),
        ("torch.ppo", "Dict", "MultiDiscrete, masked"),
        ("tf.pg", "Tuple", "Discrete, masked"),
        ("numpy.pg", "MultiDiscrete", "MultiDiscrete, 2-d"),
    ],
)
def test_a_cell(graph: str, observed: str, acted: str) -> None:
    figures = run(cell(graph, observed, acted))
    assert isinstance(figures, Figures)
    assert figures.ratio <= 1e-5 and figures.own == 0.0
    assert figures.acting <= 1e-5 and figures.restored == 0.0
    assert (figures.values is None) == graph.endswith("pg")
    assert figures.values is None or figures.values <= 1e-5


@pytest.mark.parametrize(
    ("graph", "observed", "acted", "reason"),
    [
        ("torch.ppo", "Text", "Discrete", "observation space Text.* cannot be seen: texts have no fixed number"),
        ("numpy.pg", "Box", "OneOf", "action space OneOf.* cannot be acted in: which of its spaces holds changes"),
        ("numpy.pg", "Dict with a Text", "Discrete", "observation 'name' Text.* cannot be seen"),
        ("numpy.pg", "Box", "Box, squashed", "policy.squash: unknown key"),
    ],
)
def test_a_refused_cell(graph: str, observed: str, acted: str, reason: str) -> None:
    result = run(cell(graph, observed, acted))
    assert isinstance(result, Refused)
    assert re.match(reason, result.reason)


def test_the_ratio_is_that_of_the_log_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    log_probs = LinearPG.log_probs
    monkeypatch.setattr(LinearPG, "log_probs", lambda self, batch: log_probs(self, batch) + np.float32(0.25))
    figures: Any = run(LINEAR)
    assert [figures.ratio, figures.own] == pytest.approx([np.e**0.25 - 1] * 2, rel=1e-4)
    assert figures.acting == figures.restored == 0.0 and not figures.good


def test_actors_that_do_something_else_show(monkeypatch: pytest.MonkeyPatch) -> None:
    act = LinearPG.act

    def other(self: Any, *args: Any, **settings: Any) -> ActOutput:
        return act(self, *args, **{**settings, "rng": np.random.default_rng(99)})

    monkeypatch.setattr(LinearPG, "act", other)
    figures: Any = run(LINEAR)
    assert figures.acting > 0.1 and figures.ratio <= TOLERANCE and figures.restored == 0.0


def test_what_is_not_restored_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    set_state = LinearPG.set_state

    def forgetful(self: Any, state: Any) -> None:
        own = self.get_state()
        set_state(self, {**own, "weights": state["weights"]})

    monkeypatch.setattr(LinearPG, "set_state", forgetful)
    figures: Any = run(LINEAR)
    assert figures.restored > 0.0 and not figures.good and figures.ratio <= TOLERANCE


def test_figures_on_the_page() -> None:
    good, bad = Figures(ratio=2e-6, values=3e-7), Figures(own=1e-7)
    notes = Notes()
    shown = [notes.shown(one) for one in (good, bad, Refused("no"), Refused("nor this"), Refused("no"), Fault("oh"))]
    assert shown == ["2e-6", "**1e-7**", "refused: 1", "refused: 2", "refused: 1", "**fault: oh**"]
    assert notes.reasons == ["no", "nor this"]
    assert good.worst(bad) == bad.worst(good) == Figures(ratio=2e-6, own=1e-7, values=3e-7)
    assert worst([Refused("no"), bad, good]) == bad.worst(good) and worst([good, Fault("oh")]) == Fault("oh")
    assert [number(value) for value in (None, 0.0, 1.6e-6, 2e-12, 0.5)] == ["-", "0", "2e-6", "2e-12", "5e-1"]


def test_the_page_has_every_cell_and_none_that_is_wrong() -> None:
    written = (Path(__file__).parents[2] / "docs" / "space-table.md").read_text()
    made = page(dict.fromkeys(all_cells(), Refused("nothing was run")))

    def first_columns(text: str) -> list[str]:
        return [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]

    assert first_columns(written) == first_columns(made), "run make space-table"
    assert {f"| {name}" for name in (*ACTIONS, *OBSERVATIONS, *REFUSED, *MODELS)} <= set(first_columns(written))
    assert "**" not in written, "a cell of the space table is wrong"
