"""From what a user asks for to the complete settings of a run: recipe, its settings for this env, YAML, ``--set``.

Each later layer overrules the earlier ones, key by key. Everything is checked here, before anything is built: keys of
``policy`` and ``model`` against the policy graph's ``Config``, those beside ``optimizer.name`` against the optimizer's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlcore import known, registry
from rlcore.batch import DEFAULT_POLICY
from rlcore.config import OptimizerSettings, PolicySettings, RunConfig, parse_config
from rlcore.config_text import nested
from rlcore.errors import ConfigError, UnknownPluginError
from rlcore.known import framework_of
from rlcore.lookup_errors import did_you_mean
from rlcore.seeding import Purpose, seed_for
from rlcore.validation import shown, validate_plain

if TYPE_CHECKING:
    from rlcore.algorithm import Algorithm
    from rlcore.policy_graph import GraphConfig
    from rlcore.policy_optimizer import OptimizerConfig

#: Steps of each environment in one sample where nobody says otherwise.
DEFAULT_FRAGMENT = 200


@dataclass
class Provenance:
    """Where the settings of a run come from.

    ``layers`` are the names of the sources, each overruling those before it. ``sources`` maps each dotted key that some
    layer set to the last layer that did; ``left_out`` maps those that were set and do not apply to the reason.
    """

    layers: list[str] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def leave_out(self, key: str, reason: str) -> None:
        """``key`` was set and does not apply."""
        self.sources.pop(key, None)
        self.left_out[key] = reason

    def lines(self, config: RunConfig) -> list[str]:
        """A line for each layer, with the keys that hold because of it and their values in ``config``."""
        tree = config.to_tree()
        lines = []
        for source in dict.fromkeys(self.layers):
            keys = [key for key, by in self.sources.items() if by == source]
            if keys:
                lines.append(f"{source}: " + ", ".join(f"{key}={_value_at(tree, key)}" for key in keys))
        return lines + [f"not used: {key} ({reason})" for key, reason in self.left_out.items()]


@dataclass(frozen=True)
class Resolved:
    """A run's complete settings. ``policies`` names graph, policy, model and optimizer of each, nothing left out."""

    config: RunConfig
    policies: dict[str, PolicySettings]
    provenance: Provenance


@dataclass(frozen=True)
class Layer:
    """Settings from one source, in the shape of the config; sections may be incomplete."""

    source: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class _Lent:
    """What a recipe lends: layers of settings, and layers of ``{optimizer name: settings}``."""

    layers: list[Layer]
    optimizers: list[Layer]

    def for_optimizer(self, name: str) -> dict[str, Any]:
        """The settings that it lends to the optimizer ``name``."""
        merged: dict[str, Any] = {}
        for layer in self.optimizers:
            merge(merged, layer.settings.get(name, {}))
        return merged


def resolve(
    settings: Mapping[str, Any] | RunConfig,
    *,
    overrides: Mapping[str, Any] | None = None,
    env_settings: bool = True,
    source: str = "config",
    overrides_source: str = "command line",
) -> Resolved:
    """The complete settings of a run.

    ``settings`` is what YAML says, ``overrides`` are ``{dotted key: value}`` that overrule it; ``source`` and
    ``overrides_source`` are what their settings are called in the provenance. ``env_settings`` false leaves out the
    recipe's settings for this environment. Raises ``ConfigError`` with a line for each wrong key, and ``PluginError``
    where a part that is named cannot be had.
    """
    given = settings.model_dump(exclude_unset=True) if isinstance(settings, RunConfig) else dict(settings)
    user = [Layer(source, given), Layer(overrides_source, nested(overrides or {}))]
    asked = _checked_structure(user)
    recipe = registry.load("algorithm", asked.algorithm)
    lent = _lent_by_recipe(recipe, asked, env_settings)
    merged, provenance = _merge_layers(lent, user)
    config = _with_defaults(parse_config(merged), recipe, asked)
    users_keys = {key for key, by in provenance.sources.items() if by in (source, overrides_source)}
    return _with_parts(config, recipe, lent, provenance, users_keys)


