"""OffPolicyGraph: what the policy graphs share that learn values from replayed transitions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from rlcore.acting import ActionMask
from rlcore.batch import ACTIONS, DISCOUNTS, REWARDS, WEIGHTS, SampleBatch
from rlcore.columns import Columns
from rlcore.errors import ConfigError
from rlcore.learning.targets import TargetClock
from rlcore.model import BatchedModel
from rlcore.policy_graph import GraphConfig, Pinned, Progress, Weights, check_weights
from rlcore.returns import n_step, next_obs
from rlcore_torch.base import TorchGraph
from rlcore_torch.body import TorchBody
from rlcore_torch.columns import Minibatch
from rlcore_torch.parameters import Leaf
from rlcore_torch.samples import Ahead, OnOneDevice, RowSamples, Samples
from rlcore_torch.targets import Targets

#: What the columns of successors' observations begin with.
NEXT = "next_"
#: The options that a successor's action mask forbids, bool ``[n, actions]``; those of the row's own observation.
NEXT_FORBIDDEN, OWN_FORBIDDEN = "next_forbidden", "forbidden"


class OffPolicyGraph(TorchGraph):
    """Learns values from transitions with the help of targets.

    Draws that the loss needs are a function of how many updates were made, so that learning from the same minibatch at
    the same point gives the same; in the state there is a key for them and that number.
    """

    config: Any  # an OffPolicyConfig, and more
    #: Whether the loss needs anything drawn.
    _random = True

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
        if self.config.model.precision == "float64":
            raise ConfigError("model.precision: float64: this policy graph has no such option")
        self._updates = 0
        self._key = int(rng.integers(2**63))
        self._clock = TargetClock(self.config.target_update_every, self.config.tau, self._target_delay)

    @property
    def _target_delay(self) -> int:
        """Of how many updates one moves the targets."""
        return 1

    def _begin_with_targets(
        self, layout: Sequence[Leaf], followed: tuple[int, int], weights: Weights, recordable: bool
    ) -> None:
        """Makes the parameters, and targets of ``followed`` (the first leaf and how many), and has all of them start
        from ``weights``."""
        self._begin(layout, recordable=recordable)
        self._targets = Targets([replica.part(*followed) for replica in self._replicas])
        self._load(weights)
        self._targets.follow()

    # -- samples

    def _draws(self, rng: np.random.Generator, rows: int) -> dict[str, NDArray[np.float32]]:
        """What the loss needs drawn for each of so many pinned rows, ``{column: [rows, ...]}``."""
        return {}

    def _shared_draws(self, rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
        """What it needs drawn once for all rows."""
        return {}

    def minibatches(self, pinned: Pinned[Samples], units: NDArray[np.int64] | None) -> list[Minibatch]:
        shares = pinned.held.minibatches(units)
        shared, drawn = self._drawn(pinned.rows) if self._random else ({}, {})
        found, at = [], 0
        for i, share in enumerate(shares):
            device, rows = self._devices[i], len(share[ACTIONS])
            index = slice(at, at + rows) if units is None else units[at : at + rows]
            own = {name: torch.from_numpy(array[index]).to(device) for name, array in drawn.items()}
            own |= {name: torch.from_numpy(array).to(device) for name, array in shared.items()}
            ahead = pinned.held.ahead(self._targets.moves, units) if isinstance(pinned.held, OnOneDevice) else {}
            found.append({**share, **own, **(ahead or self._targets.inputs(i))})
            at += rows
        return found

    def _drawn(self, rows: int) -> tuple[dict[str, NDArray[np.float32]], dict[str, NDArray[np.float32]]]:
        rng = np.random.Generator(np.random.Philox(key=self._key, counter=[0, 0, 0, self._updates]))
        return self._shared_draws(rng), self._draws(rng, rows)

    def _transitions(self, batch: SampleBatch, body: TorchBody, mask: ActionMask | None = None) -> Pinned[Samples]:
        """Rows with their successors, on every device; summed over one step each where they have not been yet."""
        batch = batch if DISCOUNTS in batch else n_step(batch, self.config.n_step, self.config.gamma)
        successors = batch.last_obs if batch.pieces == len(batch) else next_obs(batch)
        names = [name for name in (REWARDS, DISCOUNTS, WEIGHTS) if name in batch]
        columns: dict[str, NDArray[Any]] = {name: np.asarray(batch[name], np.float32) for name in names}
        columns |= {ACTIONS: self._read_actions(batch.actions)}
        columns |= body.columns(batch.obs) | body.columns(successors, NEXT)
        if mask is not None:
            columns |= {OWN_FORBIDDEN: ~mask.read(batch.obs), NEXT_FORBIDDEN: ~mask.read(successors)}
        return Pinned(RowSamples(columns, self._devices), len(batch))

    def pin_minibatches(self, batch: SampleBatch, minibatches: int) -> list[Pinned[Samples]]:
        whole = self.pin(batch)
        if not isinstance(whole.held, RowSamples) or len(self._devices) > 1:
            return super().pin_minibatches(batch, minibatches)
        rows = whole.rows // minibatches
        ahead = Ahead(self._ahead(whole.held.columns[0]), self._targets.moves)
        return [Pinned(part, rows) for part in whole.held.split(rows, ahead)]

    def _ahead(self, columns: Minibatch) -> Minibatch:
        """What the loss reads in the place of the targets' weights, computed of the rows of many minibatches at once;
        ``{}`` where it cannot be."""
        return {}

    @abstractmethod
    def _read_actions(self, actions: Columns) -> NDArray[Any]:
        """Actions as the loss reads them, ``[n, ...]``."""

    # -- updates, targets

    def _update(self, norm: float) -> None:
        super()._update(norm)
        self._updates += 1

    def on_progress(self, progress: Progress) -> None:
        """Schedules and hard updates of the targets go by the environment steps, soft ones by the updates."""
        super().on_progress(progress)
        self._clock.advance(progress, self._targets)

    def update_target(self) -> None:
        """Makes the targets equal to what they follow."""
        self._targets.follow()

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        """``update_target()``, and what has to do with exploring."""
        return {"update_target": self.update_target}

    # -- weights, state

    def get_weights(self, names: frozenset[str] | None = None) -> Weights:
        if names is None:
            return {**super().get_weights(), **self._targets.arrays()}
        own = super().get_weights(names - self._targets.shapes.keys())
        chosen = sorted(names & self._targets.shapes.keys())
        return {**own, **self._targets.arrays(chosen)} if chosen else own

    def set_weights(self, weights: Weights) -> None:
        followers = {name: np.broadcast_to(np.float32(0.0), shape) for name, shape in self._targets.shapes.items()}
        check_weights({**self._shapes, **followers}, weights)
        self._load({name: array for name, array in weights.items() if name in self._shapes})
        self._targets.write({name: array for name, array in weights.items() if name in followers})

    def get_state(self) -> dict[str, Any]:
        """Also ``updates`` that were made, the ``key`` of what is drawn for them, and the targets' ``clock``."""
        own = {"updates": self._updates, "key": self._key, "clock": self._clock.get_state()}
        return {**super().get_state(), **own}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._updates, self._key = int(state["updates"]), int(state["key"])
        self._clock.set_state(state["clock"])
