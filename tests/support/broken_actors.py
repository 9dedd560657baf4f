"""Actors that break one rule of the contract each, and the policy graphs that hand them out."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from rlcore.batch import ADVANTAGES, SampleBatch
from rlcore.errors import UserError
from rlcore.policy_graph import ActOutput
from rlcore.testing.constant import TableActor, TableValue
from rlcore.testing.linear import BIAS, WEIGHT, LinearActor, LinearPG


class WithActor(LinearPG):
    """LinearPG that hands out another actor than it acts with itself."""

    actor_class: type[Any] = LinearActor

    def actor(self) -> Any:
        if not hasattr(self, "_actor"):
            return super().actor()
        return self.actor_class(self.observation_space, self.action_space, self.config, self.get_weights())


def graph_with(actor: type[Any]) -> type[LinearPG]:
    return type(f"With{actor.__name__}", (WithActor,), {"actor_class": actor, "__module__": __name__})


class NoUtilities(LinearActor):
    call = property()  # type: ignore[assignment]


class LooksAhead(LinearActor):
    lookahead = 3


class BeginsElsewhere(LinearActor):
    def initial_state(self, n: int) -> Any:
        return (np.zeros((n, 1), np.float32),)


class Slanted(LinearActor):
    def parameters(self, features: Any) -> Any:
        return super().parameters(features) + np.float32(0.5) * features[:, :1] * np.array([[1, 0, 0]], np.float32)


class NeverExplores(LinearActor):
    def act(self, obs: Any, state: Any = (), *, rows: Any = None, explore: bool = True, rng: Any) -> ActOutput:
        return super().act(obs, state, rows=rows, explore=False, rng=rng)


class KeepsItsBias(LinearActor):
    def set_weights(self, weights: Any) -> None:
        super().set_weights({name: array for name, array in weights.items() if name != BIAS or not self._weights})


class SharesWeights(LinearActor):
    """Acts with the graph's own arrays."""

    def set_weights(self, weights: Any) -> None:
        self._weights = {**self._weights, **weights}


class LiveGraph(WithActor):
    """Its actors have its own arrays, which its updates write into."""

    actor_class = SharesWeights

    def get_weights(self, names: Any = None) -> Any:
        return {name: array for name, array in self._weights.items() if names is None or name in names}

    def _load(self, weights: Any) -> None:
        for name, array in weights.items():
            self._weights[name][...] = array
        if hasattr(self, "_actor"):
            self._actor.set_weights({name: array.copy() for name, array in self._weights.items()})


class CannotBePickled(LinearActor):
    def __reduce__(self) -> Any:
        raise TypeError("it stays here")


class FailsElsewhere(LinearActor):
    def __setstate__(self, state: Any) -> None:
        raise RuntimeError("where am I?")


class ForgetsElsewhere(LinearActor):
    def __getstate__(self) -> Any:
        return {**self.__dict__, "_scale": np.float32(1.0)}


class OtherRho(LinearActor):
    def postprocess(self, batch: SampleBatch, other_agents: Any = None) -> SampleBatch:
        done = super().postprocess(batch)
        return done.with_rows(**{ADVANTAGES: done[ADVANTAGES] * np.float32(2.0)})


class WritesObs(LinearActor):
    def act(self, obs: Any, state: Any = (), *, rows: Any = None, explore: bool = True, rng: Any) -> ActOutput:
        obs += 1.0
        out = super().act(obs, state, rows=rows, explore=explore, rng=rng)
        return out


class Remembers(LinearActor):
    def act(self, obs: Any, state: Any = (), *, rows: Any = None, explore: bool = True, rng: Any) -> ActOutput:
        self.calls = getattr(self, "calls", 0) + 1
        out = super().act(obs, state, rows=rows, explore=explore, rng=rng)
        return out._replace(extras={**out.extras, "calls": np.full(len(obs), self.calls)})


class TakesAnyShape(LinearActor):
    def set_weights(self, weights: Any) -> None:
        self._weights = {**self._weights, **copy.deepcopy(weights)}


class RefusesVaguely(LinearActor):
    def set_weights(self, weights: Any) -> None:
        try:
            super().set_weights(weights)
        except UserError:
            raise UserError("no") from None


class RefusesOddly(LinearActor):
    def set_weights(self, weights: Any) -> None:
        for name, array in weights.items():
            if self._weights:
                self._weights[name] + array
        super().set_weights(weights)


class RefusesHalfWay(LinearActor):
    def set_weights(self, weights: Any) -> None:
        for name in sorted(weights):
            super().set_weights({name: weights[name]}) if self._weights else super().set_weights(weights)


class ObjectState(LinearActor):
    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "actor": self}


class NoWeightsState(LinearActor):
    def get_state(self) -> dict[str, Any]:
        return {"w": super().get_state()["weights"]}


class ForgetsState(LinearActor):
    """What the graph noise has is in no state."""

    def __init__(self, observation_space: Any, action_space: Any, config: Any, weights: Any) -> None:
        super().__init__(observation_space, action_space, config, weights)
        self.noise = float(np.abs(weights[WEIGHT]).sum())

    def act(self, obs: Any, state: Any = (), *, rows: Any = None, explore: bool = True, rng: Any) -> ActOutput:
        out = super().act(obs, state, rows=rows, explore=explore, rng=rng)
        return out._replace(extras={**out.extras, "noise": np.full(len(obs), self.noise)})


class MovedAtStart(WithActor):
    """Begins with weights that depend on the seed."""

    def __init__(self, *args: Any, rng: Any, **keywords: Any) -> None:
        super().__init__(*args, rng=rng, **keywords)
        self._load({WEIGHT: rng.standard_normal(self._weights[WEIGHT].shape).astype(np.float32)})


class ForgetfulGraph(MovedAtStart):
    actor_class = ForgetsState


class TakesAnyCall(LinearActor):
    def call(self, utility: str, *args: Any) -> Any:
        return None


class NoRho(TableActor):
    postprocess = None  # type: ignore[assignment]


class RhoAtTheLearner(TableValue):
    def actor(self) -> Any:
        return NoRho(self.observation_space, self.action_space, self.config, self.get_weights())
