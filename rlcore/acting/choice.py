"""How what networks put out becomes actions, and rows transitions: the part of off-policy acting that no framework
computes, and the actors in numpy that are made of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcore.acting.box_scale import BoxScale
from rlcore.acting.exploration import ActionNoise, ExplorationRate
from rlcore.acting.masks import ActionMask
from rlcore.acting.networks import MLP
from rlcore.acting.observations import FlatObs
from rlcore.acting.states import check_state
from rlcore.acting.weighted import WeightedActor
from rlcore.columns import Columns
from rlcore.policy_graph import ActOutput, ActRows, GraphConfig, Progress, State, Weights


class Choice(ABC):
    """What is chosen depends on how far the run is."""

    #: Rows that sums over several steps need beyond the end of a piece.
    lookahead: int = 0
    #: The reader of action masks, None where observations have none.
    mask: ActionMask | None = None

    @abstractmethod
    def advance(self, env_steps: int) -> None:
        """The run has come to so many environment steps."""

    @abstractmethod
    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        """By name, what reads and sets how much is explored."""

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Entries of the state of whoever acts so."""

    @abstractmethod
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state with these entries."""


class RatedChoice(Choice):
    """One that explores at a ``rate``, which is called by a name of its own, such as ``epsilon``.

    Utilities: ``NAME()``, the number as it stands, and ``set_NAME(number or array by slot, or None)``. In states it is
    the entry ``NAME``.
    """

    def __init__(self, name: str, schedule: float | Sequence[Sequence[float]]) -> None:
        self._name = name
        self.rate = ExplorationRate(schedule)

    def advance(self, env_steps: int) -> None:
        self.rate.advance(env_steps)

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        return {self._name: self._now, f"set_{self._name}": self._set}

    def _now(self) -> float | NDArray[np.float64]:
        now = self.rate.now()
        return now.copy() if now.ndim else float(now)

    def _set(self, value: ArrayLike | None) -> None:
        self.rate.set(value)

    def get_state(self) -> dict[str, Any]:
        return {self._name: self.rate.get_state()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self.rate.set_state(state[self._name])


class PolicyChoice(Choice):
    """Of what a policy puts out, with noise that may have a state."""

    draws: ActionNoise
    #: Between actions and numbers from -1 to 1; None for discrete ones.
    scale: BoxScale | None

    @abstractmethod
    def choose(
        self,
        outputs: NDArray[np.float32],
        obs: Columns,
        state: State,
        rows: ActRows | None,
        explore: bool,
        rng: np.random.Generator,
    ) -> ActOutput:
        """Actions ``[n, ...]`` of the policy's ``outputs [n, k]`` for observations ``[n, ...]``, and the noise's state.

        ``NoLegalActionError`` where an action mask allows nothing.
        """


class ChoosingActor(WeightedActor):
    """An actor that is a choice by what its networks put out."""

    _choice: Choice

    def __init__(
        self, choice: Choice, config: GraphConfig, shapes: Mapping[str, tuple[int, ...]], weights: Weights
    ) -> None:
        """``shapes`` are those of the weights that it reads."""
        self._choice, self._config, self.lookahead = choice, config, choice.lookahead
        super().__init__(shapes, weights)

    def describe(self) -> dict[str, Any]:
        """What makes an actor that acts the same, beside spaces and weights, as plain JSON."""
        return {"config": self._config.model_dump(mode="json")}

    def on_progress(self, progress: Progress) -> None:
        """How much is explored goes by the environment steps."""
        self._choice.advance(progress.env_steps)

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        return self._choice.utilities()

    def get_state(self) -> dict[str, Any]:
        """``weights``, and what the choice goes by."""
        return {**super().get_state(), **self._choice.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._choice.set_state(state)


class PolicyActor(ChoosingActor):
    """One whose dense network puts out what a :class:`PolicyChoice` is of; ``rebuild`` makes it."""

    _choice: PolicyChoice
    _flatten: FlatObs
    _policy: MLP

    def initial_state(self, n: int) -> State:
        """That of correlated noise, else ``()``."""
        return self._choice.draws.initial_state(n)

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        """Actions for observations ``[n, ...]``; without ``explore`` the likeliest, of a policy with noise its own.

        ``NoLegalActionError`` where an action mask allows nothing, ``UserError`` for a state that does not fit.
        """
        x = self._flatten(obs)
        check_state(state, self._choice.draws.state_parts, len(x))
        return self._choice.choose(self._policy(x), obs, state, rows, explore, rng)
