"""What is written down of the trials, and what a killed search finds of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlcore.errors import RunFolderError
from rlcore_tune.records import Report, Status, Stretch, TrialLog, ancestry

DRAWN = [{"x": 1}, {"x": 2}]


def test_events_read_as_they_were_written(tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "log", DRAWN)
    log.reported(0, Report(10, None, {"x": 1}))
    log.reported(0, Report(20, 3.5, {"x": 1}))
    log.reported(0, Report(30, 2.5, {"x": 7}, copied_from=1, copied_at=20))
    log.lost(0, "killed")
    log.over(0, Status.STOPPED, None)
    for trials in (log.trials, TrialLog(tmp_path / "log", DRAWN).trials):
        first, second = trials
        assert (first.env_steps, first.value, first.best(1.0), first.best(-1.0)) == (30, 2.5, 3.5, 2.5)
        assert (first.status, first.settings, first.losses) == (Status.STOPPED, {"x": 7}, 1)
        assert [report.copied_from for report in first.copies()] == [1]
        assert (second.status, second.value, second.settings) == (Status.WAITING, None, {"x": 2})


def test_what_a_trial_repeats_after_a_loss_counts_once(tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "log", DRAWN)
    for env_steps, value in ((10, 1.0), (20, 2.0), (30, 3.0), (20, 2.5)):
        log.reported(1, Report(env_steps, value, {"x": 2}))
    assert [(report.env_steps, report.value) for report in log.trials[1].reports] == [(10, 1.0), (20, 2.5)]


def test_a_line_that_was_cut_short_is_forgotten(tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "log", DRAWN)
    log.reported(0, Report(10, 1.0, {"x": 1}))
    whole = log.path.read_bytes()
    log.path.write_bytes(whole + b'{"trial": 0, "ev')
    again = TrialLog(tmp_path / "log", DRAWN)
    assert again.trials[0].env_steps == 10
    again.reported(0, Report(20, 1.0, {"x": 1}))
    assert TrialLog(tmp_path / "log", DRAWN).trials[0].env_steps == 20


def test_the_schedule_that_led_to_a_trial_goes_through_those_that_it_took_over_from(tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "log", [{"x": 1}, {"x": 2}, {"x": 3}])
    for trial, x in ((0, 1), (1, 2), (2, 3)):
        log.reported(trial, Report(10, 1.0, {"x": x}))
    # 1 takes over from 2 after 10 steps, 0 from 1 after 20, and 1 from 2 again, which comes too late for 0.
    log.reported(1, Report(20, 1.0, {"x": 4}, copied_from=2, copied_at=10))
    log.reported(2, Report(20, 1.0, {"x": 3}))
    log.reported(0, Report(20, 1.0, {"x": 1}))
    log.reported(0, Report(30, 1.0, {"x": 5}, copied_from=1, copied_at=20))
    log.reported(1, Report(30, 1.0, {"x": 6}, copied_from=2, copied_at=20))
    log.reported(0, Report(40, 1.0, {"x": 5}))
    assert ancestry(log.trials, log.trials[0]) == [
        Stretch(2, 0, 10, {"x": 3}),
        Stretch(1, 10, 20, {"x": 4}),
        Stretch(0, 20, 40, {"x": 5}),
    ]
    assert ancestry(log.trials, log.trials[2]) == [Stretch(2, 0, 20, {"x": 3})]


@pytest.mark.parametrize("line", ["no JSON", '{"trial": 5, "event": "lost"}', "{}"])
def test_other_damage_is_said(line: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(f"{line}\n")
    with pytest.raises(RunFolderError, match="log is damaged"):
        TrialLog(tmp_path / "log", DRAWN)
