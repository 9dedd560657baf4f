"""DrawnGraph: a policy graph whose actions are drawn from a distribution and learnt from as they were drawn."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from rlcore.acting.actor import ActorCriticActor, Postprocess
from rlcore.acting.architecture import Architecture
from rlcore.batch import SampleBatch
from rlcore.columns import Columns
from rlcore.errors import UserError
from rlcore.learning.graph import LearningConfig, LearningGraph
from rlcore.learning.inference import Inference
from rlcore.policy_graph import Actor, ActOutput, ActRows, GraphConfig, OtherAgents, State


class DrawnConfig(LearningConfig):
    """What every policy graph of this kind has to set.

    ``squash`` acts in a bounded Box through tanh; without it a Gaussian is clipped to the bounds on the way to the
    environment. ``initial_log_std`` is where a Gaussian's log standard deviations start.
    """

    squash: bool = False
    initial_log_std: FiniteFloat = 0.0


class DrawnGraph(LearningGraph):
    """Says what samples are made into before they are learnt from, and how to act on them without a framework.

    A framework's base class makes ``_inference`` and says what its model computes while it acts.
    """

    Config: ClassVar[type[GraphConfig]] = DrawnConfig
    has_value: ClassVar[bool] = True
    #: Whether the loss reads rows in time order, so that minibatches are made of pieces, whatever the model is.
    in_time_order: ClassVar[bool] = False
    #: Whether the model has a recurrent state, and whether it computes the values while it acts.
    recurrent: bool
    values_while_acting: bool
    config: DrawnConfig
    _inference: Inference

    @property
    def value_outputs(self) -> int:
        """How many numbers the last layer of the values gives, where there is one; the first is the value."""
        return 1

    @abstractmethod
    def rho(self) -> Postprocess | None:
        """What makes advantages and targets of a batch with values; picklable without a framework. None where samples
        are to stay as they are, without values."""

    @abstractmethod
    def loss_columns(self) -> tuple[str, ...]:
        """The row columns that the loss reads."""

    # -- acting

    def initial_state(self, n: int) -> State:
        return self._inference.initial_state(n)

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        """Actions for ``[n, ...]`` observations, with ``action_logp`` as the loss computes it.

        ``NoLegalActionError`` where an action mask allows nothing.
        """
        return self._inference.act(obs, state, rows, explore, rng)

    def log_probs(self, batch: SampleBatch) -> NDArray[np.float32]:
        return self._inference.log_probs(batch)

    def values(self, obs: Columns, state: State = ()) -> NDArray[np.float32]:
        """The values of observations ``[n, ...]``, float32 ``[n]``. ``UserError`` without a value network."""
        if not self.has_value:
            raise UserError(f"{type(self).__name__} has no value network")
        return self._inference.values(obs, state)

    def with_values(self, batch: SampleBatch) -> SampleBatch:
        """``batch`` with row ``vf_preds``, unless acting has added it, and cut ``last_value``."""
        return self._inference.with_values(batch)

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Adds row ``vf_preds`` and cut ``last_value`` where there is a value network, then applies rho, where there is
        one."""
        rho = self.rho()
        if rho is None:
            return batch
        return rho(self.with_values(batch) if self.has_value else batch)

    def actor(self) -> Actor | None:
        """The same policy in numpy; None for a custom model, convolutions and other precisions, which the framework has
        to compute."""
        own = self.config
        if not self._acts_in_numpy():
            return None
        return ActorCriticActor(
            self.observation_space,
            self.action_space,
            own.model,
            self.get_weights(),
            squash=own.squash,
            value=self._acts_with_values(),
            rho=self.rho(),
        )

    def _acts_in_numpy(self) -> bool:
        own = self.config
        if own.model.custom is not None or own.model.precision != "float32":
            return False
        return not Architecture.of(self.observation_space, self.action_space, own.model, squash=own.squash).encoders

    def _acts_with_values(self) -> bool:
        """Whether evaluators need the values' network."""
        return self.has_value
