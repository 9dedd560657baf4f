"""Reward filters: what stands between the rewards of the environment and those that are learnt from.

They change the rewards in samples. Returns of episodes, in rows, results and evaluations, are always the environment's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rlcore.batch import AGENT_ID, REWARDS, SLOT, START, TERMINATED, TRUNCATED, SampleBatch, T
from rlcore.returns import backward_scan
from rlcore.sampling.filters import RunningShared

#: Under this name the statistics of rewards travel among those of the observation's leaves; no leaf is called so.
REWARD_STATISTICS = "<rewards>"

#: A standard deviation below this is rounding noise of a constant, which is left as it is.
_SMALLEST_STD = 1e-8


class RewardFilter(ABC):
    """Changes the rewards of raw samples, before anything is computed from them."""

    @abstractmethod
    def scale(self, batch: SampleBatch) -> None:
        """Replaces the column ``rewards`` of a sample, float32 ``[n]``. Samples of an evaluator come in their order."""


class ClipRewards(RewardFilter):
    """Rewards beyond ``[-1, 1]`` become -1 or 1 (Mnih et al. 2015, "Human-level control", Methods)."""

    def scale(self, batch: SampleBatch) -> None:
        batch.rows[REWARDS] = np.clip(batch.rows[REWARDS], -1.0, 1.0)


class ScaleRewards(RunningShared, RewardFilter):
    """Divides by the standard deviation of the discounted return so far, and clips to ``[-clip, clip]``.

    The return so far of a row is ``G[t] = reward[t] + gamma * G[t - 1]`` within its episode (as in OpenAI's Baselines;
    Engstrom et al. 2020, "Implementation Matters in Deep Policy Gradients", section 3). Rewards are not centred: that
    would change what an episode is worth by its length. Before the first delta is applied they pass unscaled.
    """

    def __init__(self, gamma: float, clip: float = 10.0) -> None:
        self._gamma = gamma
        self._clip = clip
        super().__init__(())
        #: ``{(slot, agent_id): return so far}`` of episodes that were running when the last sample ended.
        self._running: dict[tuple[int, Any], float] = {}

    def scale(self, batch: SampleBatch) -> None:
        self._delta.update(self._returns(batch))
        std = float(self._statistics.std)
        if self._statistics.count and std >= _SMALLEST_STD:
            scaled = batch.rows[REWARDS] / std
            batch.rows[REWARDS] = np.clip(scaled, -self._clip, self._clip).astype(np.float32)

    def _returns(self, batch: SampleBatch) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The return so far of each row, float64 ``[n]``; remembers where running episodes stand."""
        rewards = batch.rows[REWARDS].astype(np.float64)
        if not len(rewards):
            return rewards
        starts, last = batch.cuts[START], batch.last_rows()
        tracks = list(zip(batch.cuts[SLOT].tolist(), batch.cuts[AGENT_ID].tolist(), strict=True))
        for start, track in zip(starts.tolist(), tracks, strict=True):
            if batch.rows[T][start]:
                rewards[start] += self._gamma * self._running.get(track, 0.0)
        discounts = np.full(len(rewards), self._gamma)
        discounts[starts] = 0.0
        # From the last row to the first, what lies behind is what came before.
        returns = backward_scan(rewards[::-1], discounts[::-1])[::-1]
        over = batch.rows[TERMINATED] | batch.rows[TRUNCATED]
        for row, track in zip(last.tolist(), tracks, strict=True):
            if over[row]:
                self._running.pop(track, None)
            else:
                self._running[track] = float(returns[row])
        return returns

    def get_state(self) -> dict[str, Any]:
        return {
            **super().get_state(),
            "slots": [slot for slot, _ in self._running],
            "agents": [agent for _, agent in self._running],
            "returns": np.array(list(self._running.values()), np.float64),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        super().set_state(state)
        tracks = zip(state["slots"], state["agents"], strict=True)
        self._running = dict(zip(tracks, np.asarray(state["returns"]).tolist(), strict=True))


#: The filters that a config can name, made for a discount.
REWARD_FILTERS: Mapping[str, Callable[[float], RewardFilter | None]] = {
    "none": lambda gamma: None,
    "clip": lambda gamma: ClipRewards(),
    "return_std": ScaleRewards,
}
