"""From what a user asks for to the complete settings of a run: recipe, its settings for this env, YAML, ``--set``.

Each later layer overrules the earlier ones, key by key. Everything is checked here, before anything is built: keys of
``policy`` and ``model`` against the policy graph's ``Config``, those beside ``optimizer.name`` against the optimizer's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlcore import known, registry
from rlcore.batch import DEFAULT_POLICY
from rlcore.config import (
    OptimizerSettings,
    PolicySettings,
    ResolvedOptimizer,
    ResolvedPolicy,
    RunConfig,
    RuntimeSettings,
    check_layer,
    check_settings,
    parse_config,
)
from rlcore.envs import known_ids
from rlcore.errors import ConfigError, UnknownPluginError
from rlcore.known import framework_of
from rlcore.layers import Layer, Lent, merge, merge_layers
from rlcore.lookup_errors import did_you_mean
from rlcore.provenance import Provenance
from rlcore.runtime_choice import nested_overrides, runtime_config, with_runtime_spelt_out
from rlcore.seeding import Purpose, seed_for
from rlcore.validation import validate_plain

if TYPE_CHECKING:
    from rlcore.algorithm import Algorithm
    from rlcore.policy_graph import GraphConfig
    from rlcore.policy_optimizer import OptimizerConfig

#: Steps of each environment in one sample where nobody says otherwise.
DEFAULT_FRAGMENT = 200


@dataclass(frozen=True)
class Resolved:
    """A run's complete settings. ``policies`` names graph, policy, model and optimizer of each, nothing left out."""

    config: RunConfig
    policies: dict[str, ResolvedPolicy]
    provenance: Provenance


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
    given = settings.model_dump(exclude_unset=True) if isinstance(settings, RunConfig) else settings
    check_settings(given)
    user = [Layer(source, with_runtime_spelt_out(given)), Layer(overrides_source, nested_overrides(overrides or {}))]
    # The user's settings alone are checked before any plugin is loaded for them: what one source gets wrong is wrong
    # where another one overrules it, too.
    for layer in user:
        check_layer(layer.settings)
    asked = parse_config(merge_layers(Lent([], []), user)[0])
    recipe = registry.load("algorithm", asked.algorithm)
    lent = _lent_by_recipe(recipe, asked, env_settings)
    merged, provenance = merge_layers(lent, user)
    config = _with_defaults(parse_config(merged), recipe, asked)
    _check_films(config)
    return _with_parts(config, recipe, lent, provenance, provenance.keys_of(source, overrides_source))


def _check_films(config: RunConfig) -> None:
    if config.evaluation.video_every is not None and config.evaluation.every_env_steps is None:
        raise ConfigError(
            "evaluation.video_every: what is filmed are evaluations during training, and there are none; set "
            "evaluation.every_env_steps as well"
        )


def _lent_by_recipe(recipe: type[Algorithm], asked: RunConfig, env_settings: bool) -> Lent:
    source = f"recipe {asked.algorithm}"
    defaults = {
        "optimizer": {"name": recipe.optimizer},
        "policy": recipe.policy,
        "model": recipe.model,
        "evaluators": recipe.evaluators,
        "filter": recipe.filter,
    }
    lent = Lent([Layer(source, defaults)], [Layer(source, recipe.optimizers)])
    env_id = _tuned_id(recipe, asked.env)
    if env_settings and env_id is not None:
        tuned, source = dict(recipe.settings[env_id]), f"settings of {asked.algorithm} for {env_id}"
        if "stop" in tuned:
            raise ConfigError(f"the {source} name stop keys, which only users may")
        lent.optimizers.append(Layer(source, tuned.pop("optimizers", {})))
        lent.layers.append(Layer(source, tuned))
    return lent


def _tuned_id(recipe: type[Algorithm], env: Any) -> str | None:
    """The id under which the recipe knows the environment: its name, or the one that it stands for."""
    if not recipe.settings:
        return None
    return next((name for name in known_ids(env) if name in recipe.settings), None)


# -- defaults that depend on what was asked


