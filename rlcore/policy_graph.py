"""PolicyGraph: the model, loss, postprocessing and utilities of one policy. It need not be a TensorFlow graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from rlcore.batch import LENGTH, SampleBatch
from rlcore.columns import Columns
from rlcore.errors import OptimizerError, UserError

if TYPE_CHECKING:
    from rlcore.collective import Collective
    from rlcore.model import BatchedModel
    from rlcore.optim import UpdateRule

Weights = dict[str, NDArray[Any]]
State = tuple[NDArray[Any], ...]
#: ``{agent_id: (policy_id, batch)}`` of the same slots and episodes.
OtherAgents = Mapping[Any, tuple[str, SampleBatch]]


class GraphConfig(BaseModel):
    """Base of every ``PolicyGraph.Config``: unknown keys are refused, values cannot be changed afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    def discount(self) -> float:
        """Of a step, for filters that scale rewards by returns. Configs with a discount of their own override it."""
        return 0.99


class Unit(Enum):
    """What a minibatch is made of: rows, or pieces where time order or recurrent state matters."""

    ROW = "row"
    PIECE = "piece"

    def count(self, batch: SampleBatch) -> int:
        """How many units ``batch`` has."""
        return len(batch) if self is Unit.ROW else batch.pieces

    def rows(self, batch: SampleBatch) -> NDArray[np.int64]:
        """How many rows each unit of ``batch`` has, int64 ``[units]``."""
        return np.ones(len(batch), np.int64) if self is Unit.ROW else np.asarray(batch.cuts[LENGTH], np.int64)


ROW, PIECE = Unit.ROW, Unit.PIECE


class ActRows(NamedTuple):
    """Whose rows are acted for: arrays of length n. ``first``: the observation opens an episode."""

    slot: NDArray[Any]
    agent_id: NDArray[Any]
    t: NDArray[Any]
    first: NDArray[np.bool_]


class ActOutput(NamedTuple):
    """``actions [n, ...]`` (nested: ``{leaf: array}``), the recurrent state after them, and further row columns."""

    actions: Columns
    state: State = ()
    extras: Mapping[str, NDArray[Any]] = {}


@dataclass(frozen=True, slots=True)
class GradientOutput:
    """Gradients averaged over ``count`` samples, statistics, and the TD error by row where the loss has one.

    ``stop`` asks to leave this batch after the update (target KL reached).
    """

    gradients: Weights
    count: int
    stats: dict[str, float]
    td_error: NDArray[Any] | None = None
    stop: bool = False


class Remark(NamedTuple):
    """What a policy graph assumes of its spaces and a user should know; one that ``warns`` is likely a mistake."""

    text: str
    warns: bool = False


class LearnOutput(NamedTuple):
    """What one update did. ``stop`` asks to leave this batch, ``skipped`` says that the loss or a gradient was not
    finite and nothing changed; ``rows`` is how many it learnt from, None where they were as many as the units."""

    stats: dict[str, float]
    td_error: NDArray[Any] | None = None
    stop: bool = False
    skipped: bool = False
    rows: int | None = None


@dataclass(frozen=True)
class Progress:
    """How far a run is: what schedules, target updates and adaptive coefficients go by."""

    env_steps: int = 0
    learnt_rows: int = 0
    updates: int = 0
    stats: Mapping[str, float] = field(default_factory=dict)


Held = TypeVar("Held")


@dataclass(frozen=True)
class Pinned(Generic[Held]):
    """Samples that a graph has put on its devices once; ``held`` is the graph's own business."""

    held: Held
    rows: int


def shares_of(units: int, devices: int) -> list[range]:
    """Which units of a batch each of several devices holds: the first ones the first, equally many or one more."""
    each, more = divmod(units, devices)
    ends = [(i + 1) * each + min(i + 1, more) for i in range(devices)]
    return [range(start, end) for start, end in zip([0, *ends], ends, strict=False)]


