"""Policies in a checkpoint: what is written of each, and how it is made again, without its framework where it can be.

The manifest says of a policy ``graph policy model optimizer trained`` (its resolved settings), its spaces before the
filter, the kind of filter, and its actor as data; the tree holds its ``filters`` and, of a policy that is trained, its
``graph``'s state, else its ``weights``. Names are looked up through entry points and registered classes; an import path
would run code and needs the reader's trust.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from rlcore import registry
from rlcore.acting.saved import actor_from, describe_actor, searches
from rlcore.checkpoint import load_tree
from rlcore.config import ResolvedPolicy, parse_config
from rlcore.env import Spaces
from rlcore.envs import build_env
from rlcore.errors import CheckpointError, SpaceError, UserError
from rlcore.graph_spec import GraphSpec
from rlcore.known import framework_of
from rlcore.model import BatchedModel
from rlcore.policy_graph import Actor, PolicyGraph, Weights
from rlcore.replay_memory import REPLAY
from rlcore.resolve import graph_config
from rlcore.results import checkpoint_folder
from rlcore.sampling.filters import FILTERS, ObservationFilter, filtered_space, leaf_filters
from rlcore.sampling.policy_filters import Filters
from rlcore.spaces_json import space_from_json, space_to_json
from rlcore.trust import check_trust, env_names, graph_names
from rlcore.validation import validate


@dataclass(frozen=True)
class SavedRun:
    """What a checkpoint says of the run that it is of."""

    folder: Path
    config: Any

    def rules(self, trust: bool) -> BatchedModel | None:
        """The model of its environment. Raises what building that raises, ``CheckpointError`` where it may not be."""
        config = parse_config(self.config)
        check_trust(f"checkpoint {self.folder}", env_names(config), trust)
        env = build_env(config.env, 1, config.env_settings)
        try:
            return env.model()
        finally:
            env.close()


@dataclass(frozen=True)
class SavedPolicy:
    """One policy of a checkpoint, read and not yet built. ``spaces`` are those of the environment."""

    policy_id: str
    settings: ResolvedPolicy
    spaces: Spaces
    filter: str
    actor: Mapping[str, Any] | None
    weights: Weights
    #: All of its graph, the optimizer's moments included; None where it was not trained by one.
    graph_state: Mapping[str, Any] | None
    filter_states: Mapping[str, Mapping[str, Any]]
    weights_version: int
    #: The run's config, and where it was read; None for a checkpoint of no run.
    run: SavedRun | None = None

    def filters(self) -> dict[str, ObservationFilter]:
        """The observation filters, with their statistics, by leaf."""
        filters = leaf_filters(FILTERS[self.filter], self.spaces[0])
        for leaf, one in filters.items():
            one.set_statistics(self.filter_states[leaf])
        return filters

    def build(self, framework: str | None = None, trust: bool = False) -> Actor | PolicyGraph:
        """Something that acts as the policy did: the actor, else (or with ``framework``) a graph with its weights.

        ``framework`` takes the graph of the same name in another framework. Raises ``PluginError`` where it cannot be
        had, ``CheckpointError`` for an import path without ``trust``.
        """
        observation_space = filtered_space(self.spaces[0], leaf_filters(FILTERS[self.filter], self.spaces[0]))
        if self.actor is not None and framework is None:
            rules = self._rules(trust) if searches(self.actor) else None
            return actor_from(self.actor, observation_space, self.spaces[1], self.weights, rules)
        check_trust("the checkpoint", graph_names(self.policy_id, self.settings, framework), trust)
        name = self.settings.graph
        if framework is not None:
            name = registry.graph_name(name.removeprefix(f"{framework_of(name)}."), framework)
        config = graph_config(self.settings.model_copy(update={"graph": name}))
        graph_class = registry.load("policy_graph", name)
        rules = self._rules(trust) if graph_class.searches else None
        seed = np.random.SeedSequence(0)
        graph: PolicyGraph = GraphSpec(graph_class, observation_space, self.spaces[1], config, seed, rules).build()
        graph.set_weights(self.weights)
        return graph

    def _rules(self, trust: bool) -> BatchedModel | None:
        """The model of the run's environment, for policies that search; None where nothing is known of the run."""
        return None if self.run is None else self.run.rules(trust)


