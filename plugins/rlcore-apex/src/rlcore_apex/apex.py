"""Ape-X: evaluators, replay and the learner, each at their own pace (Horgan et al. 2018; RLlib, section 5.2).

Samples go from evaluators to replay actors, minibatches from there to the learner, priorities back, weights from the
learner to the evaluators: by reference, and the driver sees small counts only.
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rlcore.crew import LOST, Crew
from rlcore.errors import OptimizerError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.in_flight import Arrival, InFlight
from rlcore.learner_tally import LearnerTally
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import ROW, Weights
from rlcore.remote_learner import RemoteLearner, Upkeep
from rlcore.runtime.base import Handle, Ref, Resources, Runtime
from rlcore.sample_stream import Sample
from rlcore.schedule import value_at
from rlcore.stepping import Turn
from rlcore.tallied_turns import TalliedTurns
from rlcore_apex.config import ApexConfig
from rlcore_apex.exploration import ExplorationLadder
from rlcore_apex.learner import ApexLearner
from rlcore_apex.memory import ApexMemory, Held
from rlcore_apex.pace import ApexPace, Turns
from rlcore_apex.replay_actor import ReplayActor

#: Samples on their way to each replay actor and before it: it has work while the driver looks after many others.
STORES_AHEAD = 8


class Origin(NamedTuple):
    """Where a minibatch comes from, and of which policy it is: the replay actor's place, and who filled that then."""

    place: int
    handle: Handle
    policy_id: str


