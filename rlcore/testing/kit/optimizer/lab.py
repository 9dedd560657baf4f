"""What the rules for optimizers look at: small trainings on tasks that any optimizer can improve."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlcore import registry
from rlcore.batch import DEFAULT_POLICY
from rlcore.envs import EnvSource, build_env
from rlcore.errors import PluginError, SpaceError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.graph_spec import GraphSpec
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import PolicyGraph, Weights
from rlcore.policy_mapping import policy_function, spaces_by_policy
from rlcore.policy_optimizer import OptimizerConfig, PolicyOptimizer, StepResult
from rlcore.runtime.base import Runtime
from rlcore.sampling.collect import Fragment
from rlcore.testing.environments.contexts import Contexts
from rlcore.testing.environments.two_agent import TwoAgentEnv
from rlcore.testing.kit.optimizer.watched import Watched, WatchedSearch
from rlcore.testing.kit.report import Untested
from rlcore.testing.kit.rules import once
from rlcore.testing.kit.trees import copied
from rlcore.testing.kit.wishes import wished
from rlcore.testing.linear import LinearPG

#: A name, or the class.
OptimizerSource = str | type[PolicyOptimizer]

#: Slots of each evaluator, and steps of each slot in one sample.
SLOTS, STEPS = 4, 16
ROWS = SLOTS * STEPS
#: How many samples of each evaluator may be under way when a step ends.
UNDER_WAY = 4
#: What two policies are called.
LEFT, RIGHT = "left", "right"


@dataclass(frozen=True)
class Task:
    """What is trained: the policies' graph and its settings, and who samples where."""

    graph: type[PolicyGraph]
    settings: Mapping[str, Any]
    env: EnvSource
    policies: tuple[str, ...]
    seed: int

    def specs(self) -> dict[str, GraphSpec]:
        """What builds each policy."""
        env = build_env(self.env, 1, {})
        try:
            spaces = spaces_by_policy(env, policy_function(None, self.policies), self.policies)
            model = env.model()
        finally:
            env.close()
        config = self.graph.Config(**self.settings)
        return {
            name: GraphSpec(self.graph, *spaces[name], config, np.random.SeedSequence([self.seed, i]), model)
            for i, name in enumerate(self.policies)
        }

    def evaluator(self, index: int, slots: int = SLOTS) -> PolicyEvaluator:
        """The ``index``-th evaluator."""
        specs = self.specs()
        return PolicyEvaluator(
            env=self.env,
            policies=specs,
            specs=specs,
            num_envs=slots,
            collect=Fragment(STEPS),
            rng=np.random.SeedSequence([self.seed, 1000, index]),
            index=index,
        )