# -- layers


def _checked_structure(user: list[Layer]) -> RunConfig:
    """The user's settings alone, checked before any plugin is loaded for them."""
    merged: dict[str, Any] = {}
    for layer in user:
        _choose_collection(merged, layer, Provenance())
        merge(merged, layer.settings)
    return parse_config(merged)


def _lent_by_recipe(recipe: type[Algorithm], asked: RunConfig, env_settings: bool) -> _Lent:
    source = f"recipe {asked.algorithm}"
    defaults = {
        "optimizer": {"name": recipe.optimizer},
        "policy": recipe.policy,
        "model": recipe.model,
        "evaluators": recipe.evaluators,
        "filter": recipe.filter,
    }
    lent = _Lent([Layer(source, defaults)], [Layer(source, recipe.optimizers)])
    env_id = _tuned_id(recipe, asked.env)
    if env_settings and env_id is not None:
        tuned, source = dict(recipe.settings[env_id]), f"settings of {asked.algorithm} for {env_id}"
        if "stop" in tuned:
            raise ConfigError(f"the {source} name stop keys, which only users may")
        lent.optimizers.append(Layer(source, tuned.pop("optimizers", {})))
        lent.layers.append(Layer(source, tuned))
    return lent


def _tuned_id(recipe: type[Algorithm], env: Any) -> str | None:
    """The id under which the recipe knows the environment: its name, or that without the provider's."""
    if not isinstance(env, str):
        return None
    return next((name for name in (env, env.partition(":")[2]) if name in recipe.settings), None)


def _merge_layers(lent: _Lent, user: list[Layer]) -> tuple[dict[str, Any], Provenance]:
    merged: dict[str, Any] = {}
    provenance = Provenance([layer.source for layer in lent.layers + user])
    for layer in lent.layers + user:
        _choose_optimizer(merged, layer, lent, provenance)
        _choose_collection(merged, layer, provenance)
        merge(merged, layer.settings)
        provenance.sources.update(dict.fromkeys(_leaves(layer.settings), layer.source))
    return merged, provenance


def _choose_optimizer(merged: dict[str, Any], layer: Layer, lent: _Lent, provenance: Provenance) -> None:
    """Settings belong to the optimizer that they were given for: another name starts from what is lent to that one."""
    name = _section(layer, "optimizer").get("name")
    before = merged.get("optimizer", {}).get("name")
    if not isinstance(name, str) or name == before:
        return
    for key in [key for key in provenance.sources if key.startswith("optimizer.") and key != "optimizer.name"]:
        if provenance.sources.pop(key) not in {lender.source for lender in lent.optimizers}:
            provenance.left_out[key] = f"given for {before}, and the optimizer is {name}"
    merged["optimizer"] = {"name": name, **lent.for_optimizer(name)}
    for lender in lent.optimizers:
        keys = _leaves(lender.settings.get(name, {}), "optimizer.")
        provenance.sources.update(dict.fromkeys(keys, lender.source))


def _choose_collection(merged: dict[str, Any], layer: Layer, provenance: Provenance) -> None:
    """``episodes`` in one layer replaces ``fragment`` of an earlier one, and the other way round."""
    section = _section(layer, "evaluators")
    for key, other in (("episodes", "fragment"), ("fragment", "episodes")):
        if section.get(key) is not None and other not in section and merged.get("evaluators", {}).pop(other, None):
            provenance.sources.pop(f"evaluators.{other}", None)


def _section(layer: Layer, name: str) -> Mapping[str, Any]:
    section = layer.settings.get(name)
    return section if isinstance(section, Mapping) else {}


def merge(low: dict[str, Any], high: Mapping[str, Any]) -> None:
    """Puts ``high`` over ``low``, mapping by mapping; ``low`` changes, and shares no mapping with ``high``."""
    for key, value in high.items():
        if isinstance(value, Mapping):
            below = low.get(key)
            low[key] = dict(below) if isinstance(below, Mapping) else {}
            merge(low[key], value)
        else:
            low[key] = value


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _value_at(tree: Any, key: str) -> str:
    """The value at a dotted key; the keys of a mapping may hold dots themselves."""
    if not isinstance(tree, Mapping):
        return shown(tree)
    if key in tree:
        return shown(tree[key])
    for name, below in tree.items():
        if key.startswith(f"{name}."):
            return _value_at(below, key[len(str(name)) + 1 :])
    return "default"


