"""Ray Tune's schedulers, made from the settings of a search, and told of what an earlier session of it has seen.

Tune itself forgets the state of a scheduler with the process; here it is found again from the reports of the trials.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from ray.tune.experiment import Trial
from ray.tune.schedulers import (
    AsyncHyperBandScheduler,
    FIFOScheduler,
    HyperBandScheduler,
    PopulationBasedTraining,
    TrialScheduler,
)

from rlcore.errors import ConfigError
from rlcore_tune.config import SearchConfig
from rlcore_tune.records import Status, TrialRecord
from rlcore_tune.schedulers import ASHA, PBT, HyperBand
from rlcore_tune.spaces import Distribution, explore
from rlcore_tune.trial_actor import TIME, VALUE
from rlcore_tune.trials import Purpose, stream

#: What a policy's state is the state of: whoever takes it over has to have the same.
ARCHITECTURE = ("model", "filter", "reward_filter", "framework", "optimizer.name", "algorithm")


def trial_id(index: int) -> str:
    """What Tune calls a trial."""
    return f"{index:05d}"


def make_scheduler(search: SearchConfig, trials: Sequence[TrialRecord]) -> TrialScheduler:
    """The scheduler of ``search``, which knows the reports of ``trials``."""
    settings = search.scheduler
    every = settings.report_env_steps
    if isinstance(settings, ASHA):
        return _asha(settings, search.mode, trials)
    if isinstance(settings, HyperBand):
        return OrderedHyperBand(settings, search.mode, len(trials))
    if isinstance(settings, PBT):
        return Population(settings, search, max(record.env_steps // every for record in trials), _copies(trials))
    return FIFOScheduler()


# -- asynchronous successive halving


class _StandIn:
    """What a scheduler sees of a trial of an earlier session."""

    def __init__(self, index: int) -> None:
        self.trial_id = trial_id(index)


def _asha(settings: ASHA, mode: str, trials: Iterable[TrialRecord]) -> TrialScheduler:
    every = settings.min_env_steps
    scheduler: Any = AsyncHyperBandScheduler(
        time_attr=TIME,
        metric=VALUE,
        mode=mode,
        grace_period=1,
        max_t=-(-settings.max_env_steps // every),
        reduction_factor=settings.reduction_factor,
    )
    # A rung holds each trial's first report that is old enough, in whatever order they come.
    for record in trials:
        stand_in = _StandIn(record.index)
        scheduler.on_trial_add(None, stand_in)
        for report in record.reports:
            if report.value is not None:
                scheduler.on_trial_result(None, stand_in, {TIME: report.env_steps // every, VALUE: report.value})
    made: TrialScheduler = scheduler
    return made


# -- HyperBand


class OrderedHyperBand(HyperBandScheduler):
    """HyperBand in which the number of a trial decides its bracket, so that it is the same in every session."""

    def __init__(self, settings: HyperBand, mode: str, trials: int) -> None:
        super().__init__(
            time_attr=TIME,
            metric=VALUE,
            mode=mode,
            max_t=-(-settings.max_env_steps // settings.min_env_steps),
            reduction_factor=settings.reduction_factor,
        )
        stand_ins = [_StandIn(index) for index in range(trials)]
        add: Any = super().on_trial_add
        for stand_in in stand_ins:
            add(None, stand_in)
        self._places: dict[str, Any] = {one.trial_id: self._trial_info.pop(one) for one in stand_ins}
        for stand_in in stand_ins:
            bracket, _ = self._places[stand_in.trial_id]
            bracket.cleanup_trial(stand_in)
            bracket._all_trials.remove(stand_in)

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        bracket, _ = self._trial_info[trial] = self._places[trial.trial_id]
        # None: nothing is known of it yet. One that was run before reports again after its next steps.
        bracket._live_trials[trial] = None
        bracket._all_trials.append(trial)


# -- population based training


class Population(PopulationBasedTraining):
    """Population based training in rounds: all trials train for as long, then the worst take over from the best.

    Which ones and with which settings follows from the seed of the search and the scores, and not from timing.
    """

    def __init__(self, settings: PBT, search: SearchConfig, rounds: int, copies: int) -> None:
        explored = explored_keys(search)
        self._settings, self._seed, self._copies_before = settings, search.seed, copies
        super().__init__(
            time_attr=TIME,
            metric=VALUE,
            mode=search.mode,
            perturbation_interval=1,
            burn_in_period=-(-settings.burn_in_env_steps // settings.every_env_steps),
            quantile_fraction=settings.quantile,
            custom_explore_fn=self._explorer(explored),
            log_config=False,
            synch=True,
        )
        #: Rounds that an earlier session has seen: whoever was behind catches up before there is another one.
        self._rounds = rounds
        self._next_perturbation_sync = max(rounds + 1, self._next_perturbation_sync)

    def _explorer(self, space: Mapping[str, Distribution]) -> Callable[[dict[str, Any]], dict[str, Any]]:
        def near(config: dict[str, Any]) -> dict[str, Any]:
            rng = np.random.default_rng(stream(self._seed, Purpose.COPY, self._copies_before))
            self._copies_before += 1
            return explore(config, space, self._settings.resample_probability, self._settings.factors, rng)

        return near

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        super().on_trial_add(tune_controller, trial)
        self._trial_state[trial].last_perturbation_time = self._rounds

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        for other in tune_controller.get_trials():
            if other.is_finished():
                # Nobody waits for one that is over, or has failed.
                self._trial_state[other].last_train_time = int(self._next_perturbation_sync)
        # Tune chooses whom to copy with the generator of the module, which is anybody's.
        before = random.getstate()
        random.seed(int(stream(self._seed, Purpose.COPY, self._copies_before).generate_state(1)[0]))
        try:
            decision: str = super().on_trial_result(tune_controller, trial, result)
        finally:
            random.setstate(before)
        return decision

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        chosen = super().choose_trial_to_run(tune_controller)
        trials = tune_controller.get_trials()
        waiting = any(trial.status == Trial.PAUSED for trial in trials)
        if chosen is None and waiting and all(trial.status == Trial.PAUSED or trial.is_finished() for trial in trials):
            # The one that the others were waiting for is over: they go on without a round.
            self._next_perturbation_sync += 1
            chosen = super().choose_trial_to_run(tune_controller)
        return chosen


def explored_keys(search: SearchConfig) -> dict[str, Distribution]:
    """The part of the space that changes when a trial takes over from another. ``ConfigError`` where nothing does."""
    explored = {key: one for key, one in search.space.items() if not _is_architecture(key)}
    if not explored:
        raise ConfigError(
            f"scheduler: pbt has nothing to change: {', '.join(search.space)} cannot differ from what is taken over"
        )
    return explored


def _is_architecture(key: str) -> bool:
    parts = key.split(".")
    # Those of several policies stand one level below.
    own = ".".join(parts[2:]) if parts[0] == "policies" else key
    return own in (*ARCHITECTURE, "graph") or own.partition(".")[0] in ARCHITECTURE


def _copies(trials: Iterable[TrialRecord]) -> int:
    return sum(len(record.copies()) for record in trials if record.status is not Status.WAITING)
