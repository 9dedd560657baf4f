"""TableValue: a policy graph whose every number is known beforehand, and that checks what it is handed. No network.

``V(s) = s``, a constant action, and gradients that are plain means of columns: what a sampler, an advantage or an
optimizer makes of them can be worked out by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from rlcore.acting.masks import has_mask
from rlcore.batch import ACTION_LOGP, ADVANTAGES, LAST_VALUE, VF_PREDS, SampleBatch
from rlcore.columns import Columns, leaf_spaces
from rlcore.errors import SpaceError, UserError
from rlcore.model import BatchedModel
from rlcore.optim import SGD, UpdateRule
from rlcore.policy_graph import (
    PIECE,
    ROW,
    ActOutput,
    ActRows,
    GradientOutput,
    GraphConfig,
    LearnOutput,
    OtherAgents,
    Pinned,
    PolicyGraph,
    Progress,
    State,
    Unit,
    Weights,
    call_utility,
    check_weights,
)
from rlcore.returns import gae
from rlcore.testing.checks import check_act_rows, check_batch, check_observations

OFFSET, DRIFT = "table.offset", "table.drift"
#: Row columns that acting returns: the observation's first number, and the rows as it was told them.
SEEN_OBS, SEEN_SLOT, SEEN_T, SEEN_STATE = "seen_obs", "seen_slot", "seen_t", "seen_state"

_LEAVES = (
    gymnasium.spaces.Box,
    gymnasium.spaces.Discrete,
    gymnasium.spaces.MultiDiscrete,
    gymnasium.spaces.MultiBinary,
)


class TableValueConfig(GraphConfig):
    """``action`` is what it always does in a Discrete space (in a Box it does nothing: zeros).

    ``recurrent`` keeps a recurrent state float32 ``[n, 1]`` that counts the steps of an episode from 0.
    ``acts_by_actor`` says whether it has an actor. Gradients are applied by plain descent at ``learning_rate``.
    """

    gamma: float = Field(0.9, ge=0.0, le=1.0)
    lambda_: float = Field(0.95, ge=0.0, le=1.0)
    action: int = Field(0, ge=0)
    recurrent: bool = False
    acts_by_actor: bool = False
    learning_rate: float = Field(0.0, ge=0.0)


class TableActor:
    """Acts as its graph does. ``counts`` says how often each method was called, ``acted_rows`` for how many rows."""

    lookahead = 0

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: TableValueConfig,
        weights: Weights,
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.config = config
        self.counts: dict[str, int] = {}
        self.acted_rows = 0
        self.progress = Progress()
        self._weights = {name: array.copy() for name, array in weights.items()}

    def _count(self, method: str) -> None:
        self.counts[method] = self.counts.get(method, 0) + 1

    def initial_state(self, n: int) -> State:
        """A count of 0 for each of ``n`` episodes, where it is recurrent."""
        return (np.zeros((n, 1), np.float32),) if self.config.recurrent else ()

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        """The constant action; what it was told comes back in the ``seen_*`` columns. ``BatchError`` if it is wrong."""
        self._count("act")
        seen = _first_number(obs)
        n = len(seen)
        self.acted_rows += n
        check_observations(obs, self.observation_space, n)
        extras: dict[str, NDArray[Any]] = {ACTION_LOGP: np.zeros(n, np.float32), SEEN_OBS: seen}
        if rows is not None:
            check_act_rows(rows, n)
            extras |= {SEEN_SLOT: np.array(rows.slot, np.int64), SEEN_T: np.array(rows.t, np.int64)}
        if self.config.recurrent:
            extras[SEEN_STATE] = np.array(state[0][:, 0])
            state = (state[0] + np.float32(1.0),)
        return ActOutput(_constant_actions(self.action_space, n, self.config.action), state, extras)

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Values, then GAE. ``BatchError`` where the batch is not as samplers are to make it."""
        self._count("postprocess")
        check_batch(batch, self.observation_space, self.action_space)
        offset = self._weights[OFFSET][0]
        batch = batch.with_rows(**{VF_PREDS: _first_number(batch.obs) + offset})
        batch = batch.with_cuts(**{LAST_VALUE: _first_number(batch.last_obs) + offset})
        return gae(batch, self.config.gamma, self.config.lambda_)

    def on_progress(self, progress: Progress) -> None:
        """Kept in ``progress``."""
        self._count("on_progress")
        self.progress = progress

    def call(self, utility: str, *args: Any) -> Any:
        """Utility ``add``: the sum of its arguments."""
        return call_utility(self, {"add": lambda *numbers: sum(numbers)}, utility, args)

    def set_weights(self, weights: Weights) -> None:
        """Copies the named weights."""
        self._count("set_weights")
        check_weights(self._weights, weights)
        self._weights = {**self._weights, **{name: np.array(array) for name, array in weights.items()}}

    def get_state(self) -> dict[str, Any]:
        """``{"weights": {name: array}}``."""
        return {"weights": {name: array.copy() for name, array in self._weights.items()}}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from what ``get_state`` gave."""
        self.set_weights(state["weights"])


class TableValue(PolicyGraph):
    """``V(s) = s + offset`` of the first number of an observation; ``offset`` is 0 at first.

    The gradient of the weight ``table.offset [1]`` is the mean of the first numbers of the observations, that of
    ``table.drift [1]`` the mean of the advantages (0 without that column). Acting, checks and counts are those of
    :class:`TableActor`; ``learnt`` lists the number of rows of every call of ``learn``.
    """

    Config = TableValueConfig
    config: TableValueConfig

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: GraphConfig,
        *,
        rng: np.random.Generator,
        devices: Sequence[str] = ("cpu",),
        model: BatchedModel | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, config, rng=rng, devices=devices, model=model)
        if any(device != "cpu" for device in devices):
            raise UserError(f"numpy computes on cpu only, not on {', '.join(devices)}")
        _check_spaces(observation_space, action_space)
        self.minibatch_unit: Unit = PIECE if self.config.recurrent else ROW
        self.learnt: list[int] = []
        self._updates = 0
        weights = {OFFSET: np.zeros(1, np.float32), DRIFT: np.zeros(1, np.float32)}
        self.acting_twin = TableActor(observation_space, action_space, self.config, weights)

    @property
    def counts(self) -> dict[str, int]:
        """How often each method was called."""
        return self.acting_twin.counts

    def initial_state(self, n: int) -> State:
        return self.acting_twin.initial_state(n)

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        return self.acting_twin.act(obs, state, rows=rows, explore=explore, rng=rng)

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        return self.acting_twin.postprocess(batch, other_agents)

    def actor(self) -> TableActor | None:
        if not self.config.acts_by_actor:
            return None
        return TableActor(self.observation_space, self.action_space, self.config, self.get_weights())

    def learn(self, batch: SampleBatch | Pinned[Any], units: NDArray[np.int64] | None = None) -> LearnOutput:
        output = super().learn(batch, units)
        self.learnt.append(len(_chosen(batch, units, self.minibatch_unit)))
        return output

    def gradients(self, batch: SampleBatch | Pinned[Any], units: NDArray[np.int64] | None = None) -> GradientOutput:
        chosen = _chosen(batch, units, self.minibatch_unit)
        if not len(chosen):
            raise UserError("there is no sample to learn from")
        offset = _first_number(chosen.obs).mean(dtype=np.float64)
        drift = chosen[ADVANTAGES].mean(dtype=np.float64) if ADVANTAGES in chosen else 0.0
        gradients = {OFFSET: np.array([offset], np.float32), DRIFT: np.array([drift], np.float32)}
        return GradientOutput(gradients, len(chosen), {"drift": float(drift)})

    def apply_gradients(self, gradients: Weights) -> None:
        self._updates += 1
        rule = self.update_rule()
        self.set_weights(rule.update(self.get_weights(), gradients, rule.init(self.get_weights()))[0])

    def update_rule(self) -> UpdateRule:
        return SGD(self.config.learning_rate)

    def on_progress(self, progress: Progress) -> None:
        self.acting_twin.on_progress(progress)

    def call(self, utility: str, *args: Any) -> Any:
        return self.acting_twin.call(utility, *args)

    def set_weights(self, weights: Weights) -> None:
        self.acting_twin.set_weights(weights)

    def get_state(self) -> dict[str, Any]:
        return {**self.acting_twin.get_state(), "updates": self._updates}

    def set_state(self, state: dict[str, Any]) -> None:
        self.set_weights(state["weights"])
        self._updates = int(state["updates"])


def _chosen(batch: SampleBatch | Pinned[Any], units: NDArray[np.int64] | None, unit: Unit) -> SampleBatch:
    whole: SampleBatch = batch.held if isinstance(batch, Pinned) else batch
    if units is None:
        return whole
    if unit is PIECE:
        return whole.take_pieces(units)
    one_piece = {"start": np.zeros(1, np.int64), "length": np.array([len(units)])}
    return SampleBatch({name: column[units] for name, column in whole.rows.items()}, one_piece)


def _check_spaces(*spaces: gymnasium.Space[Any]) -> None:
    if has_mask(spaces[0]):
        raise SpaceError("it always does the same and obeys no action_mask")
    for space in spaces:
        for leaf in leaf_spaces(space).values():
            if not isinstance(leaf, _LEAVES):
                raise SpaceError(f"{leaf} is no space of numbers")


def _first_number(obs: Columns) -> NDArray[np.float32]:
    array = next(iter(obs.values())) if isinstance(obs, dict) else obs
    return array.reshape(len(array), math.prod(array.shape[1:]))[:, 0].astype(np.float32)


def _constant_actions(space: gymnasium.Space[Any], n: int, action: int) -> Columns:
    leaves = {leaf: _constant_leaf(child, n, action) for leaf, child in leaf_spaces(space).items()}
    return leaves[""] if set(leaves) == {""} else leaves


def _constant_leaf(space: gymnasium.Space[Any], n: int, action: int) -> NDArray[Any]:
    if isinstance(space, gymnasium.spaces.Discrete):
        return np.full(n, min(action, int(space.n) - 1), np.int64)
    dtype = np.float32 if isinstance(space, gymnasium.spaces.Box) else np.int64
    return np.zeros((n, *(space.shape or ())), dtype)
