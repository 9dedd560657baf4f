"""AlphaZero: four kinds of worker and one driver (Silver et al. 2017; RLlib, section 5.2).

Self-play evaluators play with the best player's weights; what they have seen goes to a replay buffer, minibatches from
there to the model optimizer, its weights to candidate evaluators, all by reference. The driver decides who is best.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from rlcore.crew import LOST
from rlcore.errors import OptimizerError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.in_flight import Arrival, InFlight
from rlcore.learner_tally import LearnerTally
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Weights
from rlcore.policy_optimizer import PolicyOptimizer, StepResult
from rlcore.runtime.base import Handle, Ref, Resources, Runtime
from rlcore.sample_stream import Sample
from rlcore.stepping import wait_for_any
from rlcore.tree_search.matches import MatchScore
from rlcore.tree_search.settings import SearchConfig
from rlcore_alphazero.candidate_evaluator import CandidateEvaluator
from rlcore_alphazero.config import AlphaZeroConfig
from rlcore_alphazero.game_memory import GameMemory
from rlcore_alphazero.gate import Match, joined
from rlcore_alphazero.model_optimizer import ModelOptimizer
from rlcore_alphazero.replay import SharedReplay

#: How many matches are kept.
MATCHES = 8


class AlphaZero(PolicyOptimizer):
    """The best player plays itself while a candidate learns from its games; the candidate that beats it takes over.

    A step is one round of self-play. What happens in it depends on nobody's speed: with a seed, runs repeat. Whoever is
    lost is replaced: the model optimizer by one that goes on from the last step, the replay buffer by an empty one that
    is filled anew. The best player is the driver's own.
    """

    Config = AlphaZeroConfig
    config: AlphaZeroConfig
    conformance: ClassVar[Mapping[str, Any]] = {
        "config": {
            "learning_starts": 32,
            "minibatch_size": 32,
            # Whoever has learnt anything takes over: the task is soon played as well as it can be.
            "gate": {"every": 1, "openings": 2, "win_rate": 0.0},
        },
        "graph": "torch.alphazero",
        "graph_config": {
            "gamma": 0.0,
            "learning_rate": 1e-2,
            "search": {"simulations": 2, "solver": False},
            "model": {"hidden": [16], "shared_value": True},
        },
        "uses_every_row": False,
    }

    def __init__(
        self,
        local: PolicyEvaluator,
        evaluators: EvaluatorSet,
        runtime: Runtime,
        config: AlphaZeroConfig,
        trains: tuple[str, ...],
    ) -> None:
        super().__init__(local, evaluators, runtime, config, trains)
        if len(trains) != 1:
            raise OptimizerError(f"optimizer AlphaZero trains one policy that plays all sides, not {', '.join(trains)}")
        self._policy_id = trains[0]
        spec = local.graph_spec(self._policy_id)
        if spec.model is None or not spec.graph.searches:
            raise OptimizerError(
                f"optimizer AlphaZero cannot train policy '{self._policy_id}': it needs a policy graph that searches, "
                "such as torch.alphazero, and an environment whose rules are known, such as batched:connect_four; one "
                "with a model(), as games have in which players take turns and see all there is"
            )
        seeds = np.random.SeedSequence(config.seed).spawn(2)
        self._match_seed = seeds[1]
        symmetries = tuple(spec.model.symmetries())
        memory = functools.partial(GameMemory, self._policy_id, config.capacity, symmetries, seeds[0])
        learner = functools.partial(ModelOptimizer, {self._policy_id: spec}, config.devices, runtime.child())
        search: SearchConfig = spec.config.search  # type: ignore[attr-defined]  # it searches
        if config.gate.simulations is not None:
            search = search.model_copy(update={"simulations": config.gate.simulations})
        policy = local.graph(self._policy_id).actor() or spec
        judge = functools.partial(CandidateEvaluator, policy, spec.model, search, config.gate.opening_moves)
        gpus = Resources(gpus=sum(device.startswith("cuda") for device in config.devices))
        self._memory = evaluators.others("replay buffer", [memory], Resources(), self._replace_memory)
        self._learner = evaluators.others("model optimizer", [learner], gpus, self._replace_learner)
        judges = [judge] * config.candidate_evaluators
        self._judges = evaluators.others("candidate evaluator", judges, Resources(), lambda handle, index, life: ())
        self._draws: InFlight[None] = InFlight(runtime, self._memory, 1)
        self._learns: InFlight[int] = InFlight(runtime, self._learner, 1)
        self._matches: InFlight[int] = InFlight(runtime, self._judges, 1)
        self._replay = SharedReplay(self._memory, self._has)
        #: The best player; how often it was replaced; and the matches that were played, the last ones.
        self.best: dict[str, Weights] = {self._policy_id: local.get_weights()[self._policy_id]}
        self.generation = 0
        self.matches: deque[Match] = deque(maxlen=MATCHES)
        #: What a model optimizer goes on from that takes another's place.
        self._learner_state: Mapping[str, Any] | None = None
        self._stored = self._rounds = self._env_steps = 0
        #: Rows that are yet to be learnt from.
        self._rows_due = 0.0
        self._tally = LearnerTally(trains)

    # -- the algorithm

    def step(self) -> StepResult:
        """A round of self-play by the best player, while the candidate learns; then it is tried, where that is due."""
        started = self.runtime.now()
        self._begin_learning()
        samples = self.reader.round()
        self._end_learning()
        for sample in samples:
            self._store(sample)
        self._rounds += 1
        if self._rounds % self.config.gate.every == 0 and self._learner_state is not None:
            self._try_candidate()
        tally, self._tally = self._tally, self._tally.following()
        return self._told(tally.result(self.runtime.now() - started))

    def _store(self, sample: Sample) -> None:
        """The sample goes from the evaluator to the replay buffer."""
        rows = sample.info.rows.get(self._policy_id, 0)
        self._tally.took(1, sample.info.env_steps)
        self._env_steps += sample.info.env_steps
        if not self._memory.by_place:
            self._tally.dropped(rows)
            return
        self._memory.tell_one(0, "add", sample.batch)
        self._stored = min(self.config.capacity, self._stored + rows)
        self._rows_due += rows * self.config.learnt_per_sampled

    def _begin_learning(self) -> None:
        """Minibatches go from the replay buffer to the model optimizer."""
        updates = int(self._rows_due // self.config.minibatch_size)
        ready = self._stored >= self.config.learning_starts and self._draws.room(0) and self._learns.room(0)
        if not updates or not ready:
            return
        rows = updates * self.config.minibatch_size
        self._rows_due -= rows
        _, batch = self._draws.submit(0, None, "draw", rows, returns=2)
        self._learns.submit(0, rows, "learn", self._env_steps, updates, batch)

    def _end_learning(self) -> None:
        self._arrivals(self._draws)
        for done in self._arrivals(self._learns):
            if done.value is LOST:
                self._tally.dropped(done.note)
                continue
            self._tally.learnt(done.value)
            self._learner_state = self._learner.ask("get_state")[0]

    def _try_candidate(self) -> None:
        """Its weights go to the candidate evaluators, where it plays the best player; it takes over if it is better."""
        weights = self._learns.submit(0, 0, "acting_weights", returns=2)[1] if self._learns.room(0) else None
        if weights is None or any(done.value is LOST for done in self._arrivals(self._learns)):
            return
        best, openings = self.runtime.put(self.best), self.config.gate.openings
        places = sorted(self._judges.by_place)
        for i, place in enumerate(places):
            share = openings // len(places) + (i < openings % len(places))
            seed = np.random.SeedSequence(self._match_seed.entropy, spawn_key=(1, self._rounds, i))
            if share:
                self._matches.submit(place, share, "match", weights, best, share, seed)
        played = [done.value for done in self._arrivals(self._matches) if done.value is not LOST]
        if not played:
            return
        score = sum((score for score, _ in played), MatchScore(0, 0, 0))
        accepted = score.rate >= self.config.gate.win_rate
        self.matches.append(Match(self._env_steps, score, accepted, joined([games for _, games in played])))
        if accepted:
            self.best = dict(self.runtime.get(weights))
            self.generation += 1
            self.evaluators.broadcast(self.best, {})

    def _arrivals(self, calls: InFlight[Any]) -> list[Arrival[Any]]:
        """All calls, once they have come to an end."""
        found: list[Arrival[Any]] = []
        while calls.count():
            wait_for_any([calls], self.runtime)
            found += calls.arrived()
        return sorted(found, key=lambda done: done.index)

    def _told(self, result: StepResult) -> StepResult:
        """With how matches went, beside the statistics of the losses."""
        last = self.matches[-1].score.rate if self.matches else 0.0
        own = {"generation": float(self.generation), "gate_win_rate": last, "replay_rows": float(self._stored)}
        stats = {policy_id: {**stats, **own} for policy_id, stats in result.stats.items()}
        return replace(result, stats=stats)

    # -- losses

    def _replace_memory(self, handle: Handle, index: int, life: int) -> Sequence[Ref]:
        self._tally.dropped(self._stored)
        self._stored = 0
        return ()

    def _replace_learner(self, handle: Handle, index: int, life: int) -> Sequence[Ref]:
        return () if self._learner_state is None else [handle.submit("resume", self._learner_state)]

    def _has(self, rows: int) -> None:
        self._stored = rows

    # -- state

    def get_weights(self) -> dict[str, Weights]:
        """The best player's."""
        return dict(self.best)

    def graph_states(self) -> dict[str, dict[str, Any]]:
        """The model optimizer's, with the weights of the best player."""
        state = self._learner_state or self._learner.ask("get_state")[0]
        graph: dict[str, Any] = state["learner"]["graphs"][self._policy_id]
        return {self._policy_id: {**graph, "weights": {**graph["weights"], **self.best[self._policy_id]}}}

    @property
    def replay_memory(self) -> SharedReplay:
        return self._replay

    def get_learning_state(self) -> dict[str, Any]:
        return {
            "learner": self._learner.ask("get_state")[0],
            "best": self.best[self._policy_id],
            "generation": self.generation,
            "matches": [match.to_tree() for match in self.matches],
            "rounds": self._rounds,
            "env_steps": self._env_steps,
            "rows_due": self._rows_due,
        }

    def get_state(self) -> dict[str, Any]:
        return {**self.get_learning_state(), "replay": self._memory.ask("get_state")[0]}

    def set_state(self, state: dict[str, Any]) -> None:
        for calls in (self._draws, self._learns, self._matches):
            calls.forget()
        self._learner_state = state["learner"]
        self._learner.ask("resume", self.runtime.put(state["learner"]))
        self.best, self.generation = {self._policy_id: dict(state["best"])}, int(state["generation"])
        self.matches = deque(map(Match.from_tree, state["matches"]), maxlen=MATCHES)
        self._rounds, self._env_steps = int(state["rounds"]), int(state["env_steps"])
        self._rows_due = float(state["rows_due"])
        if "replay" in state:
            self._replay.set_state(state["replay"])
