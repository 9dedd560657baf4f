"""What a search has come to, for people: a table of the trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from rlcore_tune.records import TrialRecord, ancestry
from rlcore_tune.search import SearchResult
from rlcore_tune.watch import shown_value


def table(result: SearchResult) -> Table:
    """The trials, the best one first, with their settings as they were last."""
    made = Table(box=None, pad_edge=False)
    for column in header(result):
        made.add_column(column, overflow="fold")
    for row in rows(result):
        # Text, because a value may hold what rich takes for markup.
        made.add_row(*(Text(cell) for cell in row))
    return made


def header(result: SearchResult) -> list[str]:
    """The titles of the columns."""
    return ["trial", "status", "env_steps", result.search.metric, "best", *map(last_part, result.search.space), "notes"]


def rows(result: SearchResult) -> list[list[str]]:
    """The cells of the table."""
    return [_row(record, result) for record in result.ranked()]


def _row(record: TrialRecord, result: SearchResult) -> list[str]:
    settings = [shown_setting(record.settings[key]) for key in result.search.space]
    values = shown_value(record.value), shown_value(record.best(result.sign))
    return [str(record.index), str(record.status), f"{record.env_steps:,}", *values, *settings, notes(record)]


def notes(record: TrialRecord) -> str:
    """Whom it has taken over from, how often its process was lost, and why it failed."""
    said = []
    copies = record.copies()
    if copies:
        said.append("took over from " + ", ".join(str(report.copied_from) for report in copies))
    if record.losses:
        said.append(f"lost {record.losses} time{'s' * (record.losses > 1)}")
    if record.reason:
        said.append(record.reason)
    return "; ".join(said)


def last_part(key: str) -> str:
    """``learning_rate`` of ``policy.learning_rate``."""
    return key.rpartition(".")[2]


def shown_setting(value: Any) -> str:
    """``"0.000312"`` for a number, else as it is."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def summary(result: SearchResult, folder: str) -> Mapping[str, Any]:
    """One flat object, but for the settings: the best trial and how many there are of each status."""
    best = result.best()
    counts = {str(record.status): 0 for record in result.trials}
    for record in result.trials:
        counts[str(record.status)] += 1
    return {
        "search_folder": folder,
        "status": "interrupted" if result.interrupted else "finished",
        "trials": len(result.trials),
        "statuses": counts,
        "metric": result.search.metric,
        "best_trial": best.index if best else None,
        "best_value": best.value if best else None,
        "best_settings": dict(best.settings) if best else None,
        # From which step on which settings, where it took over from others.
        "best_schedule": _schedule(result, best) if best and best.copies() else None,
    }


def _schedule(result: SearchResult, best: TrialRecord) -> list[dict[str, Any]]:
    stretches = ancestry(result.trials, best)
    return [{"env_steps": each.start, "trial": each.trial, "settings": dict(each.settings)} for each in stretches]
