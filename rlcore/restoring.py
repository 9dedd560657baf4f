"""Reading a saved run: to go on with it, or to start another one from what it has learnt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore import registry
from rlcore.checkpoint import load_tree
from rlcore.config import PolicySettings, marked_objects, parse_config
from rlcore.config_text import nested
from rlcore.env import Spaces
from rlcore.envs import imports_module
from rlcore.errors import CheckpointError, ConfigError
from rlcore.policy_graph import Weights
from rlcore.resolve import Provenance, Resolved, merge
from rlcore.results import RunFolder, is_run_folder
from rlcore.saved_policies import checkpoint_folder, policies_in, settings_of

#: What may be different when a run goes on; all else is what makes it that run.
CHANGEABLE = (
    "stop",
    "env",
    "env_settings",
    "policy_of",
    "evaluators",
    "evaluation",
    "checkpoints",
    "runtime",
)


@dataclass(frozen=True)
class Saved:
    """A checkpoint, read: the settings of its run and the state to go on from."""

    run: Resolved
    state: dict[str, Any]
    #: The run that is continued; None where a lone checkpoint was named.
    run_folder: RunFolder | None
    #: Whether the environments are others than those that were saved, so that their episodes begin anew.
    evaluators_changed: bool

    def evaluators_state(self) -> dict[str, Any]:
        """The state of the EvaluatorSet, without the evaluators' own where these have changed."""
        state: dict[str, Any] = self.state["evaluators"]
        return {**state, "evaluators": {}} if self.evaluators_changed else state


def read_saved(path: Path | str, overrides: Mapping[str, Any], trust: bool) -> Saved:
    """The checkpoint at ``path``, or the last one of the run folder ``path``. See ``Trainer.restore``."""
    folder = checkpoint_folder(path)
    state, manifest = load_tree(folder)
    try:
        written: dict[str, Any] = manifest["config"]
        policies = {name: settings_of(entry) for name, entry in manifest["policies"].items()}
        changed = _with_overrides(written, overrides)
        check_objects(folder, changed)
        config = parse_config(changed)
        check_trust(folder, _names(changed, policies), trust)
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"checkpoint {folder} is of no run: {error!r}") from error
    others = any(changed[key] != written[key] for key in ("env", "env_settings", "evaluators"))
    run_folder = RunFolder.open(path) if is_run_folder(path) else None
    return Saved(Resolved(config, policies, Provenance()), state, run_folder, others)


def _with_overrides(written: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    changes = nested(overrides)
    fixed = sorted(set(changes) - set(CHANGEABLE))
    if fixed:
        raise ConfigError(
            f"{', '.join(fixed)}: cannot change in a run that goes on, only {', '.join(CHANGEABLE)} can; "
            "a new run may start from its checkpoint"
        )
    evaluators = changes.get("evaluators", {})
    config = dict(written)
    for key, other in (("episodes", "fragment"), ("fragment", "episodes")):
        if isinstance(evaluators, Mapping) and evaluators.get(key) is not None and other not in evaluators:
            config["evaluators"] = {**config["evaluators"], other: None}
    merge(config, changes)
    return config


def check_objects(folder: Path, config: Mapping[str, Any]) -> None:
    """``CheckpointError`` for a config with Python objects that could not be written down."""
    missing = marked_objects(config)
    if missing:
        raise CheckpointError(
            f"checkpoint {folder}: {', '.join(missing)} was given as a Python object that no import path leads to; "
            f"give it anew, as overrides={{{missing[0]!r}: ...}}"
        )


def _names(config: Mapping[str, Any], policies: Mapping[str, PolicySettings]) -> Iterator[tuple[str, str]]:
    """``(dotted key, import path)`` of whatever would be imported because the checkpoint says so."""
    env, policy_of, runtime = config["env"], config["policy_of"], config["runtime"]
    if isinstance(env, str) and imports_module(env):
        yield "env", env
    if isinstance(policy_of, str):
        yield "policy_of", policy_of
    if isinstance(runtime, str) and registry.is_import_path(runtime):
        yield "runtime", runtime
    for name, settings in policies.items():
        optimizer = settings.optimizer.name if settings.optimizer is not None else None
        custom = settings.model.get("custom")
        for key, value in (("graph", settings.graph), ("optimizer.name", optimizer), ("model.custom", custom)):
            if isinstance(value, str) and registry.is_import_path(value):
                yield f"policies.{name}.{key}", value


def check_trust(folder: Path, names: Iterable[tuple[str, str]], trust: bool) -> None:
    """``CheckpointError`` where there are ``names``, ``(dotted key, import path)``, and nobody trusts them."""
    listed = ", ".join(f"{key}={value}" for key, value in names)
    if listed and not trust:
        raise CheckpointError(
            f"checkpoint {folder} names code to import: {listed}; nothing was loaded, "
            "say that you trust it with --trust (in Python trust=True)"
        )


@dataclass(frozen=True)
class Start:
    """What a policy of a new run starts from: a graph's whole state, or weights alone where its graph is another."""

    weights: Weights
    state: Mapping[str, Any] | None
    spaces: Spaces
    filter: str
    filter_states: Mapping[str, Mapping[str, Any]]


def read_starts(path: Path | str, run: Resolved) -> dict[str, Start]:
    """What the policies of ``run`` start from in the checkpoint or run folder ``path``.

    Policies are matched by name; the only one of a run starts from the only one of the checkpoint, whatever their
    names. Raises ``CheckpointError`` where a policy is missing, ``ConfigError`` where its filter differs.
    """
    folder = checkpoint_folder(path)
    state, manifest = load_tree(folder)
    saved = policies_in(folder, state, manifest)
    starts = {}
    for policy_id, settings in run.policies.items():
        source = policy_id if len(saved) > 1 or len(run.policies) > 1 else next(iter(saved))
        if source not in saved:
            raise CheckpointError(f"checkpoint {folder} has no policy '{source}', only: {', '.join(sorted(saved))}")
        one = saved[source]
        if one.filter != run.config.filter:
            raise ConfigError(
                f"filter: policy '{source}' of {folder} was trained with '{one.filter}', not '{run.config.filter}'"
            )
        same = one.settings.graph == settings.graph and one.settings.model == settings.model
        graph_state = _graph_state(state["optimizers"], source) if same else None
        starts[policy_id] = Start(one.weights, graph_state, one.spaces, one.filter, one.filter_states)
    return starts


def _graph_state(optimizers: Mapping[str, Mapping[str, Any]], policy_id: str) -> Mapping[str, Any] | None:
    """The state of a policy's graph, which optimizers keep under ``graphs``, their own or their learner's."""
    for state in optimizers.values():
        for holder in (state, state.get("learner", {})):
            graphs = holder.get("graphs", {})
            if policy_id in graphs:
                return graphs[policy_id]  # type: ignore[no-any-return]
    return None
