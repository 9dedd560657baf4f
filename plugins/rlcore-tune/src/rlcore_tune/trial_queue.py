"""The trials of one session, handed to Ray Tune as it asks for them, with what each needs of the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.tune import PlacementGroupFactory
from ray.tune.experiment import Experiment, Trial
from ray.tune.search import SearchAlgorithm

from rlcore.errors import ConfigError
from rlcore.resolve import Resolved
from rlcore_tune.trials import has_workers
from rlcore_tune.tune_schedulers import trial_id


@dataclass(frozen=True)
class Queued:
    """A trial that is to be run: its number, its settings as they are now, and its bundles of resources."""

    index: int
    settings: Mapping[str, Any]
    bundles: Sequence[Mapping[str, float]]


class TrialQueue(SearchAlgorithm):
    """Gives the trials in their order; what they are was drawn before."""

    def __init__(self, trials: Sequence[Queued], max_losses: int) -> None:
        self._left = list(trials)
        self._count = len(trials)
        self._max_losses = max_losses

    @property
    def total_samples(self) -> int:
        return self._count

    def add_configurations(self, experiments: Any) -> None:
        self._experiment: Experiment = experiments[0]

    def next_trial(self) -> Trial | None:
        if not self._left:
            self.set_finished()  # type: ignore[no-untyped-call]
            return None
        queued, experiment = self._left.pop(0), self._experiment
        return Trial(
            experiment.run_identifier,
            config=dict(queued.settings),
            trial_id=trial_id(queued.index),
            experiment_tag=trial_id(queued.index),
            storage=experiment.storage,
            placement_group_factory=PlacementGroupFactory([dict(bundle) for bundle in queued.bundles]),
            checkpoint_config=experiment.checkpoint_config,
            trial_dirname_creator=_directory,
            max_failures=self._max_losses,
        )


def _directory(trial: Trial) -> str:
    return str(trial.trial_id)


def bundles(run: Resolved, trial_cpus: float) -> list[dict[str, float]]:
    """What a trial needs: the trainer's share first, then one for each of its evaluators."""
    config = run.config
    trainer = {"GPU": float(config.resources.learner_gpus)}
    own = config.evaluators
    evaluator = {"CPU": own.cpus, "GPU": own.gpus, **own.custom}
    count = own.count if has_workers(run) else 0
    if not count or not any(evaluator.values()):
        trainer["CPU"] = trial_cpus
        count = 0
    return [_needed(trainer), *[_needed(evaluator)] * count]


def _needed(resources: Mapping[str, float]) -> dict[str, float]:
    return {name: amount for name, amount in resources.items() if amount}


def check_room(trials: Sequence[Queued]) -> None:
    """``ConfigError`` where the cluster, were it empty, had no room for a trial."""
    have = ray.cluster_resources()
    for trial in trials:
        needed: dict[str, float] = {}
        for bundle in trial.bundles:
            for name, amount in bundle.items():
                needed[name] = needed.get(name, 0.0) + amount
        for name, amount in needed.items():
            if have.get(name, 0.0) < amount - 1e-9:
                key = "resources.trial_cpus" if name == "CPU" else "config.evaluators"
                raise ConfigError(
                    f"{key}: trial {trial.index} needs {amount:g} {name}, the cluster has {have.get(name, 0.0):g}"
                )
