"""PolicyEvaluator: policies and environments that collect experience. Not the evaluation of a trained policy."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.acting.spread import SpreadActing
from rlcore.batch import DEFAULT_POLICY, MultiAgentBatch, SampleBatch
from rlcore.env import BatchedEnv
from rlcore.envs import EnvSource, build_env
from rlcore.errors import UserError
from rlcore.evaluator_messages import Metrics, SampleInfo, Update
from rlcore.evaluator_task import EvaluatorTask
from rlcore.graph_spec import GraphSpec
from rlcore.group_member import GroupMember
from rlcore.optim import all_finite
from rlcore.policy_graph import Actor, GradientOutput, GraphConfig, PolicyGraph, Progress, Weights
from rlcore.policy_mapping import PolicyOf, policy_function, spaces_by_policy
from rlcore.policy_source import PolicySource, policy_from
from rlcore.recent_samples import RecentSamples
from rlcore.returns import as_transitions
from rlcore.runtime.base import Runtime
from rlcore.sample_products import SampleProduct
from rlcore.sampling.collect import Collect, Episodes, Fragment
from rlcore.sampling.collected import Collected, Played, check_rewards
from rlcore.sampling.columnar import ColumnarSampler
from rlcore.sampling.episode import Episode
from rlcore.sampling.filters import NoFilter, ObservationFilter, SharedStatistics, filtered_space, leaf_filters
from rlcore.sampling.general import GeneralSampler
from rlcore.sampling.held_back import HeldBack
from rlcore.sampling.observation_check import ObservationCheck
from rlcore.sampling.policy_filters import (
    Deltas,
    Filters,
    get_states,
    get_statistics,
    set_states,
    set_statistics,
    take_deltas,
)
from rlcore.sampling.reward_filters import REWARD_STATISTICS, RewardFilter
from rlcore.sampling.role import Role
from rlcore.seeding import seed_sequence
from rlcore.snapshots import SnapshotKeeper

#: Which stream of an evaluator's seed is that of its replacements, beside those that it is made with.
_LIVES = 2


class PolicyEvaluator(GroupMember, SnapshotKeeper):
    """Samples with its policies in its environments, and computes gradients where it holds the policies' graphs.

    ::

        evaluator = PolicyEvaluator(env="CartPole-v1", graph=PolicyGradient, num_envs=8)
        batch = evaluator.sample()                         # SampleBatch, or MultiAgentBatch where policies= was given
        output = evaluator.gradients(batch)["default"]
        evaluator.apply_gradients({"default": output.gradients})

    ``graph`` is the one policy, known as ``"default"``; ``policies`` is ``{policy_id: policy}``, with ``policy_of``
    (a mapping or a function from agent id to policy id) where there are several. ``config`` is the graph's (its
    ``Config`` or a plain mapping), used where a class is given. ``rng`` is a generator, a ``SeedSequence`` or a seed.
    Graphs that are built here compute on ``devices``; policies that spread their acting do it with ``runtime``.
    """

    def __init__(
        self,
        *,
        env: EnvSource,
        graph: PolicySource | None = None,
        env_settings: Mapping[str, Any] | None = None,
        num_envs: int = 1,
        collect: Collect = Fragment(200),
        policies: Mapping[str, PolicySource] | None = None,
        policy_of: PolicyOf | Mapping[Any, str] | None = None,
        config: GraphConfig | Mapping[str, Any] | None = None,
        specs: Mapping[str, GraphSpec] | None = None,
        rng: np.random.Generator | np.random.SeedSequence | int | None = None,
        explore: bool = True,
        observation_filter: type[ObservationFilter] = NoFilter,
        reward_filters: Mapping[str, RewardFilter] | None = None,
        check_observations: bool = True,
        devices: Sequence[str] = ("cpu",),
        index: int = 0,
        on_episode: Callable[[Episode], None] | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        if (graph is None) == (policies is None):
            raise UserError("give a PolicyEvaluator either graph= or policies=")
        super().__init__()
        self._lone = graph is not None
        sources = {DEFAULT_POLICY: graph} if graph is not None else dict(policies or {})
        self._collect, self._observation_filter = collect, observation_filter
        self._check, self._devices = check_observations, devices
        self._on_episode, self._index = on_episode, index
        self._seed = seed_sequence(rng)
        seeds = self._seed.spawn(2)
        self._rng = np.random.default_rng(seeds[0])
        self.env: BatchedEnv = build_env(env, num_envs, env_settings or {})
        self._policy_of = policy_function(policy_of, tuple(sources))
        raw_spaces = spaces_by_policy(self.env, self._policy_of, tuple(sources))
        observed = {name: leaf_filters(observation_filter, own[0]) for name, own in raw_spaces.items()}
        spaces = {name: (filtered_space(own[0], observed[name]), own[1]) for name, own in raw_spaces.items()}
        self.filters: Filters = {name: dict(own) for name, own in observed.items()}
        self._reward_filters = dict(reward_filters or {})
        for policy_id, scaled in self._reward_filters.items():
            if isinstance(scaled, SharedStatistics):
                self.filters[policy_id][REWARD_STATISTICS] = scaled
        self._specs: dict[str, GraphSpec] = dict(specs or {})
        self.policies: dict[str, PolicyGraph | Actor] = {}
        for (policy_id, source), seed in zip(sources.items(), seeds[1].spawn(len(sources)), strict=True):
            policy, spec = policy_from(source, spaces[policy_id], config, seed, self.env, devices)
            self.policies[policy_id] = policy
            if policy.lookahead and policy.postprocess is None:
                raise UserError(f"policy '{policy_id}' looks ahead, so its actor has to offer postprocess")
            if spec is not None:
                self._specs.setdefault(policy_id, spec)
            if isinstance(policy, SpreadActing) and runtime is not None:
                policy.spread(runtime)
        self._graphs = {name: policy for name, policy in self.policies.items() if isinstance(policy, PolicyGraph)}
        self._stale: set[str] = set()
        self._roles = {
            policy_id: Role(
                policy_id,
                policy,
                *spaces[policy_id],
                observed[policy_id],
                check=ObservationCheck(raw_spaces[policy_id][0], self.env.name) if check_observations else None,
                env_name=self.env.name,
            )
            for policy_id, policy in self.policies.items()
        }
        self._sampler = self._make_sampler(index, explore)
        self._held = HeldBack()
        self._leaves_rho = any(policy.postprocess is None for policy in self.policies.values())
        self._metrics = Metrics()
        self._samples = 0
        self._recent = RecentSamples()
        #: What tasks of optimizers keep here from one call to the next, by names of their own; it is in no state.
        self.kept: dict[str, Any] = {}

    @classmethod
    def remote(cls, **same: Any) -> Any:
        """The same thing as a Ray actor: its handle, whose methods are called as ``handle.sample.remote()``.

        Takes the arguments of the class; ``env`` and ``graph`` may be classes and functions of a script. Where this
        process is not connected to Ray, a Ray of its own is started until it ends. Within the runtimes of rlcore,
        evaluators are spawned by an ``EvaluatorSet`` instead.
        """
        from rlcore.runtime.ray.remote import remote_object

        return remote_object(cls, (), same)

    def _make_sampler(self, index: int, explore: bool) -> ColumnarSampler | GeneralSampler:
        if self.env.lockstep and len(self._roles) == 1:
            (role,) = self._roles.values()
            return ColumnarSampler(self.env, role, index=index, explore=explore, rng=self._rng)
        return GeneralSampler(self.env, self._roles, self._policy_of, index=index, explore=explore, rng=self._rng)

    @property
    def samples(self) -> int:
        """How many it has collected."""
        return self._samples

    @property
    def roles(self) -> Mapping[str, Role]:
        """By policy, how it takes part: its filters, spaces and version."""
        return self._roles

    @property
    def reward_filters(self) -> Mapping[str, RewardFilter]:
        """By policy, what scales the rewards of its samples, where something does."""
        return self._reward_filters

    @property
    def policy_of(self) -> Callable[[Any], str]:
        """Which policy acts for an agent."""
        return self._policy_of

    @property
    def collect(self) -> Collect:
        """How much one sample is."""
        return self._collect

    # -- sampling

    def sample(self) -> SampleBatch | MultiAgentBatch:
        """One fragment or the episodes that ``collect`` says, postprocessed where the policies can do it here."""
        batch = self._sample()
        self._samples += 1
        return batch[DEFAULT_POLICY] if self._lone else batch

    def sample_counted(self) -> tuple[SampleInfo, MultiAgentBatch]:
        """The counts and the sample as two results, so that a driver can count without fetching the sample."""
        batch = self._sample()
        units = batch.policies.items()
        info = SampleInfo(
            number=self._samples,
            env_steps=batch.env_steps,
            rows={name: len(part) for name, part in units},
            pieces={name: part.pieces for name, part in units},
            version=max(role.version for role in self._roles.values()),
            filters=self.take_filter_deltas(),
            metrics=self.metrics(),
        )
        self._recent.add(self._samples, batch)
        self._samples += 1
        return info, batch

    def sample_products(self, products: Sequence[SampleProduct | None]) -> tuple[Any, ...]:
        """The counts with the notes of ``products``, then the products' results, where there are any; None stands for
        the sample itself."""
        info, batch = self.sample_counted()
        made = [(None, batch) if product is None else product.make(self, batch) for product in products]
        told = info, [note for note, *_ in made]
        results = [result for _, *own in made for result in own]
        return (told, *results) if results else told

    def _sample(self) -> MultiAgentBatch:
        self._refresh_actors()
        collected = self._sampler.collect(self._collect)
        if self._check:
            for batch in collected.batches.values():
                check_rewards(batch, self.env.name)
        for policy_id, scaled in self._reward_filters.items():
            if policy_id in collected.batches:
                scaled.scale(collected.batches[policy_id])
        self.note(collected)
        batches = {name: self._postprocess(name, batch, collected) for name, batch in collected.batches.items()}
        return MultiAgentBatch(batches, collected.env_steps, collected.agents if self._leaves_rho else None)

    def play(self) -> list[Episode]:
        """The episodes that ``collect`` says, played and not recorded: they appear in ``metrics``, and are returned.

        ``UserError`` for an evaluator that collects fragments.
        """
        if not isinstance(self._collect, Episodes):
            raise UserError("episodes are played by an evaluator that collects Episodes, not fragments")
        self._refresh_actors()
        played = self._sampler.play(self._collect)
        self.note(played)
        return played.episodes

    def perform(self, task: EvaluatorTask, *args: Any) -> Any:
        """Has ``task`` do what an optimizer wants done here beside sampling, with this evaluator and ``args``."""
        self._refresh_actors()
        return task.perform(self, *args)

    def note(self, happened: Collected | Played) -> None:
        """Has episodes that ended here appear in ``metrics``, and tells hooks of them."""
        self._metrics.episodes += happened.episodes
        self._metrics.lost_steps += happened.lost_steps
        if self._on_episode is not None:
            for episode in happened.episodes:
                self._on_episode(episode)

    def _postprocess(self, policy_id: str, batch: SampleBatch, collected: Collected) -> SampleBatch:
        policy = self.policies[policy_id]
        rho = policy.postprocess
        if rho is None:
            return batch
        if not policy.lookahead:
            return rho(batch, collected.agents)
        raw, complete = self._held.advance(policy_id, batch, policy.lookahead, collected.broken)
        if isinstance(self._collect, Episodes):
            self._held.clear()
        return as_transitions(rho(raw, collected.agents)).take_pieces(complete)

    # -- learning

    def graph(self, policy_id: str) -> PolicyGraph:
        """The policy's graph, built from its spec when first needed; from then on it acts through its actor."""
        if policy_id not in self._graphs:
            graph = self.graph_spec(policy_id).build(self._devices)
            graph.set_weights(self._known_weights(policy_id, graph))
            self._graphs[policy_id] = graph
        return self._graphs[policy_id]

    def _known_weights(self, policy_id: str, graph: PolicyGraph) -> Weights:
        weights: Weights = self.policies[policy_id].get_state()["weights"]
        return {name: array for name, array in weights.items() if name in graph.acting}

    def gradients(
        self,
        batch: SampleBatch | MultiAgentBatch,
        units: NDArray[np.int64] | Mapping[str, NDArray[np.int64]] | None = None,
    ) -> dict[str, GradientOutput]:
        """Each policy's gradients on its batch, or on its ``units`` of it. Policies without any are left out."""
        result = {}
        for policy_id, part in MultiAgentBatch.of(batch).items():
            own = units.get(policy_id) if isinstance(units, Mapping) else units
            if not len(part) or (isinstance(units, Mapping) and (own is None or not len(own))):
                continue
            result[policy_id] = self.drawing_graph(policy_id, self._samples).gradients(part, own)
        return result

    def drawing_graph(self, policy_id: str, number: int) -> PolicyGraph:
        """The policy's graph, whose loss draws what it needs for the sample ``number`` of this evaluator and life."""
        graph = self.graph(policy_id)
        graph.draw_apart((self._index, self._sampler.book.life, number))
        return graph

    def keep_samples(self, count: int) -> None:
        """From now on the last ``count`` samples are kept for ``gradients_apart``."""
        self._recent.keep(count)

    def gradients_apart(
        self, number: int, units: Mapping[str, NDArray[np.int64]]
    ) -> tuple[dict[str, GradientOutput], dict[str, Weights], dict[str, int]]:
        """Gradients on ``units`` of the recent sample ``number``, which stays where it was collected.

        What is to be said of them, the arrays, and how many samples they are of, apart from each other, so that a
        driver can have them averaged without fetching them. ``UserError`` for a sample that is not kept any more.
        """
        sample, outputs = self._recent[number], {}
        for policy_id, own in units.items():
            if len(own):
                graph = self.drawing_graph(policy_id, number)
                outputs[policy_id] = graph.gradients(sample.pinned(policy_id, graph), own)
        gradients = {policy_id: output.gradients for policy_id, output in outputs.items()}
        told = {policy_id: replace(output, gradients={}) for policy_id, output in outputs.items()}
        return told, gradients, {policy_id: output.count for policy_id, output in outputs.items()}

    def apply_gradients(self, gradients: Mapping[str, Weights]) -> None:
        """One optimizer step of each policy named."""
        for policy_id, own in gradients.items():
            self.graph(policy_id).apply_gradients(own)
            self._stale.add(policy_id)

    def apply_finite(self, gradients: Mapping[str, Weights]) -> None:
        """One optimizer step of each policy whose gradients are finite."""
        self.apply_gradients({policy_id: own for policy_id, own in gradients.items() if all_finite(own)})

    def _refresh_actors(self) -> None:
        """Actors of policies whose graphs have learnt here get the new weights, when they are next needed."""
        for policy_id in self._stale:
            policy, graph = self.policies[policy_id], self._graphs[policy_id]
            if policy is not graph:
                policy.set_weights(graph.get_weights(graph.acting))
        self._stale.clear()

    # -- what is sent around

    def get_weights(self) -> dict[str, Weights]:
        """``{policy_id: {name: array}}``: all of a graph's, what an actor has of an actor's."""
        return {
            policy_id: self._graphs[policy_id].get_weights()
            if policy_id in self._graphs
            else policy.get_state()["weights"]
            for policy_id, policy in self.policies.items()
        }

    def set_weights(self, weights: Mapping[str, Weights], version: int) -> None:
        """Replaces the named weights of the named policies; samples carry ``version`` from now on."""
        for policy_id, own in weights.items():
            graph = self._graphs.get(policy_id)
            if graph is not None:
                graph.set_weights(own)
            if self.policies[policy_id] is not graph:
                # What a graph learns with is more than acting needs.
                acting = own if graph is None else {name: own[name] for name in own if name in graph.acting}
                self.policies[policy_id].set_weights(acting)
            self._roles[policy_id].version = version

    def version(self, policy_id: str) -> int:
        """That of the policy's weights; 0 for those that it began with."""
        return self._roles[policy_id].version

    def on_progress(self, progress: Mapping[str, Progress]) -> None:
        """Passes a run's progress to the policies: their schedules go by it."""
        for policy_id, own in progress.items():
            for policy in {id(p): p for p in (self.policies[policy_id], self._graphs.get(policy_id)) if p}.values():
                policy.on_progress(own)

    def receive(self, update: Update, *parts: Any) -> None:
        """Weights, progress and filters in one message; ``parts`` where the weights are not in it, or made of them."""
        weights = update.weights
        if parts:
            weights = parts[0] if update.replica is None else update.replica.weights(self, parts)
        # Weights come last: they are what the sender's graphs had after that progress, targets included.
        self.on_progress(update.progress)
        self.set_weights(weights, update.version)
        for policy_id in update.progress:
            self._roles[policy_id].version = update.version
        self.set_filters(update.filters)

    def take_filter_deltas(self) -> Deltas:
        """What the filters have seen since they were last asked."""
        return take_deltas(self.filters)

    def set_filters(self, filters: Mapping[str, Mapping[str, Any]]) -> None:
        """Takes over the merged statistics; those of rewards where it scales any."""
        set_statistics(self.filters, filters)

    def set_graph_states(self, states: Mapping[str, dict[str, Any]]) -> None:
        """Makes the policies' graphs what those are that ``states`` come from, optimizers included."""
        for policy_id, state in states.items():
            self.graph(policy_id).set_state(state)
            self._stale.add(policy_id)

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Draws from ``seed`` from now on, in acting and for the seeds of environments that are reset."""
        self._rng.bit_generator.state = np.random.default_rng(seed).bit_generator.state

    def begin_again(self, life: int) -> None:
        """Takes the place of an evaluator that was lost, as the ``life``-th to do so: before its first sample.

        It draws from a stream of its own, and numbers its episodes apart from those before.
        """
        own = np.random.SeedSequence(self._seed.entropy, spawn_key=(*self._seed.spawn_key, _LIVES, life))
        self.reseed(own)
        self._sampler.book.life = life

    def graph_spec(self, policy_id: str) -> GraphSpec:
        """What builds the policy's graph elsewhere. ``UserError`` where only a finished policy was given."""
        if policy_id not in self._specs:
            raise UserError(f"policy '{policy_id}' was given finished: there is no spec to build it from")
        return self._specs[policy_id]

    def fork(
        self, specs: Mapping[str, GraphSpec], rng: np.random.Generator | np.random.SeedSequence | int
    ) -> PolicyEvaluator:
        """Another evaluator in the same environments, for an optimizer within a task: with the policies that ``specs``
        make, this one's own where they make none, filters that start from the statistics here, and new episodes. While
        it is used this one is not."""
        actors = {policy_id: spec.build().actor() for policy_id, spec in specs.items()}
        made = {policy_id: actors[policy_id] or spec for policy_id, spec in specs.items()}
        fork = PolicyEvaluator(
            env=lambda: self.env,
            policies={**self.policies, **made},
            policy_of=self._policy_of,
            specs={**self._specs, **specs},
            num_envs=self.env.num_slots,
            collect=self._collect,
            rng=rng,
            observation_filter=self._observation_filter,
            reward_filters=copy.deepcopy(self._reward_filters),
            check_observations=self._check,
            devices=self._devices,
            index=self._index,
            on_episode=self._on_episode,
        )
        fork.set_filters(self.filter_statistics())
        return fork

    def filter_statistics(self) -> dict[str, dict[str, Any]]:
        """The statistics that the filters go by, by policy and leaf."""
        return get_statistics(self.filters)

    def call(self, policy_id: str, utility: str, *args: Any) -> Any:
        """Calls utility ``u^i`` of a policy by name."""
        return self.policies[policy_id].call(utility, *args)

    def slots(self) -> int:
        """How many environments it samples."""
        return self.env.num_slots

    def metrics(self) -> Metrics:
        """Finished episodes and restarted slots since the last call."""
        metrics, self._metrics = self._metrics, Metrics()
        return metrics

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly: environments, open episodes, filters, random state."""
        self._refresh_actors()
        return {
            "rng": self._rng.bit_generator.state,
            "env": self.env.get_state(),
            "sampler": self._sampler.get_state(),
            "policies": {name: policy.get_state() for name, policy in self.policies.items()},
            "graphs": {
                name: graph.get_state() for name, graph in self._graphs.items() if graph is not self.policies[name]
            },
            "versions": {name: role.version for name, role in self._roles.items()},
            "filters": get_states(self.filters),
            "held": self._held.get_state(),
            "samples": self._samples,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree; slots that could not be restored begin anew and appear in ``metrics``."""
        self._rng.bit_generator.state = state["rng"]
        self._samples = int(state["samples"])
        for policy_id, own in state["policies"].items():
            self.policies[policy_id].set_state(own)
        for policy_id, own in state["graphs"].items():
            self.graph(policy_id).set_state(own)
        for policy_id, version in state["versions"].items():
            self._roles[policy_id].version = version
        set_states(self.filters, state["filters"])
        if not state["sampler"]["started"]:
            restarted = []
        elif state["env"] is not None:
            restarted = self.env.set_state(state["env"])
        else:
            self.env.reset(int(self._rng.integers(2**31)))
            restarted = list(range(self.env.num_slots))
        self._metrics.restarts = list(restarted)
        self._sampler.set_state(state["sampler"], restarted)
        self._held.set_state(state["held"], restarted)

    def close(self) -> None:
        """Closes the environments, and ends workers of policies; may be called twice."""
        for policy in self.policies.values():
            if isinstance(policy, SpreadActing):
                policy.act_alone()
        self.leave_groups()
        self.env.close()
