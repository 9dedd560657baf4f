"""DynamicsRules: what policy graphs share that learn an ensemble of dynamics models and act by planning with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat

from rlcore.acting.spread import SpreadActing
from rlcore.batch import ACTIONS, REWARDS, STEPS, TERMINATED, WEIGHTS, SampleBatch
from rlcore.columns import Columns
from rlcore.errors import OptimizerError, UserError
from rlcore.learning.coefficient import Coefficient
from rlcore.learning.critics import Group
from rlcore.learning.graph import LearningConfig, LearningGraph
from rlcore.model import BatchedModel
from rlcore.optim import SGD, Adam, UpdateRule
from rlcore.planning.actor import PlanningActor, PlanningConfig, without_plans
from rlcore.planning.architecture import BOUNDS, SCALES
from rlcore.policy_graph import Actor, ActOutput, ActRows, GraphConfig, OtherAgents, Progress, State
from rlcore.returns import next_obs
from rlcore.runtime.base import Runtime
from rlcore.schedule import NonNegativeSchedule, value_at

#: Columns of pinned rows: what networks read, ``[n, inputs]``, and what they predict, ``[n, predicted]``.
INPUTS, TARGETS = "inputs", "targets"


class DynamicsConfig(PlanningConfig, LearningConfig):
    """Learning the ensemble.

    Every member learns from every row; they differ in where they began (Lakshminarayanan et al. 2017). Likelihoods of
    what a member is unsure of count with the variance to the power of ``beta``, so that it goes on to learn it (Seitzer
    et al. 2022); 0 is the likelihood itself. ``bounds_coeff`` draws the bounds of log variances together (Chua et al.
    2018, appendix A.1). At each update the running means and variances that inputs and targets are scaled by go
    ``scale_rate`` of the way to the minibatch's.
    """

    learning_rate: NonNegativeSchedule = 3e-3
    max_grad_norm: PositiveFloat | None = None
    adam_epsilon: PositiveFloat = 1e-8
    beta: float = Field(0.5, ge=0.0, le=1.0)
    bounds_coeff: NonNegativeSchedule = 0.01
    scale_rate: NonNegativeSchedule = 0.02


class DynamicsRules(SpreadActing, LearningGraph):
    """Terms: ``dynamics_loss end_loss bounds_loss prediction_error``.

    The first is the negative log-likelihood of the scaled changes of observations and of the rewards under a member's
    Gaussians, without its constant and weighted (``beta``); the second that of ``terminated``. ``prediction_error`` is
    the mean square of what the means are off by, in deviations of the targets. The temporal difference of a row, by
    which it may be replayed, is the root of its own.

    Raises ``SpaceError`` for observations that are no Box of floats and for actions that are neither Discrete nor in a
    bounded Box, ``ConfigError`` for a model of more than dense layers.
    """

    Config: ClassVar[type[GraphConfig]] = DynamicsConfig
    exploration_utility = "set_noise"
    config: DynamicsConfig

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        own = self.config.planning_part()
        self._planner = PlanningActor.begun(self.observation_space, self.action_space, own, rng)
        self._architecture = self._planner.architecture
        #: Whether the planner has weights from before an update.
        self._stale = False

    # -- learning

    def groups(self) -> list[Group]:
        """The members' weights with the bounds, and the scales, which gradient descent makes running means."""
        own, members = self.config, (*self._architecture.stacked_names(), *BOUNDS)
        return [
            Group("members", members, Adam(0.0, epsilon=own.adam_epsilon), own.learning_rate),
            Group("scales", SCALES, SGD(0.0), own.scale_rate, clipped=False),
        ]

    def update_rule(self) -> UpdateRule:
        """``OptimizerError``: members and scales move by rules of their own."""
        raise OptimizerError(
            f"{type(self).__name__} moves its networks and the scales of what they read by different rules: no one "
            "update rule says how"
        )

    def coefficients(self) -> dict[str, Coefficient]:
        each = 1.0 / self._architecture.members
        bounds = value_at(self.config.bounds_coeff, self._env_steps)
        return {
            "dynamics_loss": Coefficient(1.0, each),
            "end_loss": Coefficient(1.0, each),
            "bounds_loss": Coefficient(bounds),
            "prediction_error": Coefficient(),
        }

    def watched(self) -> frozenset[str]:
        return frozenset({"prediction_error"})

    def loss_columns(self, batch: SampleBatch) -> dict[str, NDArray[Any]]:
        """What the loss reads of a batch, float32. ``UserError`` where rewards were summed over several steps."""
        if STEPS in batch and (batch[STEPS] != 1).any():
            raise UserError("a dynamics model learns single steps: set n_step of the policy to 1")
        successors = batch.last_obs if batch.pieces == len(batch) else next_obs(batch)
        obs, after = self._flat(batch.obs), self._flat(successors)
        taken = batch.actions
        assert not isinstance(taken, dict)
        actions = self._planner.inputs(taken)
        rewards = np.asarray(batch[REWARDS], np.float32)[:, None]
        columns: dict[str, NDArray[Any]] = {
            INPUTS: np.concatenate([obs, actions], axis=1),
            TARGETS: np.concatenate([after - obs, rewards], axis=1),
            TERMINATED: np.asarray(batch[TERMINATED], np.float32),
            ACTIONS: actions,
        }
        if WEIGHTS in batch:
            columns[WEIGHTS] = np.asarray(batch[WEIGHTS], np.float32)
        return columns

    def _flat(self, obs: Columns) -> NDArray[np.float32]:
        assert not isinstance(obs, dict)
        return np.asarray(obs, np.float32).reshape(len(obs), self._architecture.observed)

    # -- acting

    def _up_to_date(self) -> PlanningActor:
        """The planner with the weights as they are."""
        if self._stale:
            self._planner.set_weights(self.get_weights())
            self._stale = False
        return self._planner

    def initial_state(self, n: int) -> State:
        return self._planner.initial_state(n)

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        """The first actions of the best plans for ``[n, ...]`` observations; the state is what is left of the plans."""
        return self._up_to_date().act(obs, state, rows=rows, explore=explore, rng=rng)

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Without the plans, which nothing is learnt from."""
        return without_plans(batch)

    def actor(self) -> Actor | None:
        """The same policy in numpy."""
        own = PlanningActor(
            self.observation_space, self.action_space, self.config.planning_part(), self.get_weights()
        )
        own.set_state({"weights": own.get_weights(), "noise": self._planner.get_state()["noise"]})
        return own

    def spread(self, runtime: Runtime) -> None:
        """Candidates are followed by ``planner.actors`` workers."""
        self._planner.spread(runtime)

    def act_alone(self) -> None:
        self._planner.act_alone()

    # -- schedules, state

    def on_progress(self, progress: Progress) -> None:
        super().on_progress(progress)
        self._planner.on_progress(progress)

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        """``noise()``, ``set_noise(number or array by slot, or None)``, ``set_dynamics(weights)`` and
        ``sampled_model()``."""
        return {**self._planner.utilities(), "set_dynamics": self.set_weights, "sampled_model": self._sampled_model}

    def _sampled_model(self) -> BatchedModel:
        return self._up_to_date().sampled_model()

    def get_state(self) -> dict[str, Any]:
        """Also ``noise``."""
        return {**super().get_state(), "noise": self._planner.get_state()["noise"]}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._planner.set_state({"weights": self.get_weights(), "noise": state["noise"]})
        self._stale = False
