"""From resolved settings to the parts of a run: graphs, evaluators, optimizers. It builds them and drives nothing."""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlcore import registry
from rlcore.config import EvaluatorSettings, RunConfig
from rlcore.env import Spaces
from rlcore.envs import build_env
from rlcore.errors import ConfigError
from rlcore.evaluation import Evaluation
from rlcore.evaluator_set import EvaluatorSet
from rlcore.hooks import Hooks, load_hooks
from rlcore.model import BatchedModel
from rlcore.policy_evaluator import PolicyEvaluator, filtered_space
from rlcore.policy_graph import Actor, GraphSpec
from rlcore.policy_mapping import PolicyOf, policy_function, spaces_by_policy
from rlcore.policy_optimizer import PolicyOptimizer
from rlcore.resolve import Resolved, graph_config, optimizer_config
from rlcore.restoring import Start
from rlcore.runtime.base import Runtime
from rlcore.sampling.collect import Collect, Episodes, Fragment
from rlcore.sampling.episode import Episode
from rlcore.sampling.filters import leaf_filters
from rlcore.saved_policies import FILTERS
from rlcore.seeding import Purpose, seed_for


@dataclass
class Parts:
    """The parts of one run, built and not yet used."""

    runtime: Runtime
    env_name: str
    #: The environment's spaces, before the filter.
    spaces: Mapping[str, Spaces]
    specs: dict[str, GraphSpec]
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
    setting = _look_at_env(config, policy_of, tuple(run.policies))
    specs = {
        policy_id: GraphSpec(
            registry.load("policy_graph", str(entry.graph)),
            *_seen(setting.spaces[policy_id], config.filter),
            graph_config(entry),
            seed_for(config.seed, Purpose.GRAPH, i),
            setting.model,
        )
        for i, (policy_id, entry) in enumerate(run.policies.items())
    }
    specs |= {policy_id: _started(specs[policy_id], start) for policy_id, start in starts.items()}
    actors = {policy_id: spec.build().actor() for policy_id, spec in specs.items()}
    maker = EvaluatorMaker(config, policy_of, specs, actors, hooks.for_workers())
    runtime = registry.load("runtime", str(config.runtime))()
    evaluators = _start_evaluators(maker, config.evaluators, runtime)
    try:
        optimizers = _build_optimizers(run, evaluators, runtime)
    except BaseException:
        evaluators.close()
        raise
    if starts:
        evaluators.set_filters({policy_id: start.filter_states for policy_id, start in starts.items()})
    evaluation = Evaluation(maker.for_evaluation, config.seed)
    return Parts(runtime, setting.env_name, setting.spaces, specs, actors, evaluators, optimizers, evaluation)


@dataclass(frozen=True)
class _Setting:
    """What the graphs need to know of the environment."""

    env_name: str
    spaces: Mapping[str, Spaces]
    model: BatchedModel | None


def _look_at_env(config: RunConfig, policy_of: PolicyOf | Mapping[Any, str] | None, ids: tuple[str, ...]) -> _Setting:
    env = build_env(config.env, 1, config.env_settings)
    try:
        return _Setting(env.name, spaces_by_policy(env, policy_function(policy_of, ids), ids), env.model())
    finally:
        env.close()


def _seen(spaces: Spaces, filter_name: str) -> Spaces:
    """The spaces as the policy has them: observations come through the filter."""
    return filtered_space(spaces[0], leaf_filters(FILTERS[filter_name], spaces[0])), spaces[1]


def _started(spec: GraphSpec, start: Start) -> GraphSpec:
    """A spec whose graph begins with the state, or at least the weights, of another run."""
    if start.state is not None:
        return replace(spec, start=start.state)
    graph = spec.build()
    graph.set_weights(start.weights)
    return replace(spec, start=graph.get_state())


def load_policy_of(policy_of: Any) -> PolicyOf | Mapping[Any, str] | None:
    """The function or mapping that the config's ``policy_of`` stands for."""
    if not isinstance(policy_of, str):
        return policy_of  # type: ignore[no-any-return]  # the config has checked it
    found = registry.import_object(policy_of)
    if not callable(found) and not isinstance(found, Mapping):
        raise ConfigError(f"policy_of: '{policy_of}' is neither a function nor a mapping")
    return found  # type: ignore[no-any-return]


