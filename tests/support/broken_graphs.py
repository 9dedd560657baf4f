"""Policy graphs that break one rule of the contract each: LinearPG or TableValue with one thing done differently."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from pydantic import BaseModel, ConfigDict

from rlcore.batch import ADVANTAGES, REWARDS, SampleBatch
from rlcore.errors import SpaceError
from rlcore.optim import Adam
from rlcore.policy_graph import PIECE, ActOutput, GradientOutput, LearnOutput, Pinned
from rlcore.returns import backward_scan
from rlcore.testing.constant import TableValue
from rlcore.testing.linear import BIAS, WEIGHT, LinearPG, LinearPGConfig

_numbers = itertools.count()


# -- building


class NotBuilt(LinearPG):
    def __init__(self, *args: Any, **keywords: Any) -> None:
        raise RuntimeError("not today")


class RandomStart(LinearPG):
    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.set_weights({BIAS: np.full_like(self._weights[BIAS], next(_numbers))})


class LooseConfig(LinearPGConfig):
    model_config = ConfigDict(extra="ignore")


class TakesAnySetting(LinearPG):
    Config = LooseConfig


class PlainConfig(BaseModel):
    learning_rate: float = 1e-3


class NoGraphConfig(LinearPG):
    Config = PlainConfig  # type: ignore[assignment]


class UnpicklableConfig(LinearPGConfig):
    def __reduce__(self) -> Any:
        raise TypeError("stays here")


class StaysHere(LinearPG):
    Config = UnpicklableConfig


class AnyDevice(LinearPG):
    def __init__(self, *args: Any, devices: Any = ("cpu",), **keywords: Any) -> None:
        super().__init__(*args, **keywords)


class AnySpace(TableValue):
    """Builds with any spaces; fails later."""

    def __init__(self, observation_space: Any, action_space: Any, config: Any, **keywords: Any) -> None:
        with contextlib.suppress(SpaceError):
            super().__init__(observation_space, action_space, config, **keywords)


class NamelessRefusal(LinearPG):
    def __init__(self, *args: Any, **keywords: Any) -> None:
        try:
            super().__init__(*args, **keywords)
        except SpaceError:
            raise SpaceError("unsupported") from None


class FloatLookahead(LinearPG):
    lookahead = 1.5  # type: ignore[assignment]


class StringUnit(LinearPG):
    minibatch_unit = "row"  # type: ignore[assignment]


class ListsUtilities(LinearPG):
    def utilities(self) -> Any:
        return ["update_target"]


class TakesAnyCall(LinearPG):
    def call(self, utility: str, *args: Any) -> Any:
        return None


class GlobalDraws(LinearPG):
    def act(self, *args: Any, **keywords: Any) -> ActOutput:
        out = super().act(*args, **keywords)
        np.random.random()
        return out


# -- acting


class Acts(LinearPG):
    """What acting gives goes through ``changed``."""

    def act(self, obs: Any, state: Any = (), *, rows: Any = None, explore: bool = True, rng: Any) -> ActOutput:
        return self.changed(super().act(obs, state, rows=rows, explore=explore, rng=rng), obs)

    def changed(self, out: ActOutput, obs: Any) -> ActOutput:
        return out


class ColumnActions(Acts):
    def changed(self, out: ActOutput, obs: Any) -> ActOutput:
        return out._replace(actions=out.actions[..., None])  # type: ignore[call-overload,index]


class SmallActions(Acts):
    def changed(self, out: ActOutput, obs: Any) -> ActOutput:
        return out._replace(actions=out.actions.astype(np.int8))  # type: ignore[union-attr]


class NamedActions(Acts):
    def changed(self, out: ActOutput, obs: Any) -> ActOutput:
        return out._replace(actions={"move": out.actions})  # type: ignore[dict-item]


class TooManyActions(Acts):
    def changed(self, out: ActOutput, obs: Any) -> ActOutput:
        return out._replace(actions=out.actions + 2)  # type: ignore[operator]


class NaNActions(Acts):
    def changed(self, out: ActOutput, obs: Any) -> ActOutput:
        return out._replace(actions=out.actions * np.float32(np.nan))  # type: ignore[operator]


class Unmasked(LinearPG):
    """Does what it likes, whatever is legal."""

    def act(self, obs: Any, state: Any = (), *, rows: Any = None, explore: bool = True, rng: Any) -> ActOutput:
        params = self._actor.parameters(self._actor.features(obs))
        actions, logp, _ = self._distribution.draw(params, rng) if explore else self._distribution.mode(params)
        return ActOutput(actions, (), {"action_logp": logp})


class OnlyPlain(LinearPG):
    """Refuses nested observations, and all actions but one choice or some numbers."""

    def __init__(self, observation_space: Any, action_space: Any, *args: Any, **others: Any) -> None:
        if not isinstance(observation_space, Box) or not isinstance(action_space, Box | Discrete):
            raise SpaceError(f"not from {observation_space} to {action_space}")
        super().__init__(observation_space, action_space, *args, **others)


class ScalarExtras(Acts):
    def changed(self, out: ActOutput, obs: Any) -> ActOutput:
        return out._replace(extras={**out.extras, "temperature": 1.0})  # type: ignore[dict-item]


class NaNExtras(Acts):
    def changed(self, out: ActOutput, obs: Any) -> ActOutput:
        return out._replace(extras={**out.extras, "energy": np.full(len(obs), np.nan)})


class DoubleLogp(Acts):
    def changed(self, out: ActOutput, obs: Any) -> ActOutput:
        return out._replace(extras={"action_logp": out.extras["action_logp"].astype(np.float64)})


class WrongLogp(Acts):
    def changed(self, out: ActOutput, obs: Any) -> ActOutput:
        return out._replace(extras={"action_logp": out.extras["action_logp"] + np.float32(0.01)})


class FewLogProbs(LinearPG):
    def log_probs(self, batch: SampleBatch) -> Any:
        return super().log_probs(batch)[:, None]


class OwnDraws(Acts):
    """Draws from a generator of its own."""

    def changed(self, out: ActOutput, obs: Any) -> ActOutput:
        self.calls = getattr(self, "calls", 0) + 1
        actions = np.random.default_rng([id(self) % 2**32, self.calls]).integers(3, size=len(obs))
        return out._replace(actions=actions)


class AlwaysExplores(LinearPG):
    def act(self, obs: Any, state: Any = (), *, rows: Any = None, explore: bool = True, rng: Any) -> ActOutput:
        return super().act(obs, state, rows=rows, rng=rng)


class ScalesItsArgument(LinearPG):
    def act(self, obs: Any, state: Any = (), *, rows: Any = None, explore: bool = True, rng: Any) -> ActOutput:
        obs *= 0.5
        return super().act(obs, state, rows=rows, explore=explore, rng=rng)


class CountsActs(LinearPG):
    """Keeps in its state how often it acted."""

    acts = 0

    def act(self, obs: Any, state: Any = (), *, rows: Any = None, explore: bool = True, rng: Any) -> ActOutput:
        self.acts += 1
        return super().act(obs, state, rows=rows, explore=explore, rng=rng)

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "acts": self.acts}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self.acts = state["acts"]


class RemembersActs(Acts):
    """Alternates between two actions."""

    def changed(self, out: ActOutput, obs: Any) -> ActOutput:
        self.odd = not getattr(self, "odd", False)
        return out._replace(actions=np.full(len(obs), int(self.odd)))


class NormalisesRows(Acts):
    def act(self, obs: Any, state: Any = (), *, rows: Any = None, explore: bool = True, rng: Any) -> ActOutput:
        out = super().act(obs, state, rows=rows, explore=explore, rng=rng)
        return out._replace(extras={**out.extras, "rank": obs[:, 0] - obs[:, 0].mean()})


class StateOfAnotherShape(TableValue):
    def act(self, *args: Any, **keywords: Any) -> ActOutput:
        out = super().act(*args, **keywords)
        return out._replace(state=tuple(part[:, 0] for part in out.state))


class OneStateForAll(TableValue):
    def initial_state(self, n: int) -> Any:
        return tuple(part[:1] for part in super().initial_state(n)) if n == 4 else super().initial_state(n)


class StatesDiffer(TableValue):
    def initial_state(self, n: int) -> Any:
        return (np.arange(n, dtype=np.float32)[:, None],)


_kept: dict[int, Any] = {}


class SharedStates(TableValue):
    def initial_state(self, n: int) -> Any:
        return _kept.setdefault(n, super().initial_state(n))


# -- learning


class Gradients(LinearPG):
    """What gradients() gives goes through ``changed``."""

    def gradients(self, batch: Any, units: Any = None) -> GradientOutput:
        out = super().gradients(batch, units)
        self.changed(out, batch)
        return out

    def changed(self, out: GradientOutput, batch: Any) -> None:
        pass


def replaced(out: GradientOutput, **changes: Any) -> None:
    for name, value in changes.items():
        object.__setattr__(out, name, value)


class NoBias(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        del out.gradients[BIAS]


class FlatGradients(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        out.gradients[WEIGHT] = out.gradients[WEIGHT].reshape(-1)

    def apply_gradients(self, gradients: Any) -> None:
        shape = self._weights[WEIGHT].shape
        super().apply_gradients({**gradients, WEIGHT: gradients[WEIGHT].reshape(shape)})


class NaNGradients(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        out.gradients[BIAS][0] = np.nan


class GradientsCount(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        self._env_steps += 1


class GradientsWrite(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        if isinstance(batch, SampleBatch):
            batch.rows[ADVANTAGES] = batch.rows[ADVANTAGES] * 1.0
            batch.rows[ADVANTAGES][0] = 5.0


class GradientsDrift(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        self.calls = getattr(self, "calls", 0) + 1
        out.gradients[BIAS][:] += self.calls


class CountsBatch(Gradients):
    def gradients(self, batch: Any, units: Any = None) -> GradientOutput:
        out = super().gradients(batch, units)
        replaced(out, count=batch.rows if isinstance(batch, Pinned) else len(batch))
        return out


class Sums(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        for gradient in out.gradients.values():
            gradient *= out.count


class LearnsTwice(LinearPG):
    def learn(self, batch: Any, units: Any = None) -> LearnOutput:
        super().learn(batch, units)
        return super().learn(batch, units)


class PinsHalf(LinearPG):
    def learn(self, batch: Any, units: Any = None) -> LearnOutput:
        if isinstance(batch, Pinned):
            batch = Pinned(batch.held._replace(advantages=batch.held.advantages * np.float32(0.5)), batch.rows)
        return super().learn(batch, units)

    def gradients(self, batch: Any, units: Any = None) -> GradientOutput:
        if isinstance(batch, Pinned):
            batch = Pinned(batch.held._replace(advantages=batch.held.advantages * np.float32(0.5)), batch.rows)
        return super().gradients(batch, units)


class PinsOneRow(LinearPG):
    def pin(self, batch: SampleBatch) -> Any:
        return Pinned(super().pin(batch).held, 1)


class LearnsAtRandom(LinearPG):
    def apply_gradients(self, gradients: Any) -> None:
        super().apply_gradients(gradients)
        self._load({BIAS: self._weights[BIAS] + np.float32(1e-3 * next(_numbers))})


class LearnsNothing(LinearPG):
    def apply_gradients(self, gradients: Any) -> None:
        pass


class WritesBatch(LinearPG):
    def pin(self, batch: SampleBatch) -> Any:
        batch.rows[ADVANTAGES] -= batch.rows[ADVANTAGES].mean()
        return super().pin(batch)


class OtherRule(LinearPG):
    def update_rule(self) -> Any:
        own = super().update_rule()
        used = self.__class__ is OtherRule and not getattr(self, "_applying", False)
        return Adam(own.learning_rate * 2, own.max_grad_norm, epsilon=own.epsilon) if used else own  # type: ignore[attr-defined]

    def apply_gradients(self, gradients: Any) -> None:
        self._applying = True
        super().apply_gradients(gradients)
        self._applying = False


class AppliesNaN(LinearPG):
    def learn(self, batch: Any, units: Any = None) -> LearnOutput:
        out = self.gradients(batch, units)
        self._load({name: self._weights[name] - 0.01 * gradient for name, gradient in out.gradients.items()})
        return LearnOutput(out.stats)


class SkipsHalf(LinearPG):
    """Counts an update that it skips."""

    def learn(self, batch: Any, units: Any = None) -> LearnOutput:
        out = super().learn(batch, units)
        self._env_steps += out.skipped
        return out


class StaysSkipping(LinearPG):
    stuck = False

    def learn(self, batch: Any, units: Any = None) -> LearnOutput:
        out = super().learn(batch, units)
        self.stuck = self.stuck or out.skipped
        return out._replace(skipped=self.stuck)


class NeedsTwo(LinearPG):
    """Divides by the deviation of the minibatch."""

    def gradients(self, batch: Any, units: Any = None) -> GradientOutput:
        out = super().gradients(batch, units)
        if out.count == 1:
            out.gradients[BIAS][:] = np.nan
        return out


class ArrayStats(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        replaced(out, stats={**out.stats, "loss": np.zeros(2)})


class ShortErrors(Gradients):
    def changed(self, out: GradientOutput, batch: Any) -> None:
        replaced(out, td_error=np.zeros(out.count + 1))


class PieceOfRows(TableValue):
    """Counts pieces where it averages over rows."""

    def gradients(self, batch: Any, units: Any = None) -> GradientOutput:
        out = super().gradients(batch, units)
        if self.minibatch_unit is PIECE:
            replaced(out, count=len(units) if units is not None else out.count)
        return out


# -- weights


class Renamed(LinearPG):
    """Its weights have other names outside."""

    names: dict[str, str] = {}

    def get_weights(self, names: Any = None) -> Any:
        weights = {self.names.get(name, name): self.out(name, array) for name, array in super().get_weights().items()}
        return weights if names is None else {name: weights[name] for name in names}

    def out(self, name: str, array: Any) -> Any:
        return array


class CamelNames(Renamed):
    names = {WEIGHT: "Policy/Kernel:0"}


class ListWeights(Renamed):
    def out(self, name: str, array: Any) -> Any:
        return array.tolist() if name == BIAS else array


class NaNWeights(Renamed):
    def out(self, name: str, array: Any) -> Any:
        return array * np.float32(np.nan) if name == BIAS else array


class Transposed(Renamed):
    def out(self, name: str, array: Any) -> Any:
        return array.T if name == WEIGHT else array


class ListsActing(LinearPG):
    @property
    def acting(self) -> Any:
        return sorted(super().acting)


class NamesMore(LinearPG):
    @property
    def trainable(self) -> frozenset[str]:
        return super().trainable | {"policy.extra"}


class GivesAll(LinearPG):
    def get_weights(self, names: Any = None) -> Any:
        return super().get_weights()


class ForgetsBias(LinearPG):
    def set_weights(self, weights: Any) -> None:
        super().set_weights(weights)
        self._load({BIAS: np.zeros_like(self._weights[BIAS])})


class HidesBias(LinearPG):
    """Acts with something that is none of its weights."""

    def __init__(self, *args: Any, rng: Any, **keywords: Any) -> None:
        super().__init__(*args, rng=rng, **keywords)
        self.hidden = rng.standard_normal()

    def act(self, *args: Any, **keywords: Any) -> ActOutput:
        out = super().act(*args, **keywords)
        return out._replace(extras={**out.extras, "noise": np.full(len(out.extras["action_logp"]), self.hidden)})


class ActsWithMore(LinearPG):
    @property
    def acting(self) -> frozenset[str]:
        return frozenset({BIAS})


class ClearsOthers(LinearPG):
    @property
    def acting(self) -> frozenset[str]:
        return frozenset({WEIGHT})

    def act(self, *args: Any, **keywords: Any) -> ActOutput:
        kept, self._weights = self._weights, {**self._weights, BIAS: np.zeros_like(self._weights[BIAS])}
        self._actor.set_weights(self._weights)
        out = super().act(*args, **keywords)
        self._weights = kept
        return out

    def set_weights(self, weights: Any) -> None:
        super().set_weights({BIAS: self._weights[BIAS] + 1.0, **weights})


class TakesUnknown(LinearPG):
    def set_weights(self, weights: Any) -> None:
        super().set_weights({name: array for name, array in weights.items() if name in self._weights})


class RefusesOddly(LinearPG):
    def set_weights(self, weights: Any) -> None:
        for name, array in weights.items():
            if self._weights[name].shape != array.shape:
                raise AssertionError
        self._load(weights)


class RefusesVaguely(LinearPG):
    def set_weights(self, weights: Any) -> None:
        from rlcore.errors import UserError

        try:
            super().set_weights(weights)
        except UserError:
            raise UserError("wrong weights") from None


class RefusesHalfWay(LinearPG):
    def set_weights(self, weights: Any) -> None:
        for name in sorted(weights):
            super().set_weights({name: weights[name]})


class LiveWeights(LinearPG):
    """Updates the very arrays that it gave out."""

    def get_weights(self, names: Any = None) -> Any:
        return self._weights if names is None else {name: self._weights[name] for name in names}

    def _load(self, weights: Any) -> None:
        for name, array in weights.items():
            self._weights[name][...] = array
        self._actor.set_weights(self._weights)


class AdoptsWeights(LinearPG):
    def _load(self, weights: Any) -> None:
        super()._load(weights)
        self._weights = {**self._weights, **weights}


# -- states


class ObjectState(LinearPG):
    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "rule": self.update_rule()}


class FlatState(LinearPG):
    def get_state(self) -> dict[str, Any]:
        state = super().get_state()
        return {"w": state.pop("weights"), **state}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state({"weights": state["w"], **state})

    def get_weights(self, names: Any = None) -> Any:
        weights = {name: array.copy() for name, array in self._weights.items()}
        return weights if names is None else {name: weights[name] for name in names}


class OldWeightsInState(LinearPG):
    def get_state(self) -> dict[str, Any]:
        state = super().get_state()
        return {**state, "weights": {name: array * 0 for name, array in state["weights"].items()}}

    def get_weights(self, names: Any = None) -> Any:
        return dict(self._weights)


class ForgetsMoments(LinearPG):
    """The optimizer's memory is saved, and not taken over."""

    def set_state(self, state: dict[str, Any]) -> None:
        self.set_weights(state["weights"])
        self._env_steps = int(state["env_steps"])


