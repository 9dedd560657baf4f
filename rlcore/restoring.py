"""Reading a saved run: to go on with it, or to start another one from what it has learnt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore.checkpoint import load_tree
from rlcore.config import ResolvedPolicy, parse_config
from rlcore.env import Spaces
from rlcore.errors import CheckpointError, ConfigError
from rlcore.layers import merge, replaced_collection
from rlcore.policy_graph import Weights
from rlcore.provenance import Provenance
from rlcore.replay_memory import REPLAY
from rlcore.resolve import Resolved, check_policy_of
from rlcore.results import RunFolder, checkpoint_folder, is_run_folder
from rlcore.runtime_choice import choose_runtime, nested_overrides, with_runtime_spelt_out
from rlcore.saved_policies import policies_in, settings_of, weights_in
from rlcore.trust import check_objects, check_trust, imported_names

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

    folder: Path
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

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Within it, a state that the parts of the run cannot take over is a ``CheckpointError``."""
        try:
            yield
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(f"checkpoint {self.folder} holds no state to go on from: {error!r}") from error


def read_saved(path: Path | str, overrides: Mapping[str, Any], trust: bool) -> Saved:
    """The checkpoint at ``path``, or the last one of the run folder ``path``. See ``Trainer.restore``."""
    folder = checkpoint_folder(path)
    state, manifest = load_tree(folder)
    _check_parts_of(folder, state, manifest)
    try:
        written: dict[str, Any] = manifest["config"]
        policies = {name: settings_of(entry) for name, entry in manifest["policies"].items()}
        if weights_in(state["policies"]).keys() != policies.keys():
            raise KeyError("policies")
        changed = _with_overrides(written, overrides)
        check_objects(folder, changed)
        config = parse_config(changed)
        check_policy_of(config)
        check_trust(f"checkpoint {folder}", imported_names(config, policies), trust)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"checkpoint {folder} is of no run: {error!r}") from error
    others = any(changed[key] != written[key] for key in ("env", "env_settings")) or any(
        changed["evaluators"].get(key) != written["evaluators"].get(key) for key in EVALUATORS_OWN
    )
    run_folder = RunFolder.open(path) if is_run_folder(path) else None
    return Saved(folder, Resolved(config, policies, Provenance()), state, run_folder, others)


def read_to_take_over(path: Path | str, run: Resolved) -> Saved:
    """The whole state in the checkpoint or run folder ``path``, for a run with other settings to go on from.

    Its environments begin anew. Raises ``CheckpointError`` where it cannot be read, and ``ConfigError`` where ``run``
    has other policies, graphs, models, filters or optimizers, so that the state would not fit.
    """
    folder = checkpoint_folder(path)
    state, manifest = load_tree(folder)
    _check_parts_of(folder, state, manifest)
    try:
        before = {name: settings_of(entry) for name, entry in manifest["policies"].items()}
        kept = _what_holds_state(before, manifest["config"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"checkpoint {folder} is of no run: {error!r}") from error
    asked = _what_holds_state(run.policies, run.config.to_tree())
    for key in [*kept, *(key for key in asked if key not in kept)]:
        if kept.get(key) != asked.get(key):
            raise ConfigError(
                f"{key}: {asked.get(key)!r} cannot take over the state of {folder}, where it is {kept.get(key)!r}"
            )
    return Saved(folder, run, state, None, evaluators_changed=True)


def _what_holds_state(policies: Mapping[str, ResolvedPolicy], config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that say which parts hold the state of a run, by dotted key."""
    found: dict[str, Any] = {key: config[key] for key in ("filter", "reward_filter") if key in config}
    for name, settings in policies.items():
        own = {"graph": settings.graph, "model": dict(settings.model), "optimizer.name": settings.optimizer.name}
        found |= {key if len(policies) == 1 else f"policies.{name}.{key}": value for key, value in own.items()}
    return found


#: Settings of the evaluators that say what they are, and not how they are waited for.
EVALUATORS_OWN = ("count", "envs", "fragment", "episodes")

#: What a run goes on from, and what its manifest says.
STATE_PARTS = ("counters", "window", "row", "stop", "optimizers", "evaluators", "policies")
MANIFEST_PARTS = ("config", "policies", "weights_version", "weights_sha256")


def _check_parts_of(folder: Path, state: object, manifest: Mapping[str, Any]) -> None:
    """``CheckpointError`` where a checkpoint is whole, but not one that a run has written."""
    for what, tree, parts in (("state", state, STATE_PARTS), ("manifest", manifest, MANIFEST_PARTS)):
        missing = [part for part in parts if not isinstance(tree, Mapping) or part not in tree]
        if missing:
            raise CheckpointError(f"checkpoint {folder} is of no run: its {what} lacks {', '.join(missing)}")
    assert isinstance(state, Mapping)
    wrong = [part for part in STATE_PARTS if not isinstance(state[part], Mapping)]
    if wrong:
        raise CheckpointError(f"checkpoint {folder} is of no run: {', '.join(wrong)} in its state is no mapping")


def _with_overrides(written: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    changes = nested_overrides(overrides)
    fixed = sorted(set(changes) - set(CHANGEABLE))
    if fixed:
        raise ConfigError(
            f"{', '.join(fixed)}: cannot change in a run that goes on, only {', '.join(CHANGEABLE)} can; "
            "a new run may start from its checkpoint"
        )
    config = with_runtime_spelt_out(written)
    choose_runtime(config, changes)
    replaced = replaced_collection(changes.get("evaluators"))
    if replaced is not None:
        config["evaluators"] = {**config["evaluators"], replaced: None}
    merge(config, changes)
    return config


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
    state, manifest = load_tree(folder, leave_out=(REPLAY,))
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
        starts[policy_id] = Start(
            one.weights, one.graph_state if same else None, one.spaces, one.filter, one.filter_states
        )
    return starts