@dataclass(frozen=True)
class EvaluatorMaker:
    """Makes the evaluators of a run; picklable, so that workers can call it."""

    config: RunConfig
    policy_of: PolicyOf | Mapping[Any, str] | None
    specs: Mapping[str, GraphSpec]
    actors: Mapping[str, Actor | None]
    worker_hooks: tuple[object, ...] = ()

    def sampler(self, index: int) -> PolicyEvaluator:
        """The ``index``-th of the evaluators that collect experience."""
        events = EpisodeEvents(index, self.worker_hooks) if self.worker_hooks else None
        return self._make(self.config.evaluators.envs, collect_of(self.config.evaluators), index, events)

    def idle(self) -> PolicyEvaluator:
        """The driver's own evaluator where others sample."""
        return self._make(1, collect_of(self.config.evaluators), 0, None)

    def for_evaluation(self, envs: int, episodes: Episodes) -> PolicyEvaluator:
        """One that plays deterministically; its random state is set before each evaluation."""
        return self._make(envs, episodes, 0, None, explore=False)

    def _make(
        self,
        envs: int,
        collect: Collect,
        index: int,
        on_episode: Callable[[Episode], None] | None,
        explore: bool = True,
    ) -> PolicyEvaluator:
        # Copies: evaluators in one process must not share an actor.
        actors = pickle.loads(pickle.dumps(self.actors))
        return PolicyEvaluator(
            env=self.config.env,
            env_settings=self.config.env_settings,
            num_envs=envs,
            collect=collect,
            policies={policy_id: actors[policy_id] or spec for policy_id, spec in self.specs.items()},
            policy_of=self.policy_of,
            specs=self.specs,
            rng=seed_for(self.config.seed, Purpose.EVALUATOR, index),
            explore=explore,
            observation_filter=FILTERS[self.config.filter],
            index=index,
            on_episode=on_episode,
        )


class EpisodeEvents:
    """Tells the workers' hooks of finished episodes; they are loaded in the worker, when the first one finishes."""

    def __init__(self, worker: int, given: tuple[object, ...]) -> None:
        self._worker = worker
        self._given = given
        self._hooks: Hooks | None = None

    def __call__(self, episode: Episode) -> None:
        if self._hooks is None:
            self._hooks = load_hooks(self._given, installed=False)
        self._hooks.call.episode_end(worker=self._worker, episode=episode)


def collect_of(evaluators: EvaluatorSettings) -> Collect:
    """What one sample of an evaluator is."""
    if evaluators.episodes is not None:
        return Episodes(evaluators.episodes)
    assert evaluators.fragment is not None, "resolving fills it in"
    return Fragment(evaluators.fragment)


def _start_evaluators(maker: EvaluatorMaker, settings: EvaluatorSettings, runtime: Runtime) -> EvaluatorSet:
    if not settings.count:
        return EvaluatorSet(runtime, maker.sampler(0))
    builders = [functools.partial(maker.sampler, i) for i in range(settings.count)]
    return EvaluatorSet(runtime, maker.idle(), builders)


def _build_optimizers(run: Resolved, evaluators: EvaluatorSet, runtime: Runtime) -> list[PolicyOptimizer]:
    """One optimizer for all policies that are trained with the same settings."""
    groups: dict[str, list[str]] = {}
    for policy_id, entry in run.policies.items():
        if entry.trained and entry.optimizer is not None:
            groups.setdefault(json.dumps(entry.optimizer.model_dump(), sort_keys=True), []).append(policy_id)
    if not groups:
        raise ConfigError("policies: none of them is trained")
    optimizers = []
    for i, policy_ids in enumerate(groups.values()):
        settings = run.policies[policy_ids[0]].optimizer
        assert settings is not None
        optimizer = registry.load("optimizer", str(settings.name))
        own = optimizer_config(settings, run.config, i)
        optimizers.append(optimizer(evaluators.local, evaluators, runtime, own, tuple(policy_ids)))
    return optimizers
