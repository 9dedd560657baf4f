"""Graphs that act as they should not."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from rlcore.batch import SampleBatch
from rlcore.errors import SpaceError
from rlcore.policy_graph import ActOutput
from rlcore.testing.constant import TableValue
from rlcore.testing.linear import LinearPG


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
