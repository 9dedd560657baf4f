"""Which policy graphs learn the dynamics for which policies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlcore import registry
from rlcore.errors import ConfigError, OptimizerError
from rlcore.graph_spec import GraphSpec
from rlcore.known import framework_of
from rlcore.policy_graph import GraphConfig, PolicyGraph
from rlcore.validation import validate_plain
from rlcore_model.config import DynamicsSettings

#: What whoever imagines calls: the model to do it with, and new weights for it.
UTILITIES = ("sampled_model", "set_dynamics")


def dynamics_specs(specs: Mapping[str, GraphSpec], settings: DynamicsSettings, seed: int) -> dict[str, GraphSpec]:
    """What builds the dynamics for each of the policies that ``specs`` build, in the same spaces.

    ``ConfigError`` for settings that the graph does not know, ``PluginError`` where it is not installed, ``SpaceError``
    where it cannot predict what a policy sees, ``OptimizerError`` for a graph that is no model of dynamics.
    """
    found = {}
    for i, (policy_id, spec) in enumerate(specs.items()):
        name = settings.graph if framework_of(settings.graph) or ":" in settings.graph else _named(settings, spec.graph)
        graph = registry.load("policy_graph", name)
        own = np.random.SeedSequence([seed, i])
        made = GraphSpec(graph, spec.observation_space, spec.action_space, _config(graph, name, settings), own)
        utilities = made.build().utilities()
        if not all(utility in utilities for utility in UTILITIES):
            raise OptimizerError(
                f"optimizer.dynamics.graph: {name} is no model of dynamics: it has no utilities {', '.join(UTILITIES)}"
            )
        found[policy_id] = made
    return found


def _named(settings: DynamicsSettings, policy: type[PolicyGraph]) -> str:
    """The graph in the framework that the policy's package has its graphs in, else in the preferred one."""
    package = policy.__module__.partition(".")[0]
    plugins = registry.available("policy_graph")
    own = [framework_of(one.name) for one in plugins if one.target.partition(":")[0].partition(".")[0] == package]
    installed = registry.frameworks(settings.graph)
    return registry.graph_name(settings.graph, next((name for name in own if name in installed), None))


def _config(graph: type[PolicyGraph], name: str, settings: DynamicsSettings) -> GraphConfig:
    at, policy = "optimizer.dynamics", dict(settings.policy)
    if "model" in policy:
        raise ConfigError(f"{at}.policy.model: stands at '{at}.model'")
    if "model" in graph.Config.model_fields:
        policy["model"] = dict(settings.model)
    elif settings.model:
        raise ConfigError(f"{at}.model: {name} has no model settings")
    return validate_plain(graph.Config, policy, f"{at}.policy", elsewhere={"model": f"{at}.model"})