# -- defaults that depend on what was asked


def _with_defaults(config: RunConfig, recipe: type[Algorithm], asked: RunConfig) -> RunConfig:
    evaluators = config.evaluators
    if evaluators.fragment is None and evaluators.episodes is None:
        evaluators = evaluators.model_copy(update={"fragment": DEFAULT_FRAGMENT})
    # Evaluators that only the recipe asks for are no reason to start an engine.
    runtime = config.runtime or ("ray" if asked.evaluators.count else "inline")
    registry.load("runtime", runtime)
    graph = None
    if not config.policies or any(entry.graph is None for entry in config.policies.values()):
        graph = _graph_in(config.framework, recipe)
    framework = config.framework or (framework_of(graph) if graph is not None else None)
    return config.model_copy(update={"framework": framework, "runtime": runtime, "evaluators": evaluators})


def _graph_in(framework: str | None, recipe: type[Algorithm]) -> str:
    """The name of the recipe's graph in the framework asked for, or in the preferred one of those installed."""
    try:
        return registry.graph_name(recipe.policy_graph, framework)
    except UnknownPluginError as error:
        if framework is None or framework in known.frameworks():
            raise
        hint = did_you_mean(framework, registry.frameworks(recipe.policy_graph))
        raise UnknownPluginError(f"unknown framework '{framework}'{hint}\n{error}") from error


# -- the parts and their settings


def _with_parts(
    config: RunConfig, recipe: type[Algorithm], lent: _Lent, provenance: Provenance, users_keys: set[str]
) -> Resolved:
    """Checks the settings of every part against its ``Config`` and fills in the defaults that this has."""
    own = f"{config.framework}.{recipe.policy_graph}"
    if not config.policies:
        policy, model = _graph_settings(own, config.policy, config.model, "", provenance, users_keys)
        optimizer = _optimizer_settings(config.optimizer, "optimizer", config)
        config = config.model_copy(update={"policy": policy, "model": model, "optimizer": optimizer})
        entry = PolicySettings(graph=own, policy=policy, model=model, optimizer=optimizer)
        return Resolved(config, {DEFAULT_POLICY: entry}, provenance)
    policies = {}
    for name, entry in config.policies.items():
        at, graph = f"policies.{name}.", entry.graph or own
        # The settings at the top level were made for the recipe's graph, whichever framework it is written in.
        shared = graph.rpartition(".")[2] == recipe.policy_graph.rpartition(".")[2]
        policy, model = (dict(config.policy), dict(config.model)) if shared else ({}, {})
        merge(policy, entry.policy)
        merge(model, entry.model)
        # A graph of another framework takes of the shared settings what it knows.
        users = {key.removeprefix(at) for key in users_keys if graph == own or key.startswith(at)}
        policy, model = _graph_settings(graph, policy, model, at, provenance, users)
        optimizer = _optimizer_settings(_entry_optimizer(entry, config.optimizer, lent), f"{at}optimizer", config)
        policies[name] = entry.model_copy(
            update={"graph": graph, "policy": policy, "model": model, "optimizer": optimizer}
        )
    _check_policy_of(config, policies)
    return Resolved(config.model_copy(update={"policies": policies}), policies, provenance)


