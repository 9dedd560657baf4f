"""Self-play: a policy that is made of past versions of another one, which so learns to beat them all.

It "trains" an opponent without gradients: it keeps a pool of what the learning policy was, and after each round of
samples has the opponent be one of them (Bansal et al. 2018; Vinyals et al. 2019).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from rlcore.errors import OptimizerError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Progress, Weights
from rlcore.policy_optimizer import OptimizerConfig, PolicyOptimizer, StepResult
from rlcore.runtime.base import Runtime
from rlcore.sample_stream import Sample
from rlcore_multiagent.pool import Pool, Record


class SelfPlayConfig(OptimizerConfig):
    """Settings of ``self_play``."""

    #: The policy that learns, whose past versions are played against.
    of: str
    #: Rounds of samples after which its present version is kept.
    every: int = Field(10, ge=1)
    #: Rounds of samples after which another opponent is drawn.
    change: int = Field(1, ge=1)
    #: How many versions are kept.
    pool: int = Field(20, ge=1)
    #: The share of opponents that are the present version itself.
    latest: float = Field(0.5, ge=0.0, le=1.0)
    #: How much more often hard opponents are met: the power of the share of games not won against them.
    power: float = Field(1.0, ge=0.0)
    seed: int = 0


class SelfPlay(PolicyOptimizer):
    """Keeps past versions of one policy and has the policies that it trains act as one of them.

    All of these get the same version. Statistics: ``win_rate`` of the learning policy over the pool's records,
    ``lowest_win_rate``, ``pool`` (versions kept) and ``games`` of this step. ``records`` is the table itself.

    A game counts as won where the learning policy's return is higher than that of the opponents. Games that went on
    while the opponent was changed count for none.
    """

    Config: ClassVar[type[OptimizerConfig]] = SelfPlayConfig
    config: SelfPlayConfig

    def __init__(
        self,
        local: PolicyEvaluator,
        evaluators: EvaluatorSet,
        runtime: Runtime,
        config: SelfPlayConfig,
        trains: tuple[str, ...],
    ) -> None:
        super().__init__(local, evaluators, runtime, config, trains)
        self._check_policies()
        self._pool = Pool(config.pool, config.power)
        self._rng = np.random.default_rng(config.seed)
        self._rounds = 0
        self._env_steps = 0
        #: The age of the version that the opponents act as; None for the present one, which is no version of the pool.
        self._opponent: int | None = None
        #: Slots, by evaluator and number, in which a game has begun since the opponent was changed.
        self._fresh: set[tuple[int, int]] = set()

    @classmethod
    def follows(cls, config: OptimizerConfig) -> str:
        assert isinstance(config, SelfPlayConfig)
        return config.of

    def _check_policies(self) -> None:
        of = self.config.of
        if of not in self.local.policies:
            known = ", ".join(self.local.policies)
            raise OptimizerError(f"self_play.of: there is no policy '{of}'; there are: {known}")
        if of in self.trains:
            raise OptimizerError(f"self_play.of: '{of}' is an opponent itself; another policy has to learn")
        learning, weights = self.local.graph_spec(of), self.local.get_weights()
        for policy_id in self.trains:
            graph, own = self.local.graph_spec(policy_id).graph, weights[policy_id]
            shapes = {name: array.shape for name, array in own.items()}
            alike = shapes == {name: array.shape for name, array in weights[of].items()}
            if graph is not learning.graph or not alike:
                raise OptimizerError(
                    f"self_play: '{policy_id}' has to have the same policy graph and model as '{of}', whose past "
                    "versions it acts as"
                )

    @property
    def records(self) -> tuple[Record, ...]:
        """The win-rate table: how games against each kept version ended, the oldest first."""
        return tuple(self._pool.records)

    def step(self) -> StepResult:
        now = self.runtime.now
        started = now()
        samples = self.reader.round()
        sampled = now()
        env_steps = sum(sample.info.env_steps for sample in samples)
        self._env_steps += env_steps
        games = self._note_games(samples)
        if self._rounds % self.config.every == 0:
            self._pool.add(self._present(), self._env_steps)
        if self._rounds % self.config.change == 0:
            self._change_opponent()
        self._rounds += 1
        stats = self._statistics(games)
        timers = {"sample_s": sampled - started, "learn_s": 0.0, "sync_s": now() - sampled}
        return StepResult(env_steps, 0, 0, stats={policy_id: stats for policy_id in self.trains}, timers=timers)

    def _note_games(self, samples: list[Sample]) -> int:
        """Enters finished games into the table; how many there were."""
        games = 0
        for sample in samples:
            for episode in sample.info.metrics.episodes:
                slot = sample.index, episode.slot
                if slot not in self._fresh:
                    self._fresh.add(slot)
                    continue
                returns = episode.policy_returns
                theirs = max(returns.get(policy_id, 0.0) for policy_id in self.trains)
                games += 1
                if self._opponent is not None:
                    self._pool.note(self._opponent, returns.get(self.config.of, 0.0) - theirs)
        return games

    def _present(self) -> Weights:
        return self.local.get_weights()[self.config.of]

    def _change_opponent(self) -> None:
        if self._rng.uniform() < self.config.latest:
            chosen, weights = None, self._present()
        else:
            number = self._pool.draw(self._rng)
            chosen, weights = self._pool.records[number].env_steps, self._pool.weights(number)
        if chosen is None or chosen != self._opponent:
            self._fresh.clear()
        self._opponent = chosen
        progress = Progress(env_steps=self._env_steps)
        self.evaluators.broadcast(dict.fromkeys(self.trains, weights), dict.fromkeys(self.trains, progress))

    def _statistics(self, games: int) -> dict[str, float]:
        played = [record.win_rate for record in self._pool.records if record.games]
        rates = {"win_rate": float(np.mean(played)), "lowest_win_rate": min(played)} if played else {}
        return {**rates, "pool": float(len(self._pool.records)), "games": float(games)}

    def get_state(self) -> dict[str, Any]:
        return {
            "pool": self._pool.get_state(),
            "rng": self._rng.bit_generator.state,
            "rounds": self._rounds,
            "env_steps": self._env_steps,
            "opponent": -1 if self._opponent is None else self._opponent,
            "fresh": [list(slot) for slot in sorted(self._fresh)],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self._pool.set_state(state["pool"])
        self._rng.bit_generator.state = state["rng"]
        self._rounds, self._env_steps = int(state["rounds"]), int(state["env_steps"])
        self._opponent = None if state["opponent"] == -1 else int(state["opponent"])
        self._fresh = {(int(index), int(slot)) for index, slot in state["fresh"]}
