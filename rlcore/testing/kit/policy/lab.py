"""What the rules for policy graphs and actors look at: graphs built from one spec, and experience that they made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.batch import SampleBatch
from rlcore.columns import Columns, leaf_spaces
from rlcore.env import Spaces
from rlcore.envs import EnvSource, build_env
from rlcore.graph_spec import GraphSpec
from rlcore.model import BatchedModel
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import (
    Actor,
    ActOutput,
    ActRows,
    PolicyGraph,
    Progress,
    State,
)
from rlcore.returns import as_transitions
from rlcore.sampling.collect import Fragment
from rlcore.testing.kit.env.play import Player, leaves_of, play
from rlcore.testing.kit.policy.unprocessed import Unprocessed
from rlcore.testing.kit.report import Untested
from rlcore.testing.kit.rules import once
from rlcore.testing.kit.trees import batch_of, batch_tree, copied, difference, read_only

SLOTS, STEPS = 3, 24

#: Settings under which the gradients of a batch are the mean of those of its parts.
APART: Mapping[str, Any] = {"normalize_advantages": False}


class GraphLab:
    """Builds graphs of one class, config and environment, all from one spec, and samples with them."""

    def __init__(
        self,
        graph: type[PolicyGraph],
        env: EnvSource,
        config: Mapping[str, Any] | None = None,
        *,
        env_settings: Mapping[str, Any] | None = None,
        seed: int = 1,
        case: str = "",
    ) -> None:
        self.graph_class = graph
        self.env = env
        self.env_settings = dict(env_settings or {})
        self.config = dict(config or {})
        self.seed = seed
        self.case = case
        self._pool: dict[str, list[PolicyGraph]] = {}
        self._taken: dict[str, int] = {}
        self._beginnings: dict[str, dict[str, Any]] = {}

    @once
    def setting(self) -> tuple[Spaces, BatchedModel | None]:
        """The spaces and the model of the environment."""
        env = build_env(self.env, 1, self.env_settings)
        try:
            (spaces,) = env.groups.values()
            return spaces, env.model()
        finally:
            env.close()

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """What the graph sees."""
        return self.setting[0][0]

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """What it acts in."""
        return self.setting[0][1]

    # -- graphs

    def spec(self, seed: int = 0, **settings: Any) -> GraphSpec:
        """What builds a graph, with some settings changed."""
        config = self.graph_class.Config(**{**self.config, **settings})
        (observation_space, action_space), model = self.setting
        return GraphSpec(
            self.graph_class, observation_space, action_space, config, np.random.SeedSequence([self.seed, seed]), model
        )

    def build(self, seed: int = 0, **settings: Any) -> PolicyGraph:
        """A graph as it is when it is new, for one rule. All of one seed are to be equal.

        Building one may take long; where states bring a graph back to its beginning the same ones serve all rules.
        """
        assert self.template
        if not self.restorable:
            return self.spec(seed, **settings).build()
        key = repr((seed, sorted(settings.items())))
        pool, taken = self._pool.setdefault(key, []), self._taken.get(key, 0)
        self._taken[key] = taken + 1
        if taken == len(pool):
            pool.append(self.spec(seed, **settings).build())
            self._beginnings.setdefault(key, copied(pool[0].get_state()))
        else:
            pool[taken].set_state(copied(self._beginnings[key]))
        return pool[taken]

    def begin(self) -> None:
        """The graphs of the last rule may be used again."""
        self._taken.clear()

    @once
    def restorable(self) -> bool:
        """Whether a graph that has learnt and is given its first state again is as if it were new."""
        one, two = self.spec().build(), self.spec().build()
        try:
            start, batch = copied(one.get_state()), self.batch()
            for graph in (one, two):
                if graph is one:
                    graph.learn(batch)
                    graph.on_progress(Progress(1000, 24, 1, {}))
                    graph.set_state(start)
                graph.learn(batch)
            return difference(one.get_state(), two.get_state()) is None
        except Exception:  # whatever is wrong is for the rules to find
            return False

    def build_apart(self) -> PolicyGraph:
        """One whose gradients on a batch are the mean of those on its parts."""
        own = {name: value for name, value in APART.items() if name in self.graph_class.Config.model_fields}
        return self.build(0, **own)

    @once
    def template(self) -> PolicyGraph:
        """A graph that no rule may change."""
        return self.spec().build()

    def actor(self, graph: PolicyGraph) -> Actor:
        """Its actor; ``Untested`` where it has none."""
        actor = graph.actor()
        if actor is None:
            raise Untested("actor() gives None: the framework itself acts")
        return actor

    # -- experience

    def raw_batch(self, policy: PolicyGraph | Actor) -> SampleBatch:
        """What ``policy`` makes of the environment, before any postprocessing."""
        evaluator = PolicyEvaluator(
            env=self.env,
            env_settings=self.env_settings,
            graph=Unprocessed(policy),
            num_envs=SLOTS,
            collect=Fragment(STEPS),
            rng=self.seed,
        )
        try:
            batch = evaluator.sample()
        finally:
            evaluator.close()
        assert isinstance(batch, SampleBatch)
        return batch

    @once
    def raw(self) -> dict[str, dict[str, NDArray[Any]]]:
        """The tree of one raw batch."""
        return batch_tree(self.raw_batch(self.template))

    def raw_copy(self) -> SampleBatch:
        """A batch of its own, not yet postprocessed."""
        return batch_of(copied(self.raw))

    def finish(self, graph: PolicyGraph, batch: SampleBatch) -> SampleBatch:
        """``batch`` as the graph learns from it: with its rho, as transitions where that looks ahead."""
        finished = graph.postprocess(batch)
        return as_transitions(finished) if graph.lookahead else finished

    @once
    def learnable(self) -> dict[str, dict[str, NDArray[Any]]]:
        """The tree of one batch that graphs of this spec can learn from."""
        return batch_tree(self.finish(self.template, self.raw_copy()))

    def batch(self, locked: bool = False) -> SampleBatch:
        """A batch of its own to learn from; ``locked`` gives arrays that cannot be written to."""
        return batch_of((read_only if locked else copied)(self.learnable))

    def units(self) -> NDArray[np.int64]:
        """All minibatch units of that batch."""
        return np.arange(self.template.minibatch_unit.count(self.batch()))

    def minibatches(self, count: int = 3) -> list[NDArray[np.int64]]:
        """The units in ``count`` parts, shuffled."""
        return np.array_split(np.random.default_rng(5).permutation(self.units()), count)

    # -- acting

    @once
    def observations(self) -> dict[str, NDArray[Any]]:
        """Some observations by leaf, from random play."""
        env = build_env(self.env, SLOTS, self.env_settings)
        try:
            env.reset(self.seed)
            polls = play(env, Player.of(env, self.seed), STEPS).polls
        finally:
            env.close()
        steps = [step for polled in polls for step in polled.values()]
        return {
            leaf: np.concatenate([leaves_of(step.obs)[leaf][step.needs_action] for step in steps])
            for leaf in leaf_spaces(self.observation_space)
        }

    def obs(self, n: int) -> Columns:
        """``n`` observations, arrays of their own."""
        rows = len(next(iter(self.observations.values())))
        spread = np.arange(n) * max(1, rows // n) % rows
        taken = {leaf: np.array(array[spread]) for leaf, array in self.observations.items()}
        return taken[""] if taken.keys() == {""} else taken

    def state(self, policy: PolicyGraph | Actor, n: int) -> State:
        """A recurrent state that differs between ``n`` rows; ``()`` without recurrence."""
        state = policy.initial_state(n)
        for step in range(3):
            if state:
                state = policy.act(self.obs(n), state, rows=rows_of(n, step), rng=generator(step)).state
        return tuple(np.array(part) for part in state)

    def act(self, policy: PolicyGraph | Actor, n: int = 8, *, explore: bool = True, seed: int = 7) -> ActOutput:
        """What ``policy`` does for ``n`` observations in the midst of episodes."""
        state = self.state(policy, n)
        return policy.act(self.obs(n), state, rows=rows_of(n), explore=explore, rng=generator(seed))

    def action_leaves(self) -> dict[str, gymnasium.Space[Any]]:
        """The leaves of the action space by name."""
        return leaf_spaces(self.action_space)

    def close(self) -> None:
        """Nothing is held."""


def generator(seed: int) -> np.random.Generator:
    """A generator to act with."""
    return np.random.default_rng([seed, 99])


def rows_of(n: int, t: int = 3) -> ActRows:
    """Whose rows they are: one agent in each of ``n`` slots, at step ``t`` of its episode."""
    return ActRows(np.arange(n), np.zeros(n, np.int64), np.full(n, t), np.full(n, t == 0))
