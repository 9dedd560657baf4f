"""OffPolicyRules: what the policy graphs share that learn values from replayed transitions, whatever the framework."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt

from rlcore.acting.body import Body
from rlcore.acting.choice import Choice
from rlcore.acting.masks import ActionMask
from rlcore.batch import ACTIONS, DISCOUNTS, REWARDS, WEIGHTS, SampleBatch
from rlcore.columns import Columns
from rlcore.learning.graph import LearningConfig, LearningGraph
from rlcore.learning.named import placeholders
from rlcore.learning.targets import Followers, TargetClock
from rlcore.policy_graph import Actor, Progress, Weights, check_weights
from rlcore.returns import n_step, next_obs
from rlcore.schedule import NonNegativeSchedule

#: What the columns of successors' observations begin with.
NEXT = "next_"
#: The options that a successor's action mask forbids, bool ``[n, actions]``; those of the row's own observation.
NEXT_FORBIDDEN, OWN_FORBIDDEN = "next_forbidden", "forbidden"

#: Draws by name, float32.
Draws = dict[str, NDArray[np.float32]]
#: ``(obs, prefix) -> {column: [n, ...]}``: what networks read of observations, in columns whose names begin so.
Read = Callable[[Columns, str], dict[str, NDArray[Any]]]


class OffPolicyConfig(LearningConfig):
    """What every policy graph of this kind has to set.

    Targets become equal to what they follow every ``target_update_every`` environment steps; where ``tau`` is given
    they move by that part of the way at every update instead. ``n_step`` rewards are summed before the value of a
    later state counts. Temporal differences above ``huber_delta`` count linearly, null squares them all.
    """

    max_grad_norm: PositiveFloat | None = None
    n_step: PositiveInt = 1
    huber_delta: PositiveFloat | None = None
    target_update_every: PositiveInt = 500
    tau: float | None = Field(None, gt=0.0, le=1.0)
    adam_epsilon: PositiveFloat = 1e-8


class CriticsConfig(OffPolicyConfig):
    """Of a policy with critics: ``learning_rate`` is the critics', and the policy's where ``policy_learning_rate`` is
    left out."""

    learning_rate: NonNegativeSchedule = 1e-3
    policy_learning_rate: NonNegativeSchedule | None = None
    tau: float | None = Field(0.005, gt=0.0, le=1.0)


class OffPolicyRules(LearningGraph):
    """Learns values from transitions with the help of targets; rules of each algorithm make its ``_choice`` and its
    ``_architecture``.

    Draws that the loss needs are a function of how many updates were made, so that learning from the same minibatch at
    the same point gives the same; in the state there is a key for them and that number. Copies that compute gradients
    for others draw each by a key of its own for each sample (``draw_apart``).
    """

    config: Any  # an OffPolicyConfig, and more
    #: Made of spaces, ``config.acting_part()`` and weights.
    actor_class: ClassVar[Callable[..., Actor]]
    #: Whether the loss needs anything drawn.
    _random = True
    #: How actions are chosen.
    _choice: Choice
    #: The networks.
    _architecture: Body
    #: Copies of weights that the framework's base class makes.
    _targets: Followers

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        self._updates_made = 0
        self._key = int(rng.integers(2**63))
        self._stream: tuple[int, ...] = ()
        self._clock = TargetClock(self.config.target_update_every, self.config.tau, self._target_delay)

    @property
    def _target_delay(self) -> int:
        """Of how many updates one moves the targets."""
        return 1

    # -- samples

    def _draws(self, rng: np.random.Generator, rows: int) -> Draws:
        """What the loss needs drawn for each of so many pinned rows, ``{column: [rows, ...]}``."""
        return {}

    def _shared_draws(self, rng: np.random.Generator) -> Draws:
        """What it needs drawn once for all rows."""
        return {}

    def _drawn(self, rows: int, update: int) -> tuple[Draws, Draws]:
        """What is drawn for the update after so many: once for all rows, and for each of so many pinned rows."""
        rng = np.random.Generator(np.random.Philox(key=self._stream_key(), counter=[0, 0, 0, update]))
        return self._shared_draws(rng), self._draws(rng, rows)

    def draw_apart(self, stream: tuple[int, ...]) -> None:
        """The key of all draws is another one from now on, made of the graph's own and ``stream``."""
        self._stream = stream

    def _stream_key(self) -> int:
        if not self._stream:
            return self._key
        low, high = np.random.SeedSequence(self._key, spawn_key=self._stream).generate_state(2, np.uint64).tolist()
        return int(low | high << 64)

    @abstractmethod
    def _read_actions(self, actions: Columns) -> NDArray[Any]:
        """Actions as the loss reads them, ``[n, ...]``."""

    def _transition_columns(self, batch: SampleBatch, read: Read, mask: ActionMask | None) -> dict[str, NDArray[Any]]:
        """Rows with their successors; summed over one step each where they have not been yet."""
        batch = batch if DISCOUNTS in batch else n_step(batch, self.config.n_step, self.config.gamma)
        successors = batch.last_obs if batch.pieces == len(batch) else next_obs(batch)
        names = [name for name in (REWARDS, DISCOUNTS, WEIGHTS) if name in batch]
        columns: dict[str, NDArray[Any]] = {name: np.asarray(batch[name], np.float32) for name in names}
        columns |= {ACTIONS: self._read_actions(batch.actions)}
        columns |= read(batch.obs, "") | read(successors, NEXT)
        if mask is not None:
            columns |= {OWN_FORBIDDEN: ~mask.read(batch.obs), NEXT_FORBIDDEN: ~mask.read(successors)}
        return columns

    # -- acting

    def _acts_in_numpy(self) -> bool:
        return not self._architecture.encoders and self.config.model.precision == "float32"

    def actor(self) -> Actor | None:
        """The same policy in numpy; None for convolutions and other precisions, which the framework has to compute."""
        if not self._acts_in_numpy():
            return None
        weights = self.get_weights(self.acting)
        own = type(self).actor_class(self.observation_space, self.action_space, self.config.acting_part(), weights)
        own.set_state({"weights": weights, **self._choice.get_state()})
        return own

    # -- targets, schedules

    def on_progress(self, progress: Progress) -> None:
        """Schedules and hard updates of the targets go by the environment steps, soft ones by the updates."""
        super().on_progress(progress)
        self._choice.advance(progress.env_steps)
        # Updates that were made elsewhere, by a shard or of another copy.
        self._updates_made = max(self._updates_made, progress.updates)
        self._clock.advance(progress, self._targets)

    def update_target(self) -> None:
        """Makes the targets equal to what they follow."""
        self._targets.follow()

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        """``update_target()``, and those of how much is explored."""
        return {"update_target": self.update_target, **self._choice.utilities()}

    # -- weights, state

    def get_weights(self, names: frozenset[str] | None = None) -> Weights:
        """With those of the targets."""
        if names is None:
            return {**super().get_weights(), **self._targets.arrays()}
        followers = self._targets.shapes.keys()
        own, chosen = super().get_weights(names - followers), sorted(names & followers)
        return {**own, **self._targets.arrays(chosen)} if chosen else own

    def set_weights(self, weights: Weights) -> None:
        followers = placeholders(self._targets.shapes)
        check_weights({**self._shapes, **followers}, weights)
        self._load({name: array for name, array in weights.items() if name in self._shapes})
        self._targets.write({name: array for name, array in weights.items() if name in followers})

    def get_state(self) -> dict[str, Any]:
        """Also ``updates`` that were made, the ``key`` of what is drawn for them, the targets' ``clock``, and what
        exploring goes by."""
        own = {"updates": self._updates_made, "key": self._key, "clock": self._clock.get_state()}
        return {**super().get_state(), **own, **self._choice.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._updates_made, self._key = int(state["updates"]), int(state["key"])
        self._clock.set_state(state["clock"])
        self._choice.set_state(state)
