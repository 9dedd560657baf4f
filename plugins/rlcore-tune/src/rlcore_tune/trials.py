"""What is tried: the settings and the seed of each trial, drawn from those of the search, and its run's config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from rlcore.envs import imports_module, settings_imports
from rlcore.errors import ConfigError
from rlcore.registry import is_import_path
from rlcore.resolve import Resolved, resolve
from rlcore_tune.config import SearchConfig
from rlcore_tune.spaces import Grid


class Purpose(IntEnum):
    """What a stream of a search's random numbers is for. Saved searches rely on the numbers."""

    DRAW = 0
    TRIAL = 1
    COPY = 2


def stream(seed: int, purpose: Purpose, *indexes: int) -> np.random.SeedSequence:
    """The seed of one user of a purpose in the search with ``seed``: the same in every process, unlike all others."""
    return np.random.SeedSequence(seed, spawn_key=(int(purpose), *indexes))


def trial_seed(search_seed: int, trial: int, env_steps: int = 0) -> int:
    """The seed of a trial's run; one that has taken over from another after ``env_steps`` goes on with a new one."""
    return int(stream(search_seed, Purpose.TRIAL, trial, env_steps).generate_state(1)[0])


def draw_trials(search: SearchConfig) -> list[dict[str, Any]]:
    """The settings of each trial, ``{dotted key: value}``: draw after draw, each with all points of the grid."""
    points = search.points()
    trials = []
    for number in range(search.trials):
        rng = np.random.default_rng(stream(search.seed, Purpose.DRAW, number))
        drawn = {key: one.draw(rng) for key, one in sorted(search.space.items()) if not isinstance(one, Grid)}
        for point in points:
            together = drawn | point
            trials.append({key: together[key] for key in search.space})
    return trials


@dataclass(frozen=True)
class TrialSpec:
    """What makes the run of one trial, apart from its settings; travels to its process."""

    index: int
    #: The search as YAML holds it: the algorithm, the environment, and what all trials have in common.
    common: Mapping[str, Any]
    search_seed: int
    last_env_steps: int | None
    #: CPUs of each of its evaluators where the config does not say.
    evaluator_cpus: float | None = None

    def seed(self, copied_at: int = 0) -> int:
        """That of its run; of one that has taken over from another after ``copied_at`` environment steps."""
        return trial_seed(self.search_seed, self.index, copied_at)

    def run(self, settings: Mapping[str, Any], copied_at: int = 0) -> Resolved:
        """The config of the trial's run with ``settings``. ``ConfigError`` for what a run cannot have."""
        overrides = dict(settings) | {"seed": self.seed(copied_at)}
        if self.last_env_steps is not None:
            overrides["stop.env_steps"] = min(self.last_env_steps, _asked_steps(self.common))
        if self.evaluator_cpus is not None:
            overrides["evaluators.cpus"] = self.evaluator_cpus
        return resolve(self.common, overrides=overrides, source="search", overrides_source="trial")


def _asked_steps(common: Mapping[str, Any]) -> float:
    steps: float = (common.get("stop") or {}).get("env_steps", float("inf"))
    return steps


def common_settings(search: SearchConfig) -> dict[str, Any]:
    """The config that all trials of ``search`` begin with."""
    return {"algorithm": search.algorithm, "env": search.env, **search.config}


def trial_specs(search: SearchConfig, trials: list[dict[str, Any]]) -> list[TrialSpec]:
    """One for each trial, checked with its settings. ``ConfigError`` names the key of the space, or of ``config``."""
    common, specs = common_settings(search), []
    for index, settings in enumerate(trials):
        spec = TrialSpec(index, common, search.seed, search.scheduler.last_env_steps)
        spec = _with_shared_cpus(spec, _checked(spec, settings), search)
        specs.append(spec)
    return specs


def _checked(spec: TrialSpec, settings: Mapping[str, Any]) -> Resolved:
    """The run of a trial, with errors that say where in the search the key stands that is wrong."""
    try:
        return spec.run(settings)
    except ConfigError as error:
        lines = []
        for line in str(error).splitlines():
            mine = next((key for key in settings if line.startswith(f"{key}:")), None)
            top = line.partition(":")[0].partition(".")[0]
            lines.append(f"space.{line}" if mine else line if top in ("algorithm", "env") else f"config.{line}")
        raise ConfigError("\n".join(lines)) from None


def has_workers(run: Resolved) -> bool:
    """Whether the evaluators of a run are processes of their own."""
    return run.config.evaluators.count > 0 and run.config.runtime.name == "ray"


def _with_shared_cpus(spec: TrialSpec, run: Resolved, search: SearchConfig) -> TrialSpec:
    """Evaluators for which nobody asked for CPUs share those of their trial, so that as many trials run at once."""
    if not has_workers(run) or "cpus" in search.config.get("evaluators", {}) or "evaluators.cpus" in search.space:
        return spec
    # Ray counts in ten thousandths; what is above would not fit.
    share = int(search.resources.trial_cpus / run.config.evaluators.count * 10_000) / 10_000
    return replace(spec, evaluator_cpus=share)


def settings_in(config: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The values that the dotted keys ``names`` have in a run's config, as YAML or JSON hold it."""
    found = {}
    for name in names:
        value: Any = config
        for part in name.split("."):
            value = value[part]
        found[name] = value
    return found


def named_code(search: SearchConfig) -> dict[str, str]:
    """``{key: import path}`` of what running the search would import, beside installed parts."""
    names = dict(_import_paths({"algorithm": search.algorithm}, ""))
    if imports_module(search.env):
        names["env"] = search.env
    given = {key: part for key, part in search.config.items() if key != "env_settings"}
    names |= dict(_import_paths(given, "config."))
    env_settings = search.config.get("env_settings", {})
    names |= {f"config.env_settings.{key}": path for key, path in settings_imports(search.env, env_settings).items()}
    return names | dict(_import_paths(search.to_tree()["space"], "space."))


def _import_paths(tree: Any, at: str) -> Iterator[tuple[str, str]]:
    if isinstance(tree, Mapping):
        for key, part in tree.items():
            yield from _import_paths(part, f"{at}{key}.")
    elif isinstance(tree, list):
        for number, part in enumerate(tree):
            yield from _import_paths(part, f"{at}{number}.")
    elif isinstance(tree, str) and is_import_path(tree) and not tree.rpartition(":")[2].isdigit():
        # A device such as cuda:0, or an address, is no import path.
        yield at.rstrip("."), tree
