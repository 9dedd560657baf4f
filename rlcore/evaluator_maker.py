"""EvaluatorMaker: makes the evaluators of a run, wherever they live. Every worker that samples imports it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore.env import BatchedEnv
from rlcore.envs import EnvSource
from rlcore.graph_spec import GraphSpec
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Actor
from rlcore.policy_mapping import PolicyOf
from rlcore.runtime.base import Runtime
from rlcore.sampling.collect import Collect, Episodes
from rlcore.sampling.episode import Episode
from rlcore.sampling.filters import ObservationFilter
from rlcore.sampling.reward_filters import RewardFilter
from rlcore.seeding import Purpose, seed_for


@dataclass(frozen=True)
class EvaluatorMaker:
    """What the evaluators of a run have in common; picklable, so that workers can make theirs.

    ``envs`` and ``collect`` are those of evaluators that collect experience; ``actors`` holds None for policies that
    only their graphs can act for, ``reward_filters`` unused ones of the policies that have any. Of an
    evaluation that is filmed the first ``film_episodes`` are, or all.
    """

    env: EnvSource
    env_settings: Mapping[str, Any]
    envs: int
    collect: Collect
    observation_filter: type[ObservationFilter]
    reward_filters: Mapping[str, RewardFilter]
    seed: int
    policy_of: PolicyOf | Mapping[Any, str] | None
    specs: Mapping[str, GraphSpec]
    actors: Mapping[str, Actor | None]
    worker_hooks: tuple[object, ...] = ()
    film_episodes: int | None = None
    #: Where graphs compute in evaluators that collect experience.
    devices: tuple[str, ...] = ("cpu",)
    #: What policies that spread their acting do it with, where they are made.
    runtime: Runtime | None = None

    def sampler(self, index: int, env: BatchedEnv | None = None) -> PolicyEvaluator:
        """The ``index``-th of the evaluators that collect experience, in ``env`` where that is built already."""
        return self._make(self.envs, self.collect, index, on_episode=self._events(index), env=env)

    def idle(self, env: BatchedEnv) -> PolicyEvaluator:
        """The driver's own evaluator where others sample."""
        return self._make(1, self.collect, env=env)

    def for_evaluation(self, envs: int, episodes: Episodes, film: Path | None) -> PolicyEvaluator:
        """One that plays deterministically; it is reseeded before each evaluation. ``film`` is a folder for videos."""
        source = self.env
        if film is not None:
            from rlcore.video import FilmSource

            source = FilmSource(source, film, episodes, self.film_episodes)
        return self._make(envs, episodes, explore=False, source=source)

    def _events(self, index: int) -> Callable[[Episode], None] | None:
        if not self.worker_hooks:
            return None
        from rlcore.episode_events import EpisodeEvents

        return EpisodeEvents(index, self.worker_hooks)

    def _make(
        self,
        envs: int,
        collect: Collect,
        index: int = 0,
        *,
        explore: bool = True,
        on_episode: Callable[[Episode], None] | None = None,
        env: BatchedEnv | None = None,
        source: EnvSource | None = None,
    ) -> PolicyEvaluator:
        # Copies: evaluators in one process must share neither actors nor filters.
        actors, reward_filters = pickle.loads(pickle.dumps((self.actors, self.reward_filters)))
        return PolicyEvaluator(
            env=(source or self.env) if env is None else lambda: env,
            env_settings=self.env_settings if env is None else {},
            num_envs=envs,
            collect=collect,
            policies={policy_id: actors[policy_id] or spec for policy_id, spec in self.specs.items()},
            policy_of=self.policy_of,
            specs=self.specs,
            rng=seed_for(self.seed, Purpose.EVALUATOR, index),
            explore=explore,
            observation_filter=self.observation_filter,
            reward_filters=reward_filters if explore else {},
            index=index,
            on_episode=on_episode,
            devices=self.devices,
            runtime=self.runtime,
        )