class ForgetsSteps(LinearPG):
    """Its schedule begins anew."""

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state({**state, "env_steps": 0})


class LiveState(LinearPG):
    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "weights": self._weights}

    def _load(self, weights: Any) -> None:
        for name, array in weights.items():
            self._weights[name][...] = array
        self._actor.set_weights(self._weights)

    def get_weights(self, names: Any = None) -> Any:
        return {name: array.copy() for name, array in self._weights.items() if names is None or name in names}


class AdoptsState(LinearPG):
    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._counts = state.setdefault("counts", np.zeros(1))

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "counts": getattr(self, "_counts", np.zeros(1)).copy()}

    def apply_gradients(self, gradients: Any) -> None:
        super().apply_gradients(gradients)
        self._counts = getattr(self, "_counts", np.zeros(1))
        self._counts += 1


# -- rho


class Postprocesses(LinearPG):
    def postprocess(self, batch: SampleBatch, other_agents: Any = None) -> SampleBatch:
        return self.amended(super().postprocess(batch), batch)

    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        return done


class ClipsRewards(Postprocesses):
    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        np.clip(batch.rows[REWARDS], -0.1, 0.1, out=batch.rows[REWARDS])
        return done


class LearnsInRho(Postprocesses):
    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        self._env_steps += 1
        return done


class CountsBatches(Postprocesses):
    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        self.batches = getattr(self, "batches", 0) + 1
        return done.with_rows(**{ADVANTAGES: done[ADVANTAGES] + np.float32(self.batches)})


class GivesColumns(Postprocesses):
    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        return dict(done.rows)


class DropsShortPieces(Postprocesses):
    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        return done.take_pieces(np.flatnonzero(done.cuts["length"] > 3))


class DropsColumns(Postprocesses):
    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        return SampleBatch({name: c for name, c in done.rows.items() if name != "t"}, done.cuts)


class MixesPieces(Postprocesses):
    """Sums rewards over the ends of episodes."""

    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        returns = backward_scan(batch[REWARDS], np.full(len(batch), 0.9)).astype(np.float32)
        return done.with_rows(**{ADVANTAGES: returns})


class NormalisesBatch(Postprocesses):
    def amended(self, done: SampleBatch, batch: SampleBatch) -> Any:
        return done.with_rows(**{ADVANTAGES: done[ADVANTAGES] - done[ADVANTAGES].mean()})
