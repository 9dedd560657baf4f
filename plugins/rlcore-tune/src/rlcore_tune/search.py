"""The driver of a search: one session of Ray Tune over the trials that are not over yet, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ray import tune

from rlcore.checkpoint import load_manifest
from rlcore.envs import build_env
from rlcore.results import RunFolder, is_run_folder
from rlcore.runtime.sending import program
from rlcore.trust import check_trust
from rlcore_tune.config import SearchConfig
from rlcore_tune.folder import SearchFolder
from rlcore_tune.records import Report, Status, TrialLog, TrialRecord
from rlcore_tune.schedulers import PBT
from rlcore_tune.session import connected, tune_settings
from rlcore_tune.trial_actor import TrialActor, TrialPlan
from rlcore_tune.trial_queue import Queued, TrialQueue, bundles, check_room
from rlcore_tune.trials import TrialSpec, draw_trials, named_code, settings_in, trial_specs
from rlcore_tune.tune_schedulers import explored_keys, make_scheduler
from rlcore_tune.watch import Watch


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
        made._check_environment()
        SearchFolder.create(path, search)
        return made

    def _check_environment(self) -> None:
        """That it can be made is found out once, and not by every trial."""
        config = self._specs[0].run(self._drawn[0]).config
        build_env(config.env, 1, config.env_settings).close()

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
            with connected(self.search.resources):
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
        with tune_settings(len(queued)):
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
                callbacks=[Watch(log, said, search.metric)],
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