class Apex(TalliedTurns):
    """Everyone has work ahead of them and nobody waits for the driver; queues are bounded, and producers wait."""

    Config = ApexConfig
    config: ApexConfig
    _tally: LearnerTally
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
        share = -(-config.capacity // config.replay_actors)
        seeds = np.random.SeedSequence(config.seed).spawn(config.replay_actors)
        memories = [functools.partial(ReplayActor, trains, share, config.prioritized, seed) for seed in seeds]
        self._tally = LearnerTally(trains)
        self._pace = ApexPace(trains, config)
        self._replay: Crew = evaluators.others("replay actor", memories, Resources(), self._replace_memory)
        self._held = Held(self._replay)
        self._learner: RemoteLearner[Origin] = RemoteLearner(
            runtime,
            evaluators,
            functools.partial(ApexLearner, specs, config.devices, runtime.child()),
            gpus=sum(device.startswith("cuda") for device in config.devices),
            queue=config.learner_queue,
            upkeep=Upkeep(config.max_weight_delay, config.snapshot_every),
            keepers=self._replay,
            owner=", ".join(trains),
            went_back=self._pace.learner_is_at,
        )
        self.samples = evaluators.stream(config.samples_ahead)
        self._stores: InFlight[int] = InFlight(runtime, self._replay, STORES_AHEAD)
        self._draws: InFlight[str] = InFlight(runtime, self._replay, config.draws_ahead)
        self._store_turns = itertools.cycle(range(config.replay_actors))
        self._draw_turns = {policy_id: Turns(config.replay_actors) for policy_id in trains}
        #: Samples that no replay actor has room for, and minibatches that the learner has none for.
        self._waiting: deque[Sample] = deque()
        self._drawn: deque[Arrival[str]] = deque()
        utilities = {name: own for name, spec in specs.items() if (own := spec.graph.exploration_utility) is not None}
        self._ladder = ExplorationLadder(evaluators, utilities, config.exploration)

    # -- the algorithm

    def turn(self) -> Iterator[Turn]:
        self._ladder.put_up()
        while self._waiting and self._stores.idle():
            self._store(self._waiting.popleft())
        self._draw()
        learner_is_behind = self._under_way() > 0 and self._pace.learner_is_behind(self._held.policies())
        # What the replay actors have no room for may wait where it comes from.
        room = sum(self._stores.room(i) for i in range(self.config.replay_actors)) - len(self._waiting)
        yield Turn(
            room,
            [self._stores, self._draws, *self._learner.awaited],
            wants_more=not self._waiting and not learner_is_behind,
        )
        for sample in self.samples.arrived(room):
            self._waiting.append(sample)
            self._learner.sampled(sample.index, sample.info.env_steps)
            self._tally.took(1, sample.info.env_steps)
            self._tally.stale([self.evaluators.staleness(sample.info, self.trains)])
        for stored in self._stores.arrived():
            self._note_stored(stored)
        self._drawn += self._draws.arrived()
        while self._drawn and (self._drawn[0].value is LOST or self._learner.room):
            self._learn_from(self._drawn.popleft())
        for done in self._learner.arrived():
            self._note_learnt(done)
        self._tally.updates_lost(self._learner.take_lost_updates())
        # Also those whose places are vacant now.
        self._forget_lost_memories()

    def _store(self, sample: Sample) -> None:
        """The replay actors take turns; whoever has no room is passed over."""
        able = self._stores.idle()
        index = next(turn for turn in self._store_turns if turn in able)
        rows = sum(sample.info.rows.get(policy_id, 0) for policy_id in self.trains)
        self._stores.submit(index, rows, "add", sample.batch)
        self._pace.sampled(sample.info.env_steps)

    def _note_stored(self, stored: Arrival[int]) -> None:
        """What is in a memory by then, or that a sample was lost on the way to it, or with it."""
        if stored.value is LOST or not self._held.note(stored.index, stored.handle, stored.value):
            self._tally.dropped(stored.note)

    def _draw(self) -> None:
        """Minibatches of policies that are due, until enough of them are on their way.

        The replay actors take turns in proportion to what they hold, so that every transition is as likely.
        """
        beta = value_at(self.config.prioritized.beta, self._pace.env_steps)
        while self._under_way() < self.config.learner_queue:
            able = self._draws.idle()
            policy_id = self._pace.due(self._held.policies(able))
            if policy_id is None:
                return
            index = self._draw_turns[policy_id].next(self._held.shares(policy_id, able))
            self._draws.submit(index, policy_id, "draw", policy_id, self.config.minibatch_size, beta, returns=2)
            self._pace.drawn(policy_id)

    def _under_way(self) -> int:
        """How many minibatches are on their way to the learner or before it."""
        return self._draws.count() + len(self._drawn) + self._learner.under_way

    def _learn_from(self, drawn: Arrival[str]) -> None:
        """Hands a minibatch on to the learner; one that was lost will be drawn anew."""
        if drawn.value is LOST:
            self._pace.undrawn(drawn.note)
            return
        origin = Origin(drawn.index, drawn.handle, drawn.note)
        self._learner.submit(origin, "learn", drawn.value, drawn.others[0], self._pace.env_steps, returns=2)

    def _note_learnt(self, done: Arrival[Origin]) -> None:
        """Priorities go back. A minibatch that went with the learner will be drawn anew."""
        origin = done.note
        if done.value is LOST:
            self._tally.dropped(self.config.minibatch_size)
            self._pace.undrawn(origin.policy_id)
            return
        if self._replay.members[origin.place].handle is origin.handle:
            self._replay.tell_one(origin.place, "take", done.others[0])
        self._pace.learnt(origin.policy_id)
        self._learner.updated(done.value.learnt.updates)
        self._tally.learnt(done.value)

    def _replace_memory(self, handle: Handle, index: int, life: int) -> list[Ref]:
        self._forget_lost_memories()
        return []

    def _forget_lost_memories(self) -> None:
        """What a replay actor held went with it. Where little is left, more is sampled before it is learnt from."""
        for place, rows in self._held.take_lost():
            self._tally.dropped(rows)
            for turns in self._draw_turns.values():
                turns.begin_anew(place)
            if self._held.rows() < self.config.learning_starts:
                self._pace.refill()

    @property
    def representative(self) -> Mapping[int, Collection[int]] | None:
        return self._ladder.representative

    # -- state

    def get_weights(self) -> dict[str, Weights]:
        return self._learner.get_weights()

    def graph_states(self) -> dict[str, dict[str, Any]]:
        return self._learner.graph_states()

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
        return {"learner": self._learner.get_state(), "pace": self._pace.get_state(notes)}

    @property
    def replay_memory(self) -> ApexMemory:
        return ApexMemory(self._held, self._pace.refill)

    def set_state(self, state: dict[str, Any]) -> None:
        for pending in (self.samples, self._stores, self._draws):
            pending.forget()
        self._waiting.clear()
        self._drawn.clear()
        self._learner.set_state(state["learner"])
        self._pace.set_state(state["pace"])
        if "replay" in state:
            self.replay_memory.set_state(state["replay"])
