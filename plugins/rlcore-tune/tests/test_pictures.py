"""Pictures and tables of searches whose trials are made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from rlcore_tune.config import parse_search
from rlcore_tune.pictures import draw, draw_schedule, draw_trials, setting_steps
from rlcore_tune.records import Report, Status, TrialRecord
from rlcore_tune.report import header, rows, summary, table
from rlcore_tune.search import SearchResult

RATE = "policy.learning_rate"


def made_up(mode: str = "max") -> SearchResult:
    search = parse_search(
        {
            "algorithm": "pg",
            "env": "CartPole-v1",
            "config": {"stop": {"env_steps": 30}},
            "space": {RATE: {"log_uniform": [1e-3, 1.0]}, "model.activation": {"choice": ["relu", "tanh"]}},
            "scheduler": {"name": "pbt", "every_env_steps": 10},
            "trials": 4,
            "mode": mode,
        }
    )

    def report(steps: int, value: float | None, rate: float, **copied: int) -> Report:
        return Report(steps, value, {RATE: rate, "model.activation": "relu"}, **copied)

    kept = {RATE: 0.01, "model.activation": "relu"}
    copied = {"copied_from": 0, "copied_at": 10}
    trials = [
        TrialRecord(0, kept, [report(10, 1.0, 0.01), report(20, 5.0, 0.01), report(30, 4.0, 0.01)], Status.FINISHED),
        TrialRecord(1, {**kept, RATE: 0.0125}, [report(10, 0.5, 0.5), report(20, 7.0, 0.0125, **copied)]),
        TrialRecord(2, kept, [report(10, None, 0.01)], Status.FAILED, "EnvError: it fell"),
        TrialRecord(3, kept),
    ]
    trials[1].status, trials[1].losses = Status.STOPPED, 2
    return SearchResult(search, trials, interrupted=False)


def test_the_table_has_the_best_first_and_says_what_became_of_each() -> None:
    result = made_up()
    assert header(result) == [
        "trial", "status", "env_steps", "episode_return_mean", "best", "learning_rate", "activation", "notes",
    ]  # fmt: skip
    assert rows(result) == [
        ["1", "stopped early", "20", "7", "7", "0.0125", "relu", "took over from 0; lost 2 times"],
        ["0", "finished", "30", "4", "5", "0.01", "relu", ""],
        ["3", "waiting", "0", "-", "-", "0.01", "relu", ""],
        ["2", "failed", "10", "-", "-", "0.01", "relu", "EnvError: it fell"],
    ]
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table(result))
    assert "took over from 0" in console.export_text()


def test_less_is_better_where_the_search_says_so() -> None:
    assert [row[0] for row in rows(made_up("min"))][:2] == ["0", "1"]
    assert rows(made_up("min"))[0][4] == "1"


def test_the_summary_names_the_best_and_its_schedule() -> None:
    found = summary(made_up(), "folder")
    assert found["statuses"] == {"finished": 1, "stopped early": 1, "failed": 1, "waiting": 1}
    assert (found["best_trial"], found["best_value"]) == (1, 7.0)
    schedule = [(each["env_steps"], each["trial"], each["settings"][RATE]) for each in found["best_schedule"]]
    assert schedule == [(0, 0, 0.01), (10, 1, 0.0125)]


def test_settings_over_the_steps_change_where_a_trial_took_over() -> None:
    assert setting_steps(made_up().trials[1], RATE) == ([0, 10, 20], [0.5, 0.0125, 0.0125])
    assert setting_steps(made_up().trials[3], RATE) == ([0, 0], [0.01, 0.01])


def test_pictures(tmp_path: Path) -> None:
    result = made_up()
    assert [path.name for path in draw(result, tmp_path)] == ["trials.png", "schedule.png"]
    (axes,) = draw_trials(result).axes
    # Two trials with values; each with its mark, and one with a ring where it took over.
    assert [len(line.get_xdata()) for line in axes.lines] == [3, 1, 2, 1, 1]  # type: ignore[arg-type]
    assert axes.lines[3].get_marker() == "x"
    figure: Any = draw_schedule(result)
    # What is no number cannot be drawn.
    assert [each.get_ylabel() for each in figure.axes] == ["episode_return_mean", "learning_rate"]
    assert figure.axes[1].get_yscale() == "log"