def _with_defaults(config: RunConfig, recipe: type[Algorithm], asked: RunConfig) -> RunConfig:
    evaluators = config.evaluators
    if evaluators.fragment is None and evaluators.episodes is None:
        evaluators = evaluators.model_copy(update={"fragment": DEFAULT_FRAGMENT})
    runtime = config.runtime
    if runtime.name is None:
        # Evaluators that only the recipe asks for are no reason to start an engine; the address of one is.
        name = "ray" if asked.evaluators.count or runtime.settings else "inline"
        runtime = RuntimeSettings.model_validate({**runtime.settings, "name": name})
    runtime_config(runtime)
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
        if framework is None:
            raise
        if registry.graphs_of(framework):
            raise
        if framework in known.frameworks():
            raise
        hint = did_you_mean(framework, registry.frameworks(recipe.policy_graph))
        raise UnknownPluginError(f"unknown framework '{framework}'{hint}\n{error}") from error


# -- the parts and their settings


def _with_parts(
    config: RunConfig, recipe: type[Algorithm], lent: Lent, provenance: Provenance, users_keys: set[str]
) -> Resolved:
    """Checks the settings of every part against its ``Config`` and fills in the defaults that this has."""
    own = f"{config.framework}.{recipe.policy_graph}"
    check_policy_of(config)
    if not config.policies:
        graph = _complete(_Given(own, config.policy, config.model, users_keys), "")
        _tell_left_out(provenance, graph, "")
        optimizer = _optimizer_settings(config.optimizer, "optimizer", config)
        config = config.model_copy(update={"policy": graph.policy, "model": graph.model, "optimizer": optimizer})
        only = ResolvedPolicy(graph=own, policy=graph.policy, model=graph.model, optimizer=optimizer)
        return Resolved(config, {DEFAULT_POLICY: only}, provenance)
    policies = {}
    for name, entry in config.policies.items():
        at = f"policies.{name}."
        given = _given(entry, config, own, users_keys, at)
        graph = _complete(given, at)
        _tell_left_out(provenance, graph, at)
        optimizer = _optimizer_settings(_entry_optimizer(entry, config.optimizer, lent), f"{at}optimizer", config)
        policies[name] = ResolvedPolicy(
            graph=given.graph, policy=graph.policy, model=graph.model, optimizer=optimizer, trained=entry.trained
        )
    return Resolved(config.model_copy(update={"policies": dict(policies)}), policies, provenance)


@dataclass(frozen=True)
class _Given:
    """What is set for one graph. ``users_keys`` are those of ``policy.*`` and ``model.*`` that the user set."""

    graph: str
    policy: Mapping[str, Any]
    model: Mapping[str, Any]
    users_keys: set[str]

    def by_user(self, key: str) -> bool:
        """Whether the user set ``key``, or something below it."""
        return any(own == key or own.startswith(f"{key}.") for own in self.users_keys)


def _given(entry: PolicySettings, config: RunConfig, own: str, users_keys: set[str], at: str) -> _Given:
    """What is set for one of several policies, over what the config says at its top level; ``own``: the run's graph."""
    graph = entry.graph or own
    # The settings at the top level were made for the recipe's graph, whichever framework it is written in.
    shared = graph.rpartition(".")[2] == own.rpartition(".")[2]
    policy, model = (dict(config.policy), dict(config.model)) if shared else ({}, {})
    merge(policy, entry.policy)
    merge(model, entry.model)
    # A graph of another framework takes of the shared settings what it knows.
    users = {key.removeprefix(at) for key in users_keys if graph == own or key.startswith(at)}
    return _Given(graph, policy, model, users)


@dataclass
class _Complete:
    """The complete settings of one graph; ``left_out`` says of those that do not apply why."""

    policy: dict[str, Any]
    model: dict[str, Any]
    left_out: dict[str, str] = field(default_factory=dict)


def _tell_left_out(provenance: Provenance, graph: _Complete, at: str) -> None:
    for key, reason in graph.left_out.items():
        provenance.leave_out(f"{at}{key}", reason)


