"""TorchPolicyGraph: what the policy graphs of this package share. What they differ in is the loss and rho."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, PositiveFloat
from torch import Tensor

from rlcore.acting import ActorCriticActor, Architecture, ModelConfig, remarks_on, remarks_on_encoders
from rlcore.acting.actor import Postprocess
from rlcore.batch import ACTIONS, SampleBatch
from rlcore.collective import Collective
from rlcore.columns import Columns
from rlcore.errors import NonFiniteError, UserError
from rlcore.model import BatchedModel
from rlcore.optim import UpdateRule, clip_factor
from rlcore.policy_graph import (
    PIECE,
    ROW,
    Actor,
    ActOutput,
    ActRows,
    GradientOutput,
    GraphConfig,
    LearnOutput,
    OtherAgents,
    Pinned,
    PolicyGraph,
    Progress,
    Remark,
    State,
    Unit,
    Weights,
    check_gradients,
    check_weights,
)
from rlcore.schedule import Schedule, value_at
from rlcore_torch.actions import Actions
from rlcore_torch.backward import Backward, BackwardPass, Coefficient
from rlcore_torch.capture import Differentiate, Differentiator, PlainDifferentiator
from rlcore_torch.collectives import Gloo, Nccl
from rlcore_torch.columns import Minibatch
from rlcore_torch.devices import limit_threads, torch_devices
from rlcore_torch.distributions import Evaluated
from rlcore_torch.forward import Forward
from rlcore_torch.inference import Inference
from rlcore_torch.models import model_for
from rlcore_torch.optimizers import optimizer_for
from rlcore_torch.parameters import FlatParameters, write
from rlcore_torch.samples import PieceSamples, RowSamples, Samples


class TorchConfig(GraphConfig):
    """What every policy graph here has to set.

    ``max_grad_norm`` bounds the global norm of the gradients, null leaves them as they are. ``squash`` acts in a
    bounded Box through tanh; without it a Gaussian is clipped to the bounds on the way to the environment.
    ``initial_log_std`` is where a Gaussian's log standard deviations start.
    """

    model: ModelConfig = Field(default_factory=ModelConfig)
    learning_rate: Schedule = 3e-4
    gamma: float = Field(0.99, ge=0.0, le=1.0)
    max_grad_norm: PositiveFloat | None = 0.5
    squash: bool = False
    initial_log_std: FiniteFloat = 0.0

    @property
    def discount(self) -> float:
        return self.gamma


class TorchPolicyGraph(PolicyGraph):
    """A policy whose networks (:class:`rlcore.acting.ModelConfig`) give actions and, with ``has_value``, values.

    Subclasses give ``loss`` and ``coefficients``, ``update_rule``, ``rho`` and the names of the columns that the loss
    reads. With several devices each has a replica of the parameters and holds its share of the samples; gradients are
    added up on the first device, which updates the parameters and hands them to the others.
    """

    Config: ClassVar[type[GraphConfig]] = TorchConfig
    collectives: ClassVar[Mapping[str, type[Collective]]] = {"gloo": Gloo, "nccl": Nccl}
    has_value: ClassVar[bool] = True
    config: TorchConfig

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
        """Raises ``SpaceError`` for spaces that it cannot see or act in, ``ConfigError`` for a model that does not fit
        them, ``UserError`` for a device that is not there."""
        super().__init__(observation_space, action_space, config, rng=rng, devices=devices, model=model)
        own, squash = self.config, self.config.squash
        self._env_steps = 0
        self._devices = torch_devices(devices)
        self._actions = Actions(observation_space, action_space, squash, self._devices[0])
        self._model = model_for(
            observation_space, action_space, own.model, squash=squash, value=self.has_value, rng=rng
        )
        self.minibatch_unit: Unit = PIECE if self._model.recurrent else ROW
        self._replicas = [FlatParameters(self._model.layout, device) for device in self._devices]
        self._parameters = self._replicas[0]
        limit_threads(self._devices, len(self._parameters.values))
        self._optimizer = optimizer_for(self.update_rule(), self._parameters)
        # Arrays of the weights' shapes that take no memory.
        self._shapes = {name: np.broadcast_to(np.float32(0.0), shape) for name, shape in self._model.shapes.items()}
        self._names = frozenset(self._shapes)
        self._trainable = self._names - self._model.constant
        self._forward = Forward(self._model, own.model.precision)
        self._inference = Inference(self._model, self._forward, self._actions, self._parameters)
        self._backward_pass = BackwardPass(
            self._replicas, self._differentiator(), self._model.rows_at_once
        )
        self._load(self._model.init(rng, own.initial_log_std))

    def _differentiator(self) -> Differentiate:
        if self.config.model.compile:
            return PlainDifferentiator(torch.compile(self._totals))
        recorded = self._model.recordable and self.config.model.precision == "float32"
        return Differentiator(self._totals) if recorded else PlainDifferentiator(self._totals)

    @classmethod
    def remarks(
        cls,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: GraphConfig,
    ) -> list[Remark]:
        assert isinstance(config, TorchConfig)
        model = config.model
        return [*remarks_on(observation_space, model.scale), *remarks_on_encoders(observation_space, model)]

    # -- what a policy graph of this package gives

    @abstractmethod
    def loss(self, evaluated: Evaluated, values: Tensor | None, minibatch: Minibatch) -> dict[str, Tensor]:
        """The terms of the loss by the names of their statistics: sums over the rows, scalars.

        All columns are ``[n, 1]``. A pure function of its arguments and the config: what changes in training comes in
        by ``coefficients`` and ``scalars``.
        """

    @abstractmethod
    def coefficients(self) -> dict[str, Coefficient]:
        """What the terms count for, as things stand."""

    def scalars(self) -> dict[str, float]:
        """Numbers that the loss reads from the minibatch as scalar tensors, as things stand."""
        return {}

    @abstractmethod
    def update_rule(self) -> UpdateRule:
        """The update rule, with clipping and the learning rate as it is now."""

    @abstractmethod
    def rho(self) -> Postprocess:
        """What makes advantages and targets of a batch with values; picklable without torch."""

    @abstractmethod
    def loss_columns(self) -> tuple[str, ...]:
        """The row columns that ``loss`` reads."""

    def prepare(self, minibatches: list[Minibatch]) -> None:
        """May change the columns of one minibatch, given as its shares by device, before the loss sees them."""

    def stops(self, stats: dict[str, float]) -> bool:
        """Whether an update with these statistics should be the last from its batch."""
        return False

    # -- acting

    def initial_state(self, n: int) -> State:
        return self._model.initial_state(n)

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

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Adds row ``vf_preds`` and cut ``last_value`` where there is a value network, then applies rho."""
        return self.rho()(self._inference.with_values(batch) if self.has_value else batch)

    def actor(self) -> Actor | None:
        """The same policy in numpy; None for a custom model, convolutions and other precisions, which torch has to
        compute."""
        own = self.config
        if own.model.custom is not None or own.model.precision != "float32":
            return None
        if Architecture.of(self.observation_space, self.action_space, own.model, squash=own.squash).encoders:
            return None
        return ActorCriticActor(
            self.observation_space,
            self.action_space,
            own.model,
            self.get_weights(),
            squash=own.squash,
            value=self.has_value,
            rho=self.rho(),
        )

    # -- learning

    def pin(self, batch: SampleBatch) -> Pinned[Samples]:
        """Copies of the columns that the loss reads, a share of the units on each device."""
        columns = {name: batch[name] for name in self.loss_columns()}
        columns |= self._model.columns(batch.obs)
        columns |= self._actions.columns(batch)
        if self._model.recurrent:
            return Pinned(PieceSamples(columns, self._devices, batch), len(batch))
        return Pinned(RowSamples(columns, self._devices), len(batch))

    def learn(
        self, batch: SampleBatch | Pinned[Samples], units: NDArray[np.int64] | None = None
    ) -> LearnOutput:
        """One update; where the loss or a gradient is not finite nothing changes."""
        found = self._backward(batch, units)
        if found.finite:
            self._update(found.norm)
        return LearnOutput(found.stats, stop=self.stops(found.stats), skipped=not found.finite, rows=found.rows)

    def gradients(
        self, batch: SampleBatch | Pinned[Samples], units: NDArray[np.int64] | None = None
    ) -> GradientOutput:
        found = self._backward(batch, units)
        gradients = self._parameters.arrays(self._parameters.gradients, self._chosen(self._trainable))
        return GradientOutput(gradients, found.rows, found.stats, stop=self.stops(found.stats))

    def apply_gradients(self, gradients: Weights) -> None:
        """One step of the optimizer. ``UserError`` where names or shapes are not those of the trainable weights,
        ``NonFiniteError`` where a gradient is not finite; nothing has changed then."""
        check_gradients({name: self._shapes[name] for name in self._trainable}, gradients)
        write(self._parameters.weight_gradients, gradients)
        norm = self._backward_pass.gradient_norm()
        if not math.isfinite(norm):
            raise NonFiniteError("a gradient is NaN or infinite")
        self._update(norm)

    def _backward(self, batch: SampleBatch | Pinned[Samples], units: NDArray[np.int64] | None) -> Backward:
        """Leaves the gradients of the loss, averaged over the rows, in the first replica."""
        pinned = batch if isinstance(batch, Pinned) else self.pin(batch)
        minibatches = pinned.held.minibatches(units)
        if not any(len(minibatch[ACTIONS]) for minibatch in minibatches):
            raise UserError("there is no sample to learn from")
        self.prepare(minibatches)
        return self._backward_pass(minibatches, self.coefficients(), self.scalars())

    def _totals(self, leaves: Sequence[Tensor], inputs: Minibatch, in_loss: tuple[bool, ...]) -> Tensor:
        """The terms of the loss, ``[terms]``; no gradient flows through those that are not ``in_loss``."""
        heads = self._forward(leaves, inputs)
        terms = self.loss(self._actions.evaluate(heads, inputs), heads.values, inputs)
        totals = [terms[name] for name in self.coefficients()]
        return torch.stack([total if counts else total.detach() for total, counts in zip(totals, in_loss, strict=True)])

    def _update(self, norm: float) -> None:
        """Clips the gradients, whose global norm is ``norm``, and steps."""
        bound = self.config.max_grad_norm
        if bound is not None and (factor := clip_factor(norm, bound)) < 1.0:
            self._parameters.gradients.mul_(factor)
        self._optimizer.step(self._learning_rate)
        self._copy_to_replicas()

    def _copy_to_replicas(self) -> None:
        for replica in self._replicas[1:]:
            replica.values.copy_(self._parameters.values)

    # -- schedules, weights, state

    @property
    def _learning_rate(self) -> float:
        return value_at(self.config.learning_rate, self._env_steps)

    def on_progress(self, progress: Progress) -> None:
        """Schedules go by the environment steps."""
        self._env_steps = progress.env_steps

    def get_weights(self, names: frozenset[str] | None = None) -> Weights:
        return self._parameters.arrays(self._parameters.values, None if names is None else self._chosen(names))

    def _chosen(self, names: frozenset[str]) -> list[str] | None:
        """None for all of them, which are copied together."""
        return None if names == self._names else sorted(names)

    def set_weights(self, weights: Weights) -> None:
        check_weights(self._shapes, weights)
        self._load(weights)

    def _load(self, weights: Weights) -> None:
        write(self._parameters.weights, weights)
        self._copy_to_replicas()

    @property
    def acting(self) -> frozenset[str]:
        return self._names

    @property
    def trainable(self) -> frozenset[str]:
        return self._trainable

    def get_state(self) -> dict[str, Any]:
        """``weights``, ``optimizer`` (as ``update_rule().init`` gives it) and ``env_steps``."""
        return {
            "weights": self.get_weights(),
            "optimizer": self._optimizer.get_state(),
            "env_steps": self._env_steps,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.set_weights(state["weights"])
        self._optimizer.set_state(state["optimizer"])
        self._env_steps = int(state["env_steps"])
