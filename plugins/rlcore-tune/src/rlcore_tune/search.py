"""The driver of a search: one session of Ray Tune over the trials that are not over yet, and what it comes to."""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from ray import tune
from ray.tune.experiment import Trial

from rlcore.checkpoint import load_manifest
from rlcore.errors import ConfigError
from rlcore.results import RunFolder, is_run_folder
from rlcore.runtime.ray import session
from rlcore.runtime.ray.session import RayConfig
from rlcore.runtime.sending import program
from rlcore.trust import check_trust
from rlcore_tune.config import SearchConfig
from rlcore_tune.folder import SearchFolder
from rlcore_tune.records import Report, Status, TrialLog, TrialRecord
from rlcore_tune.schedulers import PBT
from rlcore_tune.trial_actor import VALUE, TrialActor, TrialPlan
from rlcore_tune.trial_queue import Queued, TrialQueue, bundles, check_room
from rlcore_tune.trials import TrialSpec, draw_trials, named_code, settings_in, trial_specs
from rlcore_tune.tune_schedulers import explored_keys, make_scheduler


@dataclass(frozen=True)
class SearchResult:
    """What a search has come to. ``interrupted``: trials are left that may go on."""

    search: SearchConfig
    trials: list[TrialRecord]
    interrupted: bool

    @property
    def sign(self) -> float:
        """1 where more of the metric is better, else -1."""
        return 1.0 if self.search.mode == "max" else -1.0

    def ranked(self) -> list[TrialRecord]:
        """The trials, those with the best last value first, those without one last."""

        def rank(record: TrialRecord) -> tuple[bool, bool, float]:
            value = record.value
            return value is None, record.status is Status.FAILED, -self.sign * (value if value is not None else 0.0)

        return sorted(self.trials, key=rank)

    def best(self) -> TrialRecord | None:
        """The trial with the best last value; None where none has one."""
        ranked = [record for record in self.ranked() if record.value is not None and record.status is not Status.FAILED]
        return ranked[0] if ranked else None


class Search:
    """A search in a folder: new, or one that goes on.

    ::

        search = Search.create(read_search("search.yaml"), "searches/ppo")
        result = search.run()                           # or Search.open("searches/ppo").run(), after a kill

    Trials that are over are not run again; the others go on from their last checkpoints. Raises ``UserError`` for
    whatever is wrong with the search, before anything is written.
    """

    def __init__(self, search: SearchConfig, folder: SearchFolder) -> None:
        self.search = search
        self.folder = folder
        self._drawn = draw_trials(search)
        self._specs = trial_specs(search, self._drawn)
        if isinstance(search.scheduler, PBT):
            explored_keys(search)

    @classmethod
    def create(cls, search: SearchConfig, path: Path | str) -> Search:
        """A new search, whose folder must not exist or be empty."""
        made = cls(search, SearchFolder(path))
        SearchFolder.create(path, search)
        return made

    @classmethod
    def open(cls, path: Path | str, trust: bool = False) -> Search:
        """A search that goes on. ``trust`` allows the import paths in its folder to be imported."""
        folder = SearchFolder(path)
        search = folder.search()
        check_trust(f"search {path}", named_code(search), trust)
        return cls(search, folder)

    def run(self, said: Callable[[str], None] = lambda line: None) -> SearchResult:
        """Runs all trials that are not over, and returns what has become of them; ``said`` is given lines on the way.

        Ctrl-C ends it at the next safe point, with checkpoints; a second one at once.
        """
        log = TrialLog(self.folder.events, self._drawn)
        for record in log.trials:
            self._catch_up(log, record)
        left = [record for record in log.trials if not record.status.over]
        for record in log.trials:
            if record.status is not Status.WAITING:
                said(f"trial {record.index}: {record.status} after {record.env_steps} environment steps")
        if left:
            with _connected(self.search):
                self._run_session(log, [self._queued(record) for record in left], said)
        interrupted = any(not record.status.over for record in log.trials)
        return SearchResult(self.search, log.trials, interrupted)

    def _run_session(self, log: TrialLog, queued: list[Queued], said: Callable[[str], None]) -> None:
        check_room(queued)
        search = self.search
        plan = TrialPlan(
            program=program(),
            specs=tuple(self._specs),
            folders=tuple(str(self.folder.trial(spec.index)) for spec in self._specs),
            metric=search.metric,
            report_env_steps=search.scheduler.report_env_steps,
            hands_over=isinstance(search.scheduler, PBT),
        )
        working = self.folder.working()
        with _tune_settings(len(queued)):
            tune.run(
                tune.with_parameters(TrialActor, plan=plan),
                name="session",
                storage_path=str(working),
                search_alg=TrialQueue(queued, search.max_losses),
                scheduler=make_scheduler(search, log.trials),
                # Of several, so that one is there for as long as another trial may want it.
                checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1, num_to_keep=4),
                # Trials that pause after every report close theirs, so that others may have it.
                reuse_actors=plan.hands_over,
                callbacks=[_Watch(log, said, search.metric)],
                raise_on_failed_trial=False,
                verbose=0,
            )
        self.folder.clear()

    def _queued(self, record: TrialRecord) -> Queued:
        spec: TrialSpec = self._specs[record.index]
        run = spec.run(record.settings)
        return Queued(record.index, record.settings, bundles(run, self.search.resources.trial_cpus))

    def _catch_up(self, log: TrialLog, record: TrialRecord) -> None:
        """What the run folder of a trial knows and a killed driver had not written down yet."""
        folder = self.folder.trial(record.index)
        if record.status.over or not is_run_folder(folder):
            return
        run = RunFolder.open(folder)
        latest = run.checkpoints().latest()
        if latest is None:
            return
        settings = settings_in(load_manifest(latest)["config"], tuple(self.search.space))
        result = run.result()
        if result is not None and result["status"] == "stopped":
            values = [row[self.search.metric] for row in run.rows() if row.get(self.search.metric) is not None]
            value = values[-1] if values else None
            log.reported(record.index, Report(result["env_steps"], value, settings))
            log.over(record.index, Status.FINISHED, result["stop_reason"])
        else:
            record.settings = settings