def _complete(given: _Given, at: str) -> _Complete:
    """The complete ``policy`` and ``model`` of one graph, whose settings stand at ``at`` in the config.

    A recipe serves graphs of several frameworks, small ones among them: what it sets and a graph does not know is left
    out and said. What a user sets must be known.
    """
    config_type = registry.load("policy_graph", given.graph).Config
    known = config_type.model_fields
    kept, left_out = {}, {}
    for key, value in given.policy.items():
        if key in known or given.by_user(f"policy.{key}"):
            kept[key] = value
        else:
            left_out[f"policy.{key}"] = f"{given.graph} has no such setting"
    if "model" in kept:
        raise ConfigError(f"{at}policy.model: stands at '{at}model'")
    if "model" in known:
        kept["model"] = dict(given.model)
    elif any(given.by_user(f"model.{key}") for key in given.model):
        raise ConfigError(f"{at}model: {given.graph} has no model settings")
    else:
        left_out |= {f"model.{key}": f"{given.graph} has no model settings" for key in given.model}
    policy = _validated(config_type, kept, at).model_dump(mode="json")
    return _Complete(policy, policy.pop("model", {}), left_out)


def graph_config(entry: ResolvedPolicy) -> GraphConfig:
    """The ``Config`` of the graph of a resolved policy."""
    config_type = registry.load("policy_graph", entry.graph).Config
    model = {"model": entry.model} if "model" in config_type.model_fields else {}
    return _validated(config_type, {**entry.policy, **model})


def _validated(config_type: type[GraphConfig], settings: Mapping[str, Any], at: str = "") -> GraphConfig:
    # The graph's Config holds its model; in a run's config that is a section beside the policy's.
    return validate_plain(config_type, settings, f"{at}policy", elsewhere={"model": f"{at}model"})


def _entry_optimizer(entry: PolicySettings, shared: OptimizerSettings, lent: Lent) -> OptimizerSettings:
    """The optimizer of one of several policies: its own, over what the recipe lends to it, or the shared one."""
    own = entry.optimizer
    if own is None:
        return shared
    name = own.name or shared.name
    defaults = shared.settings if name is None or name == shared.name else lent.for_optimizer(name)
    return OptimizerSettings.model_validate({"name": name, **defaults, **own.settings})


def _optimizer_settings(optimizer: OptimizerSettings, prefix: str, config: RunConfig) -> ResolvedOptimizer:
    """The complete settings of one optimizer, without those that follow from the run's seed and resources."""
    if optimizer.name is None:
        raise ConfigError(f"{prefix}.name: missing")
    named = ResolvedOptimizer.model_validate(optimizer.model_dump())
    complete = optimizer_config(named, config, prefix=prefix).model_dump(mode="json")
    for key in set(DERIVED) - set(optimizer.settings):
        complete.pop(key, None)
    return ResolvedOptimizer.model_validate({"name": named.name, **complete})


#: Settings that an optimizer may have and that follow from the run's where nobody gives them.
DERIVED = ("seed", "devices")


def optimizer_config(
    optimizer: ResolvedOptimizer, config: RunConfig, index: int = 0, prefix: str = "optimizer"
) -> OptimizerConfig:
    """The ``Config`` of the ``index``-th optimizer of a run.

    Its ``seed`` follows from the run's and its ``devices`` from ``resources.learner_gpus``, where it has these settings
    and they were not given.
    """
    config_type = registry.load("optimizer", optimizer.name).Config
    settings = optimizer.settings
    if "seed" in config_type.model_fields:
        settings.setdefault("seed", int(seed_for(config.seed, Purpose.OPTIMIZER, index).generate_state(1)[0]))
    gpus = config.resources.learner_gpus
    if gpus and "devices" not in config_type.model_fields:
        raise ConfigError(f"resources.learner_gpus: optimizer {optimizer.name} has no learner that could use them")
    if gpus:
        settings.setdefault("devices", [f"cuda:{i}" for i in range(gpus)])
    return validate_plain(config_type, settings, prefix, beside=["name"])


def check_policy_of(config: RunConfig) -> None:
    """``ConfigError`` where a mapping sends an agent to a policy that does not exist."""
    policies = list(config.policies) or [DEFAULT_POLICY]
    if isinstance(config.policy_of, Mapping):
        unknown = sorted(set(config.policy_of.values()) - set(policies))
        if unknown:
            raise ConfigError(f"policy_of: no policy {', '.join(unknown)}; there are: {', '.join(sorted(policies))}")