@dataclass
class Training:
    """One optimizer at work, alone or with others on the same evaluators."""

    runtime: Runtime
    evaluators: EvaluatorSet
    optimizers: list[PolicyOptimizer]
    returns: list[float]

    @property
    def optimizer(self) -> PolicyOptimizer:
        """The first."""
        return self.optimizers[0]

    def step(self, count: int = 1) -> list[StepResult]:
        """Steps of the first optimizer; the returns of episodes that ended are noted."""
        results = []
        for _ in range(count):
            results.append(self.optimizer.step())
            for metrics in self.evaluators.metrics():
                self.returns += [episode.episode_return for episode in metrics.episodes]
        return results

    def weights(self) -> dict[str, Weights]:
        """A copy of the trained policies' weights as the first optimizer has them."""
        return copied(self.optimizer.get_weights())  # type: ignore[no-any-return]

    def evaluators_weights(self) -> list[dict[str, Weights]]:
        """Those of every evaluator."""
        weights: list[dict[str, Weights]] = self.runtime.get(
            [handle.submit("get_weights") for handle in self.evaluators.handles]
        )
        return weights

    def state(self) -> dict[str, Any]:
        """Everything that training goes on from, as a run saves it."""
        return {"optimizer": self.optimizer.get_state(), "evaluators": self.evaluators.get_state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from ``state``."""
        self.optimizer.set_state(state["optimizer"])
        self.evaluators.set_state(state["evaluators"])

    def steps_taken(self) -> int:
        """How many steps the environments of all evaluators have taken."""
        states = self.evaluators.get_state()["evaluators"].values()
        return sum(int(state["env"]["steps"]) for state in states)


class OptimizerLab:
    """Trains small tasks with one optimizer class, config and runtime.

    ``graph`` with ``graph_config`` is what it trains; ``steps`` is how many of its steps suffice for the return of the
    task to rise. ``uses_every_row`` is false for optimizers that keep rows for later or learn from returns alone.
    ``repeats`` is false for those whose results depend on which worker is faster, and so for all that are
    ``asynchronous``; they are to repeat on inline only.
    """

    def __init__(
        self,
        optimizer: type[PolicyOptimizer],
        config: Mapping[str, Any] | None = None,
        *,
        graph: type[PolicyGraph] = LinearPG,
        graph_config: Mapping[str, Any] | None = None,
        runtime: str = "inline",
        steps: int = 30,
        evaluators: int = 2,
        uses_every_row: bool = True,
        repeats: bool = True,
        seed: int = 1,
        case: str = "",
    ) -> None:
        self.optimizer_class = optimizer
        self.config = dict(config or {})
        self.graph = graph
        self.graph_config = dict(graph_config or {})
        self.runtime_name = runtime
        self.steps = steps
        self.count = evaluators
        self.uses_every_row = uses_every_row
        # What is no optimizer at all is found out by the rules.
        self.asynchronous: bool = getattr(optimizer, "asynchronous", False)
        self.repeats = repeats and not self.asynchronous
        self.seed = seed
        self.case = case

    @once
    def runtime(self) -> Runtime:
        """The one runtime, which all trainings share. ``Untested`` where it cannot be had."""
        try:
            build = registry.load("runtime", self.runtime_name)
        except PluginError as error:
            raise Untested(f"there is no runtime to try it on: {error}") from error
        runtime: Runtime = build()
        return runtime

    def own_config(self) -> OptimizerConfig:
        """The settings of the optimizer."""
        return self.optimizer_class.Config(**self.config)

    def task(self, policies: tuple[str, ...] = (DEFAULT_POLICY,), watch: bool = False, poison: int = 0) -> Task:
        """A lone agent's task, or that of two agents; ``watch`` notes what is done with the graphs."""
        if len(policies) > 1 and self.graph.searches:
            raise Untested("the graph plays all sides of a game by its rules, and the task of two agents has none")
        discrete = _takes_discrete(self.graph, self.graph_config)
        if len(policies) > 1 and not discrete:
            raise Untested("the graph acts in no Discrete space, as the task of two agents asks for")
        env: EnvSource = TwoAgentEnv if len(policies) > 1 else functools.partial(Contexts, continuous=not discrete)
        graph, settings = self.graph, self.graph_config
        if watch or poison:
            watched = WatchedSearch if graph.searches else Watched
            graph, settings = watched, {"graph": graph, "settings": settings, "poison": poison}
        return Task(graph, settings, env, policies, self.seed)

    @contextmanager
    def training(
        self, task: Task | None = None, *, trains: Sequence[tuple[str, ...]] = (), evaluators: int | None = None
    ) -> Iterator[Training]:
        """A training for a while, with one optimizer for each of ``trains``; without them one for all policies."""
        task = task or self.task()
        count = self.count if evaluators is None else evaluators
        local = task.evaluator(0, SLOTS if not count else 1)
        builders = [functools.partial(task.evaluator, i) for i in range(count)]
        own = EvaluatorSet(self.runtime, local, builders)
        try:
            optimizers = [
                self.optimizer_class(own.local, own, self.runtime, self.own_config(), policies)
                for policies in trains or [task.policies]
            ]
            yield Training(self.runtime, own, optimizers, [])
        finally:
            own.close()

    def need_repeats(self) -> None:
        """``Untested`` where results may depend on which worker is faster."""
        if not self.repeats and self.runtime_name != "inline":
            raise Untested("its results may depend on which worker is faster")

    def need_state_of_everything(self) -> None:
        """``Untested`` where what is under way is in no state."""
        if self.asynchronous:
            raise Untested("what is under way when it is saved is sampled anew")

    def begin(self) -> None:
        """Nothing to prepare."""

    def close(self) -> None:
        """Ends the runtime, if it was started."""
        if "runtime" in vars(self):
            self.runtime.close()


def _takes_discrete(graph: type[PolicyGraph], settings: Mapping[str, Any]) -> bool:
    """Whether the graph acts in Discrete spaces; those that do not are given a Box."""
    (spaces,) = Contexts().groups.values()
    try:
        GraphSpec(graph, *spaces, graph.Config(**settings), np.random.SeedSequence(0)).build()
    except SpaceError:
        return False
    return True


#: What a lab is made with where neither its caller nor the optimizer says anything else.
DEFAULTS: Mapping[str, Any] = {
    "graph": LinearPG,
    "steps": 30,
    "evaluators": 2,
    "uses_every_row": True,
    "repeats": True,
    "seed": 1,
}


def optimizer_labs(
    optimizer: OptimizerSource,
    config: Mapping[str, Any] | None = None,
    *,
    graph: str | type[PolicyGraph] | None = None,
    graph_config: Mapping[str, Any] | None = None,
    runtimes: Sequence[str] | None = None,
    steps: int | None = None,
    evaluators: int | None = None,
    uses_every_row: bool | None = None,
    repeats: bool | None = None,
    seed: int | None = None,
) -> list[OptimizerLab]:
    """A lab for each of ``runtimes``, names; for every one that is installed where there are none.

    What is None is as the optimizer's ``conformance`` says. Raises ``PluginError`` for a name that leads nowhere.
    """
    optimizer_class = registry.load("optimizer", optimizer) if isinstance(optimizer, str) else optimizer
    given = {
        "config": config,
        "graph": graph,
        "graph_config": graph_config,
        "runtimes": runtimes,
        "steps": steps,
        "evaluators": evaluators,
        "uses_every_row": uses_every_row,
        "repeats": repeats,
        "seed": seed,
    }
    own = wished(optimizer_class, given, DEFAULTS)
    source, names = own.pop("graph"), own.pop("runtimes")
    graph_class = registry.load("policy_graph", source) if isinstance(source, str) else source
    if names is None:
        names = [plugin.name for plugin in registry.available("runtime")]
    return [
        OptimizerLab(optimizer_class, graph=graph_class, runtime=name, case=name if len(names) > 1 else "", **own)
        for name in names
    ]