def _graph_settings(
    graph: str,
    policy: Mapping[str, Any],
    model: Mapping[str, Any],
    prefix: str,
    provenance: Provenance,
    users_keys: set[str],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The complete ``policy`` and ``model`` of one graph.

    A recipe serves graphs of several frameworks, small ones among them: what it sets and a graph does not know is left
    out and said. What a user sets must be known.
    """
    config_type = registry.load("policy_graph", graph).Config
    known = config_type.model_fields
    kept = {}
    for key, value in policy.items():
        if key in known or f"policy.{key}" in users_keys:
            kept[key] = value
        else:
            provenance.leave_out(f"{prefix}policy.{key}", f"{graph} has no such setting")
    if "model" in kept:
        raise ConfigError(f"{prefix}policy.model: stands at '{prefix}model'")
    if "model" in known:
        kept["model"] = dict(model)
    elif any(f"model.{key}" in users_keys for key in model):
        raise ConfigError(f"{prefix}model: {graph} has no model settings")
    elif model:
        for key in model:
            provenance.leave_out(f"{prefix}model.{key}", f"{graph} has no model settings")
    complete = _validated_graph(config_type, kept, prefix).model_dump(mode="json")
    return complete, complete.pop("model", {})


def graph_config(entry: PolicySettings) -> GraphConfig:
    """The ``Config`` of the graph of a resolved policy."""
    config_type = registry.load("policy_graph", str(entry.graph)).Config
    model = {"model": entry.model} if "model" in config_type.model_fields else {}
    return _validated_graph(config_type, {**entry.policy, **model}, "")


def _validated_graph(config_type: type[GraphConfig], settings: Mapping[str, Any], prefix: str) -> GraphConfig:
    try:
        return validate_plain(config_type, settings, f"{prefix}policy")
    except ConfigError as error:
        # The graph's Config holds its model; in a run's config that is a section beside the policy's.
        within = re.compile(rf"^{re.escape(prefix)}policy\.model\b", re.MULTILINE)
        raise ConfigError(within.sub(f"{prefix}model", str(error))) from None


def _entry_optimizer(entry: PolicySettings, shared: OptimizerSettings, lent: _Lent) -> OptimizerSettings:
    """The optimizer of one of several policies: its own, over what the recipe lends to it, or the shared one."""
    own = entry.optimizer
    if own is None:
        return shared
    name = own.name or shared.name
    defaults = shared.settings if name == shared.name else lent.for_optimizer(str(name))
    return OptimizerSettings.model_validate({"name": name, **defaults, **own.settings})


def _optimizer_settings(optimizer: OptimizerSettings, prefix: str, config: RunConfig) -> OptimizerSettings:
    """The complete settings of one optimizer, without those that follow from the run's seed and resources."""
    if optimizer.name is None:
        raise ConfigError(f"{prefix}.name: missing")
    complete = optimizer_config(optimizer, config, prefix=prefix).model_dump(mode="json")
    for key in set(DERIVED) - set(optimizer.settings):
        complete.pop(key, None)
    return OptimizerSettings.model_validate({"name": optimizer.name, **complete})


#: Settings that an optimizer may have and that follow from the run's where nobody gives them.
DERIVED = ("seed", "devices")


def optimizer_config(
    optimizer: OptimizerSettings, config: RunConfig, index: int = 0, prefix: str = "optimizer"
) -> OptimizerConfig:
    """The ``Config`` of the ``index``-th optimizer of a run.

    Its ``seed`` follows from the run's and its ``devices`` from ``resources.learner_gpus``, where it has these settings
    and they were not given.
    """
    name = str(optimizer.name)
    config_type = registry.load("optimizer", name).Config
    settings = optimizer.settings
    if "seed" in config_type.model_fields:
        settings.setdefault("seed", int(seed_for(config.seed, Purpose.OPTIMIZER, index).generate_state(1)[0]))
    gpus = config.resources.learner_gpus
    if gpus and "devices" not in config_type.model_fields:
        raise ConfigError(f"resources.learner_gpus: optimizer {name} has no learner that could use them")
    if gpus:
        settings.setdefault("devices", [f"cuda:{i}" for i in range(gpus)])
    return validate_plain(config_type, settings, prefix, beside=["name"])


def _check_policy_of(config: RunConfig, policies: Mapping[str, PolicySettings]) -> None:
    if isinstance(config.policy_of, Mapping):
        unknown = sorted(set(config.policy_of.values()) - set(policies))
        if unknown:
            raise ConfigError(f"policy_of: no policy {', '.join(unknown)}; there are: {', '.join(sorted(policies))}")