class PolicyGraph(ABC):
    """One policy: how it acts, what it learns from, and how.

    Sampling and learning drive it so::

        out = graph.act(obs, state, rows=rows, rng=rng)         # many times, by the evaluator
        batch = graph.postprocess(batch)                        # rho, once a fragment
        pinned = graph.pin(batch)                               # at the learner
        for units in minibatches: graph.learn(pinned, units)
        graph.on_progress(progress)

    An author writes ``act``, ``gradients``, ``apply_gradients``, ``get_state`` and ``set_state``; the rest follows from
    these. All arrays at this edge are numpy's.

    ================ =========================== ======================================================
    what crosses     shape                       meaning
    ================ =========================== ======================================================
    obs              ``[n, ...]``, space's dtype after the filter; nested: ``{leaf: array}``
    actions          ``[n, ...]``                Discrete: int64 from 0; Box: not yet clipped
    state            tuple of ``[n, ...]``       recurrent state, in and out, never kept
    extras           ``{column: [n, ...]}``      become row columns (``action_logp`` ...)
    units            int64 ``[m]``               rows or pieces of the batch, by ``minibatch_unit``
    weights          ``{name: array}``           canonical layouts: dense ``[in, out]``
    ================ =========================== ======================================================
    """

    Config: ClassVar[type[GraphConfig]] = GraphConfig
    #: Rows that ``postprocess`` needs beyond the end of a piece (n-step); the evaluator holds that many back.
    lookahead: int = 0
    minibatch_unit: Unit = ROW
    #: Whether it acts by searching the environment's model, and has the utilities ``network`` (observations to logits
    #: and values, without a search) and ``set_search`` (settings of :class:`rlcore.tree_search.SearchConfig`).
    searches: ClassVar[bool] = False
    #: The utility that sets how much it explores, as a number or an array by slot; None where that is not to be set.
    exploration_utility: ClassVar[str | None] = None
    #: By name, how the graph's framework lets evaluators average gradients among themselves; an option.
    collectives: ClassVar[Mapping[str, type[Collective]]] = {}
    #: How the conformance kit is to try it: arguments of ``rlcore.testing.check_policy_graph``, such as ``config``.
    conformance: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: GraphConfig,
        *,
        rng: np.random.Generator,
        devices: Sequence[str] = ("cpu",),
        model: BatchedModel | None = None,
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.config = config

    # -- what an author writes

    @abstractmethod
    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        """Actions for ``n`` observations; deterministic where ``explore`` is false."""

    @abstractmethod
    def gradients(
        self, batch: SampleBatch | Pinned[Any], units: NDArray[np.int64] | None = None
    ) -> GradientOutput:
        """Gradients of the loss, averaged over the chosen units (all where None). Changes nothing.

        Another copy of the graph may apply them, and after other updates than this one knows of: they are of all
        weights that any update moves, and which of them move is for ``apply_gradients`` to decide.
        """

    @abstractmethod
    def apply_gradients(self, gradients: Weights) -> None:
        """One step of the optimizer, clipping included."""

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly. ``state["weights"]`` is ``{name: array}``."""

    @abstractmethod
    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from what ``get_state`` gave."""

    # -- what follows from it

    @classmethod
    def remarks(
        cls,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: GraphConfig,
    ) -> list[Remark]:
        """What it would assume of these spaces without being told: said once, when a run is built."""
        return []

    @classmethod
    def settled(cls, config: GraphConfig, agents: Mapping[Any, gymnasium.Space[Any]]) -> GraphConfig:
        """``config`` completed by what is known of the environment once it is there.

        ``agents`` are the observation spaces, as policies see them, of all agents that may ever take part; none where
        the environment does not know them.
        """
        return config

    def initial_state(self, n: int) -> State:
        """The recurrent state of ``n`` fresh episodes."""
        return ()

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """rho: adds what the loss needs (advantages, targets). Pure on arrays; pieces are never mixed."""
        return batch

    def pin(self, batch: SampleBatch) -> Pinned[Any]:
        """Puts the samples where learning needs them, once for many minibatches; with several devices on each its
        share of the units (:func:`shares_of`), which minibatches are drawn from evenly.

        A graph that overrides this is given what it returned in ``gradients`` and ``learn``, in place of the batch.
        """
        return Pinned(batch, len(batch))

    def pin_minibatches(self, batch: SampleBatch, minibatches: int) -> list[Pinned[Any]]:
        """``batch``, whose pieces are single rows, as so many minibatches of equally many, one behind the other: what
        ``pin`` makes of each. For graphs that can do this for all of them at once, in less time."""
        parts = np.arange(len(batch)).reshape(minibatches, -1)
        return [self.pin(batch.take_pieces(part)) for part in parts]

    def learn_minibatches(self, batch: SampleBatch, minibatches: int) -> Iterator[LearnOutput]:
        """One update from each of the minibatches that ``pin_minibatches`` would make, as they are asked for; a single
        one may be made of longer pieces. Whoever asks does as with ``learn_in_turn``."""
        pinned = [self.pin(batch)] if minibatches == 1 else self.pin_minibatches(batch, minibatches)
        for one in pinned:
            output = self.learn(one)
            yield output if output.rows is not None else output._replace(rows=one.rows)

    def learn(self, batch: SampleBatch | Pinned[Any], units: NDArray[np.int64] | None = None) -> LearnOutput:
        """One update from one minibatch; skipped where a gradient is not finite."""
        if type(self).pin is PolicyGraph.pin and isinstance(batch, Pinned):
            batch = batch.held
        output = self.gradients(batch, units)
        skipped = not all(bool(np.isfinite(gradient).all()) for gradient in output.gradients.values())
        if not skipped:
            self.apply_gradients(output.gradients)
        return LearnOutput(output.stats, output.td_error, output.stop, skipped, output.count)

    def learn_in_turn(
        self, batch: SampleBatch | Pinned[Any], minibatches: Iterable[NDArray[np.int64]]
    ) -> Iterator[LearnOutput]:
        """One update from each of the ``minibatches`` (units), as they are asked for; ``rows`` are always given.

        Whoever asks calls ``on_progress`` after each, and asks no more after one with ``stop``. A graph that makes many
        updates in one go overrides this: it is told of progress within them afterwards, which is of no consequence to
        what goes by environment steps.
        """
        for units in minibatches:
            output = self.learn(batch, units)
            yield output if output.rows is not None else output._replace(rows=len(units))

    def log_probs(self, batch: SampleBatch) -> NDArray[np.float32] | None:
        """The log-probability of each row's action under the weights as they are, ``[N]``; None where there is none.

        Before the first update it equals the row column ``action_logp`` that acting noted.
        """
        return None

    def get_weights(self, names: frozenset[str] | None = None) -> Weights:
        """Every parameter and buffer that acting or the loss reads and learning changes, or those in ``names``."""
        weights: Weights = self.get_state()["weights"]
        return weights if names is None else {name: weights[name] for name in sorted(names)}

    def set_weights(self, weights: Weights) -> None:
        """Replaces the named weights and leaves the others as they are."""
        state = self.get_state()
        check_weights(state["weights"], weights)
        state["weights"] = {**state["weights"], **weights}
        self.set_state(state)

    @property
    def acting(self) -> frozenset[str]:
        """The names of the weights that acting reads: what goes to samplers."""
        return frozenset(self.get_weights())

    @property
    def trainable(self) -> frozenset[str]:
        """The names of the weights that gradients move."""
        return frozenset(self.get_weights())

    def update_rule(self) -> UpdateRule:
        """The rule that ``apply_gradients`` follows, for applying it without this graph's framework.

        What it remembers of the trainable weights is ``get_state()["optimizer"]``, in the form of the rule's ``init``.
        """
        raise OptimizerError(f"{type(self).__name__} offers no update_rule, which this optimizer needs")

    def draw_apart(self, stream: tuple[int, ...]) -> None:
        """From now on ``gradients`` draws what the loss needs apart from other copies of this graph, and from what this
        one drew for other samples: ``stream`` says whose copy it is and for which sample. The same gives the same, and
        it is no part of the state. Graphs whose losses draw nothing have nothing to do."""

    def on_progress(self, progress: Progress) -> None:
        """Told after every update: the place for schedules, target updates, adaptive coefficients.

        Copies that compute gradients are told before they are given the weights that go with it, those that no gradient
        moves included: whatever they make of their own targets gives way to those.
        """

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        """u^1 .. u^n: what may be called by name."""
        return {}

    def call(self, utility: str, *args: Any) -> Any:
        """Calls a utility by name. ``UserError`` for an unknown one."""
        return call_utility(self, self.utilities(), utility, args)

    def actor(self) -> Actor | None:
        """A framework-free twin for acting; None where only the framework can act."""
        return None


