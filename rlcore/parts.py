"""From resolved settings to the parts of a run: graphs, evaluators, optimizers. It builds them and drives nothing."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlcore import registry
from rlcore.config import EvaluatorSettings, ResolvedPolicy, RuntimeSettings
from rlcore.env import BatchedEnv, Spaces
from rlcore.envs import build_env
from rlcore.errors import ConfigError
from rlcore.evaluation import Evaluation
from rlcore.evaluator_maker import EvaluatorMaker
from rlcore.evaluator_set import EvaluatorSet
from rlcore.graph_spec import GraphSpec, announce
from rlcore.hooks import Hooks
from rlcore.policy_graph import Actor, GraphConfig
from rlcore.policy_mapping import PolicyOf, check_agents, load_policy_of, policy_function, spaces_by_policy
from rlcore.policy_optimizer import OptimizerConfig, PolicyOptimizer, Prospect
from rlcore.resolve import Resolved, graph_config, optimizer_config
from rlcore.restoring import Start
from rlcore.runtime.base import Demand, Resources, Runtime
from rlcore.runtime_choice import runtime_config
from rlcore.sampling.collect import Collect, Episodes, Fragment
from rlcore.sampling.filters import FILTERS, filtered_space, leaf_filters
from rlcore.sampling.reward_filters import REWARD_FILTERS, RewardFilter
from rlcore.seeding import Purpose, seed_for
from rlcore.stepping import check_together
from rlcore.stragglers import RoundRule


@dataclass
class Parts:
    """The parts of one run, built and not yet used."""

    runtime: Runtime
    #: What makes evaluators like those of the run, without a runtime of their own.
    maker: EvaluatorMaker
    #: The environment's spaces, before the filter.
    spaces: Mapping[str, Spaces]
    #: A framework-free twin of each policy, as it was at the start; None where there is none.
    actors: dict[str, Actor | None]
    evaluators: EvaluatorSet
    optimizers: list[PolicyOptimizer]
    evaluation: Evaluation

    def close(self) -> None:
        """Ends evaluators and environments; may be called twice."""
        self.evaluation.close()
        self.evaluators.close()
        self.runtime.close()


def build_parts(run: Resolved, hooks: Hooks, starts: Mapping[str, Start]) -> Parts:
    """The parts that ``run`` names; its policies begin with ``starts`` in place of fresh weights and filters."""
    config = run.config
    policy_of = load_policy_of(config.policy_of)
    # The spaces are those of the environment that the driver's own evaluator then has: building one may be expensive.
    env = build_env(config.env, 1 if config.evaluators.count else config.evaluators.envs, config.env_settings)
    try:
        return _build_around(env, policy_of, run, hooks, starts)
    except BaseException:
        env.close()
        raise


def _build_around(
    env: BatchedEnv,
    policy_of: PolicyOf | Mapping[Any, str] | None,
    run: Resolved,
    hooks: Hooks,
    starts: Mapping[str, Start],
) -> Parts:
    config, ids, trainings = run.config, tuple(run.policies), _trainings(run)
    check_agents(env, policy_of)
    spaces, model = spaces_by_policy(env, policy_function(policy_of, ids), ids), env.model()
    specs = {
        policy_id: GraphSpec(
            registry.load("policy_graph", entry.graph),
            *_seen(spaces[policy_id], config.filter),
            _settled(entry, env, config.filter),
            seed_for(config.seed, Purpose.GRAPH, i),
            model,
        )
        for i, (policy_id, entry) in enumerate(run.policies.items())
    }
    for spec in specs.values():
        spec.announce()
    begun = {policy_id: _begin(spec, starts.get(policy_id)) for policy_id, spec in specs.items()}
    specs = {policy_id: spec for policy_id, (spec, _) in begun.items()}
    actors = {policy_id: actor for policy_id, (_, actor) in begun.items()}
    maker = EvaluatorMaker(
        config.env,
        config.env_settings,
        config.evaluators.envs,
        collect_of(config.evaluators),
        FILTERS[config.filter],
        _reward_filters(config.reward_filter, specs),
        config.seed,
        policy_of,
        specs,
        actors,
        hooks.for_workers(),
        config.evaluation.video_episodes,
    )
    runtime = start_runtime(config.runtime)
    here = replace(maker, runtime=runtime)
    try:
        evaluators = _start_evaluators(here, config.evaluators, runtime, env, hooks)
        optimizers = [_made(one, evaluators, runtime, config.stop) for one in trainings]
        if starts:
            evaluators.set_filters({policy_id: start.filter_states for policy_id, start in starts.items()})
    except BaseException:
        runtime.close()
        raise
    evaluation = Evaluation(here.for_evaluation, config.seed)
    return Parts(runtime, maker, spaces, actors, evaluators, optimizers, evaluation)


def start_runtime(settings: RuntimeSettings) -> Runtime:
    """The runtime that a config names. ``UserError`` where it cannot be had, such as a cluster that does not answer."""
    runtime = registry.load("runtime", settings.name or "inline")
    return runtime(runtime_config(settings))


def _seen(spaces: Spaces, filter_name: str) -> Spaces:
    """The spaces as the policy has them: observations come through the filter."""
    return filtered_space(spaces[0], leaf_filters(FILTERS[filter_name], spaces[0])), spaces[1]


def _settled(entry: ResolvedPolicy, env: BatchedEnv, filter_name: str) -> GraphConfig:
    """A policy's config, completed by what is known of the environment's agents."""
    agents = {
        agent: _seen(env.groups[group], filter_name)[0] for group, own in env.agents.items() for agent in own
    }
    return registry.load("policy_graph", entry.graph).settled(graph_config(entry), agents)


def _reward_filters(name: str, specs: Mapping[str, GraphSpec]) -> dict[str, RewardFilter]:
    """One for each policy, by the discount that it learns with. Workers get them made: they do not know graphs."""
    discounts = {policy_id: spec.config.discount for policy_id, spec in specs.items()}
    made = {policy_id: REWARD_FILTERS[name](discount) for policy_id, discount in discounts.items()}
    return {policy_id: one for policy_id, one in made.items() if one is not None}


def _begin(spec: GraphSpec, start: Start | None) -> tuple[GraphSpec, Actor | None]:
    """A policy's spec and actor; it begins with the state, or at least the weights, that it is to start from."""
    if start is not None and start.state is not None:
        spec = replace(spec, start=start.state)
    graph = spec.build()
    if start is not None and start.state is None:
        graph.set_weights(start.weights)
        spec = replace(spec, start=graph.get_state())
    return spec, graph.actor()