def describe_policy(settings: ResolvedPolicy, spaces: Spaces, filter_name: str, actor: Actor | None) -> dict[str, Any]:
    """The manifest's entry of one policy."""
    return {
        **settings.model_dump(mode="json"),
        "observation_space": _space_tree(spaces[0]),
        "action_space": _space_tree(spaces[1]),
        "filter": filter_name,
        "actor": describe_actor(actor),
    }


def _space_tree(space: gymnasium.Space[Any]) -> dict[str, Any]:
    """A space that cannot be written down is no reason not to write a checkpoint; acting from it then needs more."""
    try:
        return space_to_json(space)
    except SpaceError as error:
        return {"type": "unknown", "reason": str(error)}


def read_policies(path: Path | str) -> dict[str, SavedPolicy]:
    """The policies of a checkpoint or of a run's last one. ``CheckpointError`` where they cannot be read."""
    folder = checkpoint_folder(path)
    return policies_in(folder, *load_tree(folder, leave_out=(REPLAY,)))


def read_policy(path: Path | str, name: str | None = None) -> SavedPolicy:
    """One of them, or the only one. ``UserError`` where there are several and none is named, ``CheckpointError`` where
    there is none of that name."""
    saved = read_policies(path)
    if name is None and len(saved) > 1:
        names = ", ".join(sorted(saved))
        raise UserError(f"{checkpoint_folder(path)} holds several policies; name one of them: {names}")
    if name is None:
        name = next(iter(saved))
    if name not in saved:
        raise CheckpointError(f"{checkpoint_folder(path)} has no policy '{name}', only: {', '.join(sorted(saved))}")
    return saved[name]


def policies_in(folder: Path, tree: Any, manifest: Mapping[str, Any]) -> dict[str, SavedPolicy]:
    """The same of a checkpoint that has been loaded already."""
    try:
        entries, states = manifest["policies"], tree["policies"]
        run = SavedRun(folder, manifest["config"]) if "config" in manifest else None
        return {name: _saved_policy(name, entry, states[name], manifest, run) for name, entry in entries.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"checkpoint {folder} holds no policies that can act: {error!r}") from error


def _saved_policy(
    name: str,
    entry: Mapping[str, Any],
    state: Mapping[str, Any],
    manifest: Mapping[str, Any],
    run: SavedRun | None,
) -> SavedPolicy:
    for which in ("observation_space", "action_space"):
        if entry[which]["type"] == "unknown":
            raise CheckpointError(f"policy '{name}': its {which} is not in the checkpoint ({entry[which]['reason']})")
    spaces = space_from_json(entry["observation_space"]), space_from_json(entry["action_space"])
    if entry["filter"] not in FILTERS:
        raise CheckpointError(f"policy '{name}': this rlcore knows no filter '{entry['filter']}'")
    return SavedPolicy(
        name,
        settings_of(entry),
        spaces,
        entry["filter"],
        entry["actor"],
        _weights_in(state),
        state.get("graph"),
        state["filters"],
        int(manifest["weights_version"]),
        run,
    )


def settings_of(entry: Mapping[str, Any]) -> ResolvedPolicy:
    """The resolved settings in a manifest's entry."""
    return validate(ResolvedPolicy, {key: entry[key] for key in ResolvedPolicy.model_fields}, "checkpoint")


def policy_trees(
    weights: Mapping[str, Weights], graph_states: Mapping[str, Mapping[str, Any]], filters: Filters
) -> dict[str, dict[str, Any]]:
    """The tree's part of each policy: weights stand once, in the graph's state where there is one."""
    return {
        name: {
            **({"graph": graph_states[name]} if name in graph_states else {"weights": own}),
            "filters": {leaf: one.get_statistics() for leaf, one in filters[name].items()},
        }
        for name, own in weights.items()
    }


def weights_in(trees: Mapping[str, Mapping[str, Any]]) -> dict[str, Weights]:
    """The weights in what ``policy_trees`` gave."""
    return {name: _weights_in(tree) for name, tree in trees.items()}


def _weights_in(tree: Mapping[str, Any]) -> Weights:
    weights: Weights = tree["graph"]["weights"] if "graph" in tree else tree["weights"]
    return weights