@runtime_checkable
class Actor(Protocol):
    """A policy that only acts, in numpy: unpickling it imports no framework. Equal to its graph to 1e-5.

    ``postprocess`` is None where rho needs the graph; it then runs at the learner.
    """

    lookahead: int

    @property
    def postprocess(self) -> Callable[[SampleBatch, OtherAgents | None], SampleBatch] | None: ...

    def initial_state(self, n: int) -> State: ...

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput: ...

    def on_progress(self, progress: Progress) -> None: ...

    def call(self, utility: str, *args: Any) -> Any: ...

    def set_weights(self, weights: Weights) -> None: ...

    def get_state(self) -> dict[str, Any]: ...

    def set_state(self, state: dict[str, Any]) -> None: ...


def call_utility(owner: object, utilities: Mapping[str, Callable[..., Any]], name: str, args: tuple[Any, ...]) -> Any:
    """Calls ``utilities[name]``; ``UserError`` with the names there are for any other."""
    if name not in utilities:
        known = ", ".join(sorted(utilities)) or "none"
        raise UserError(f"{type(owner).__name__} has no utility '{name}'; it has: {known}")
    return utilities[name](*args)


def check_weights(own: Mapping[str, NDArray[Any]], given: Mapping[str, NDArray[Any]]) -> None:
    """Raises ``UserError`` where ``given`` has a name that ``own`` lacks, or another shape."""
    unknown = sorted(set(given) - set(own))
    if unknown:
        raise UserError(f"unknown weights {', '.join(unknown)}; there are: {', '.join(sorted(own))}")
    for name, array in given.items():
        if array.shape != own[name].shape:
            raise UserError(f"weight '{name}' has shape {array.shape}, expected {own[name].shape}")


def check_gradients(trainable: Mapping[str, NDArray[Any]], given: Mapping[str, NDArray[Any]]) -> None:
    """Raises ``UserError`` where ``given`` are not the gradients of the weights ``trainable``, all of them."""
    check_weights(trainable, given)
    missing = sorted(set(trainable) - set(given))
    if missing:
        raise UserError(f"gradients are missing for {', '.join(missing)}")