class _Watch(tune.Callback):
    """Writes down what Tune tells of the trials."""

    def __init__(self, log: TrialLog, said: Callable[[str], None], metric: str) -> None:
        self._log = log
        self._said = said
        self._metric = metric

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        index, value = int(trial.trial_id), result[VALUE]
        if result["failure"] is not None:
            return
        keys = ("env_steps", "settings", "copied_from", "copied_at")
        report = Report(value=value if value == value else None, **{key: result[key] for key in keys})
        self._log.reported(index, report)
        copied = f"  from trial {report.copied_from}" if report.copied_from is not None else ""
        self._said(f"trial {index}  env_steps {report.env_steps}  {self._metric} {shown_value(value)}{copied}")

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        index, last = int(trial.trial_id), trial.last_result
        if last.get("failure") is not None:
            self._over(index, Status.FAILED, last["failure"])
        elif last.get("reason") is not None:
            self._over(index, Status.FINISHED, last["reason"])
        else:
            self._over(index, Status.STOPPED, None)

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        index = int(trial.trial_id)
        self._log.lost(index, _reason(trial))
        self._said(f"trial {index} was lost and is replaced: {_reason(trial)}")

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._over(int(trial.trial_id), Status.FAILED, _reason(trial))

    def _over(self, index: int, status: Status, reason: str | None) -> None:
        self._log.over(index, status, reason)
        self._said(f"trial {index} {status}" + (f": {reason}" if reason else ""))


def shown_value(value: float | None) -> str:
    """``"-182.4"``; ``"-"`` where there is none."""
    return "-" if value is None or value != value else f"{value:.4g}"


def _reason(trial: Trial) -> str:
    error = trial.get_pickled_error() or trial.get_error()
    return " ".join(f"{type(error).__name__}: {error}".split())[:300] if error is not None else "its process died"


# -- Ray and its Tune


@contextmanager
def _connected(search: SearchConfig) -> Iterator[None]:
    """A Ray for the search, or a connection to the one that it names."""
    resources = search.resources
    with _environment({"RAY_CHDIR_TO_TRIAL_DIR": "0"}):
        try:
            connection = session.enter(RayConfig(address=resources.address, cpus=resources.cpus))
        except ConfigError as error:
            raise ConfigError(str(error).replace("runtime.address", "resources.address")) from error
    try:
        yield
    finally:
        connection.leave()


@contextmanager
def _tune_settings(trials: int) -> Iterator[None]:
    """What Tune takes from the environment: all trials at once, no files and no words of its own."""
    variables = {
        "TUNE_MAX_PENDING_TRIALS_PG": str(trials),
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
        "TUNE_GLOBAL_CHECKPOINT_S": "1000000",
        "TUNE_WARN_THRESHOLD_S": "60",
        "RAY_AIR_NEW_OUTPUT": "0",
    }
    logger = logging.getLogger("ray.tune")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with _environment(variables), _terminated_as_interrupted(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"ray\.")
            yield
    finally:
        logger.setLevel(level)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends a search as Ctrl-C does, as it does a training; Tune's own handler is gone afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
