"""Ape-X: evaluators, replay and the learner, each at their own pace (Horgan et al. 2018; RLlib, section 5.2).

Samples go from evaluators to replay actors, minibatches from there to the learner, priorities back, weights from the
learner to the evaluators: by reference, and the driver sees small counts only.
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rlcore.crew import LOST, Crew
from rlcore.errors import OptimizerError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.in_flight import Arrival, InFlight
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import ROW, Weights
from rlcore.policy_optimizer import StepResult
from rlcore.runtime.base import Handle, Ref, Resources, Runtime
from rlcore.sample_stream import Sample
from rlcore.schedule import value_at
from rlcore.stepping import Awaited, TakesTurns
from rlcore_apex.config import ApexConfig
from rlcore_apex.exploration import ExplorationLadder
from rlcore_apex.learner_actor import ApexLearner
from rlcore_apex.memory import ApexMemory
from rlcore_apex.pace import ApexPace, Request
from rlcore_apex.replay_actor import ReplayActor
from rlcore_apex.snapshots import Snapshots
from rlcore_apex.tally import Tally

#: Samples on their way to each replay actor and before it: it has work while the driver looks after many others.
STORES_AHEAD = 8


class Origin(NamedTuple):
    """The replay actor that a minibatch comes from: its place, and who filled that then."""

    place: int
    handle: Handle


class Apex(TakesTurns):
    """Everyone has work ahead of them and nobody waits for the driver; queues are bounded, and producers wait."""

    Config = ApexConfig
    config: ApexConfig
    conformance: ClassVar[Mapping[str, Any]] = {
        "config": {"learning_starts": 16, "minibatch_size": 16, "learnt_per_sampled": 2.0, "capacity": 4096},
        "graph": "rlcore.testing.linear_q:LinearQ",
        "uses_every_row": False,
    }

    def __init__(
        self,
        local: PolicyEvaluator,
        evaluators: EvaluatorSet,
        runtime: Runtime,
        config: ApexConfig,
        trains: tuple[str, ...],
    ) -> None:
        super().__init__(local, evaluators, runtime, config, trains)
        for policy_id in trains:
            if local.graph(policy_id).minibatch_unit is not ROW:
                raise OptimizerError(
                    f"optimizer Apex cannot train policy '{policy_id}': it learns from pieces of trajectories, as "
                    "recurrent policies do, and Apex replays single transitions"
                )
        specs = {policy_id: local.graph_spec(policy_id) for policy_id in trains}
        learner = functools.partial(ApexLearner, specs, config.devices, runtime.child())
        gpus = sum(device.startswith("cuda") for device in config.devices)
        share = -(-config.capacity // config.replay_actors)
        seeds = np.random.SeedSequence(config.seed).spawn(config.replay_actors)
        memories = [functools.partial(ReplayActor, trains, share, config.prioritized, seed) for seed in seeds]
        self._tally = Tally()
        self._held: list[Mapping[str, int]] = [{} for _ in memories]
        self._learner: Crew = evaluators.others("learner", [learner], Resources(gpus=gpus), self._resume_learner)
        self._replay: Crew = evaluators.others("replay actor", memories, Resources(), self._forget_memory)
        self._snapshots = Snapshots(runtime, self._replay)
        self.samples = evaluators.stream(config.samples_ahead)
        self._stores: InFlight[int] = InFlight(runtime, self._replay, STORES_AHEAD)
        self._draws: InFlight[str] = InFlight(runtime, self._replay, config.draws_ahead)
        # Two more: weights and a snapshot wait for no place in the queue.
        self._learning: InFlight[Origin | Request] = InFlight(
            runtime, self._learner, config.learner_queue + 2
        )
        self._store_turns = itertools.cycle(range(config.replay_actors))
        self._draw_turns = itertools.cycle(range(config.replay_actors))
        self._pace = ApexPace(trains, config)
        #: Samples that no replay actor has room for, and minibatches that the learner has none for.
        self._waiting: deque[Sample] = deque()
        self._drawn: deque[Arrival[str]] = deque()
        self._delays = [0] * evaluators.size
        self._asked: set[Request] = set()
        utilities = {name: own for name, spec in specs.items() if (own := spec.graph.exploration_utility) is not None}
        self._ladder = ExplorationLadder(evaluators, utilities, config.exploration)

    # -- the algorithm

    def begin(self) -> None:
        self._ladder.put_up()

    @property
    def has_enough(self) -> bool:
        return self._tally.samples >= self.config.rounds * self.evaluators.size

    def ask(self) -> None:
        """Whatever may be done is asked for: to store what has come, to draw, to send weights."""
        while self._waiting and self._stores.idle():
            self._store(self._waiting.popleft())
        self._draw()
        self._send_weights()
        if self._pace.snapshot_is_due or self._snapshots.gone:
            self._ask_learner(Request.SNAPSHOT)

    @property
    def wants_samples(self) -> bool:
        return not self._waiting and not (self._under_way() and self._pace.learner_is_behind(self._policies_held()))

    def awaited(self) -> Sequence[Awaited]:
        own = (self._stores, self._draws, self._learning, self._snapshots.calls)
        # Samples that there is no room for are nothing to wait for.
        return (self.samples, *own) if self._most_samples() > 0 else own

    def take_in(self) -> None:
        for sample in self.samples.arrived(self._most_samples()):
            self._waiting.append(sample)
            self._delays[sample.index] += sample.info.env_steps
            self._tally.sampled(sample.info.env_steps, self.evaluators.version - sample.info.version)
        for stored in self._stores.arrived():
            self._note_stored(stored)
        self._drawn += self._draws.arrived()
        while self._drawn and (self._drawn[0].value is LOST or self._learning.room(0)):
            self._learn_from(self._drawn.popleft())
        for done in self._learning.arrived():
            self._take_from_learner(done)
        self._snapshots.take_in()

    def result(self, seconds: float) -> StepResult:
        # What is lost between two steps counts in the next.
        tally, self._tally = self._tally, Tally()
        return tally.result(seconds)

    def _store(self, sample: Sample) -> None:
        """The replay actors take turns; whoever has no room is passed over."""
        able = self._stores.idle()
        index = next(turn for turn in self._store_turns if turn in able)
        rows = sum(sample.info.rows.get(policy_id, 0) for policy_id in self.trains)
        self._stores.submit(index, rows, "add", sample.batch)
        self._pace.sampled(sample.info.env_steps)

    def _note_stored(self, stored: Arrival[int]) -> None:
        """What is in a memory by then, or that a sample was lost on the way to it, or with it."""
        if stored.value is LOST or self._replay.members[stored.index].handle is not stored.handle:
            self._tally.dropped(stored.note)
        else:
            self._held[stored.index] = stored.value

    def _draw(self) -> None:
        """Minibatches of policies that are due, until enough of them are on their way. The replay actors take turns."""
        beta = value_at(self.config.prioritized.beta, self._pace.env_steps)
        while self._under_way() < self.config.learner_queue:
            able = {i: name for i in self._draws.idle() if (name := self._pace.due(self._held[i])) is not None}
            if not able:
                return
            index = next(turn for turn in self._draw_turns if turn in able)
            policy_id = able[index]
            self._draws.submit(index, policy_id, "draw", policy_id, self.config.minibatch_size, beta, returns=2)
            self._pace.drawn(policy_id)

    def _under_way(self) -> int:
        """How many minibatches are on their way to the learner or before it."""
        return self._draws.count() + len(self._drawn) + self._learning.count()

    def _most_samples(self) -> int:
        """How many samples there is room for; others may wait where they come from."""
        return sum(self._stores.room(i) for i in range(self.config.replay_actors)) - len(self._waiting)

    def _policies_held(self) -> set[str]:
        return {policy_id for held in self._held for policy_id, rows in held.items() if rows}

    def _learn_from(self, drawn: Arrival[str]) -> None:
        """Hands a minibatch on to the learner; one that was lost will be drawn anew."""
        if drawn.value is LOST:
            self._pace.undrawn(drawn.note)
            return
        origin = Origin(drawn.index, drawn.handle)
        self._learning.submit(0, origin, "learn", drawn.value, drawn.others[0], self._pace.env_steps, returns=2)

    def _take_from_learner(self, done: Arrival[Origin | Request]) -> None:
        """What the learner has done: priorities go back, weights out, and its state is kept."""
        if isinstance(done.note, Request):
            self._asked.discard(done.note)
            if done.value is not LOST:
                self._take_requested(done.note, done.value, done.others[0])
        elif done.value is LOST:
            self._tally.dropped(self.config.minibatch_size)
        else:
            place, handle = done.note
            if self._replay.members[place].handle is handle:
                self._replay.tell_one(place, "take", done.others[0])
            self._pace.learnt()
            self._tally.learnt(done.value)

    def _take_requested(self, request: Request, progress: Any, found: Ref) -> None:
        if request is Request.SNAPSHOT:
            self._snapshots.keep(found)
        else:
            self.evaluators.publish(found, progress)
            self._refresh()

    def _send_weights(self) -> None:
        """New ones come from the learner, when somebody has sampled long enough with those it has.

        Where there are none, what filters have seen is sent alone.
        """
        late = [index for index, delay in enumerate(self._delays) if delay >= self.config.max_weight_delay]
        if not late or Request.WEIGHTS in self._asked:
            return
        if self._pace.has_new_weights:
            self._ask_learner(Request.WEIGHTS)
            return
        for index in late:
            self.evaluators.refresh_filters(index)
            self._delays[index] = 0

    def _refresh(self) -> None:
        for index, delay in enumerate(self._delays):
            if delay >= self.config.max_weight_delay:
                self.evaluators.refresh(index)
                self._delays[index] = 0

    def _ask_learner(self, request: Request) -> None:
        if request not in self._asked and self._learning.room(0):
            self._asked.add(request)
            self._learning.submit(0, request, request.value, returns=2)
            self._pace.asked(request)

    @property
    def representative(self) -> Mapping[int, Collection[int]] | None:
        return self._ladder.representative

    # -- losses

    def _resume_learner(self, handle: Handle, index: int, life: int) -> list[Ref]:
        """A learner that takes the place of another goes on from what was kept last."""
        self._pace.weights_lost()
        return self._snapshots.resume(handle)

    def _forget_memory(self, handle: Handle, index: int, life: int) -> list[Ref]:
        """What a replay actor held went with it. Where little is left, more is sampled before it is learnt from."""
        self._tally.dropped(sum(self._held[index].values()))
        self._held[index] = {}
        if sum(sum(held.values()) for held in self._held) < self.config.learning_starts:
            self._pace.refill()
        return []

    # -- state

    def get_weights(self) -> dict[str, Weights]:
        weights: dict[str, Weights] = self._learner.ask("get_weights")[0]
        return weights

    def graph_states(self) -> dict[str, dict[str, Any]]:
        states: dict[str, dict[str, Any]] = self._learner.ask("graph_states")[0]
        return states

    def get_state(self) -> dict[str, Any]:
        """What is on its way is not in it: after ``set_state`` it is sampled and drawn anew."""
        return {**self.get_learning_state(), "replay": self.replay_memory.get_marked()}

    def get_learning_state(self) -> dict[str, Any]:
        there = self._replay.by_place
        while self._waiting and there:
            # It is to be in the memory that is saved after this, and in its account.
            sample = self._waiting.popleft()
            self._replay.tell_one(next(turn for turn in self._store_turns if turn in there), "add", sample.batch)
            self._pace.sampled(sample.info.env_steps)
        notes = [*(arrival.note for arrival in self._drawn), *self._draws.notes()]
        return {
            "learner": self._learner.ask("get_state")[0],
            "pace": self._pace.get_state([note for note in notes if note is not None]),
        }

    @property
    def replay_memory(self) -> ApexMemory:
        return ApexMemory(self._replay, self._held, self._pace.refill)

    def set_state(self, state: dict[str, Any]) -> None:
        for pending in (self.samples, self._stores, self._draws, self._learning):
            pending.forget()
        self._waiting.clear()
        self._drawn.clear()
        self._asked.clear()
        self._pace.set_state(state["pace"])
        learner = self.runtime.put(state["learner"])
        self._snapshots.begin_with(learner)
        self._learner.ask("set_state", learner)
        if "replay" in state:
            self.replay_memory.set_state(state["replay"])
