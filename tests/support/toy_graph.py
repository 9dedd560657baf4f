"""A policy graph small enough to work out by hand: the value of a state is the state, one weight scores actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import SampleBatch
from rlcore.policy_graph import (
    ActOutput,
    ActRows,
    GradientOutput,
    GraphConfig,
    OtherAgents,
    Pinned,
    PolicyGraph,
    Progress,
    State,
    Weights,
)
from rlcore.returns import n_step


class ToyConfig(GraphConfig):
    step: float = 1.0
    poison: bool = False


class ToyGraph(PolicyGraph):
    """Its gradient is the mean of the observations of the minibatch; a step subtracts it."""

    Config = ToyConfig

    def __init__(self, observation_space: Any, action_space: Any, config: ToyConfig, **others: Any) -> None:
        super().__init__(observation_space, action_space, config, **others)
        self.config: ToyConfig = config
        self.weights: Weights = {"w": np.zeros(1)}
        self.progress: list[Progress] = []

    def act(
        self,
        obs: Any,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        return ActOutput(rng.integers(2, size=len(obs)), (), {"w_seen": np.full(len(obs), self.weights["w"][0])})

    def gradients(
        self, batch: SampleBatch | Pinned[Any], units: NDArray[np.int64] | None = None
    ) -> GradientOutput:
        assert isinstance(batch, SampleBatch)
        obs = batch["obs"] if units is None else batch["obs"][units]
        gradient = np.full(1, np.nan) if self.config.poison else obs.mean(axis=0).astype(np.float64)
        return GradientOutput({"w": gradient}, len(obs), {"loss": float(obs.mean())})

    def apply_gradients(self, gradients: Weights) -> None:
        self.weights = {"w": self.weights["w"] - self.config.step * gradients["w"]}

    def on_progress(self, progress: Progress) -> None:
        self.progress.append(progress)

    def get_state(self) -> dict[str, Any]:
        return {"weights": {"w": self.weights["w"].copy()}}

    def set_state(self, state: dict[str, Any]) -> None:
        self.weights = {"w": np.array(state["weights"]["w"])}


class LookaheadGraph(ToyGraph):
    """Three-step returns."""

    lookahead = 2

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        return n_step(batch, 3, 0.9)