def collect_of(evaluators: EvaluatorSettings) -> Collect:
    """What one sample of an evaluator is."""
    if evaluators.episodes is not None:
        return Episodes(evaluators.episodes)
    assert evaluators.fragment is not None, "resolving fills it in"
    return Fragment(evaluators.fragment)


def _start_evaluators(
    maker: EvaluatorMaker, settings: EvaluatorSettings, runtime: Runtime, env: BatchedEnv, hooks: Hooks
) -> EvaluatorSet:
    def on_loss(index: int, cause: str) -> None:
        on_other_loss("evaluator", index, cause)

    def on_other_loss(worker: str, index: int, cause: str) -> None:
        hooks.call.worker_lost(index=index, cause=cause, worker=worker)

    def on_vacancy(places: Sequence[int], size: int) -> None:
        hooks.call.places_vacant(places=places, size=size)

    if not settings.count:
        # Optimizers may have other workers, which are lost as evaluators are.
        local = maker.sampler(0, env)
        return EvaluatorSet(runtime, local, timeout_s=settings.timeout_s, on_other_loss=on_other_loss)
    each = Resources(settings.cpus, settings.gpus, settings.custom)
    runtime.require([Demand("evaluators.count", settings.count, each)])
    samplers = replace(maker, runtime=runtime.child(), devices=("cuda",) if settings.gpus else maker.devices)
    builders = [functools.partial(samplers.sampler, i) for i in range(settings.count)]
    rule = RoundRule(settings.sample_fraction, settings.sample_timeout_s, settings.max_late_rounds)
    return EvaluatorSet(
        runtime,
        maker.idle(env),
        builders,
        resources=each,
        timeout_s=settings.timeout_s,
        room_timeout_s=settings.room_timeout_s,
        rule=rule,
        on_loss=on_loss,
        on_other_loss=on_other_loss,
        on_vacancy=on_vacancy,
    )


@dataclass(frozen=True)
class _Training:
    """An optimizer that is to be made, and the policies that it trains."""

    name: str
    optimizer: type[PolicyOptimizer]
    config: OptimizerConfig
    policy_ids: tuple[str, ...]

    @property
    def follows(self) -> str | None:
        """The policy that its own follow; None where they learn themselves."""
        return self.optimizer.follows(self.config)


def _made(
    training: _Training, evaluators: EvaluatorSet, runtime: Runtime, stop: Mapping[str, float]
) -> PolicyOptimizer:
    prospect = Prospect(evaluators.local, runtime, training.config, training.policy_ids, stop)
    announce(training.optimizer.remarks(prospect))
    return training.optimizer(evaluators.local, evaluators, runtime, training.config, training.policy_ids)


def _trainings(run: Resolved) -> list[_Training]:
    """One for all policies that are trained with the same settings. ``ConfigError`` where they cannot be together."""
    groups: dict[str, list[str]] = {}
    for policy_id, entry in run.policies.items():
        if entry.trained:
            groups.setdefault(json.dumps(entry.optimizer.model_dump(), sort_keys=True), []).append(policy_id)
    if not groups:
        raise ConfigError("policies: none of them is trained")
    found = []
    for i, policy_ids in enumerate(groups.values()):
        settings = run.policies[policy_ids[0]].optimizer
        optimizer, config = registry.load("optimizer", settings.name), optimizer_config(settings, run.config, i)
        found.append(_Training(settings.name, optimizer, config, tuple(policy_ids)))
    check_together([one.name for one in found], [one.optimizer for one in found])
    _check_followed(found, run)
    return found


def _check_followed(trainings: Sequence[_Training], run: Resolved) -> None:
    """``ConfigError`` where policies follow one that does not learn: nothing would come of it.

    A name that is no policy's, or one of its own, an optimizer refuses in its own words.
    """
    learning = {policy_id for one in trainings if one.follows is None for policy_id in one.policy_ids}
    for one in trainings:
        if one.follows in run.policies and one.follows not in learning.union(one.policy_ids):
            own = ", ".join(f"'{policy_id}'" for policy_id in one.policy_ids)
            raise ConfigError(
                f"policies: {own} (optimizer {one.name}) can only become what '{one.follows}' was, and that one does "
                "not learn; train it"
            )
