"""REINFORCE (Williams 1992): the return to go of every step weighs the gradient of its log-probability. No critic."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, PositiveFloat

from rlcore.acting import (
    LOG_STD,
    ActorCriticActor,
    Architecture,
    Distribution,
    FlatObs,
    ModelConfig,
    distribution_for,
    mask_for,
    masked,
    refuse_all_but_dense,
    remarks_on,
)
from rlcore.acting.actor import Postprocess
from rlcore.acting.rho import returns_to_go
from rlcore.batch import ACTION_LOGP, ADVANTAGES, SampleBatch
from rlcore.columns import Columns
from rlcore.errors import NonFiniteError, UserError
from rlcore.model import BatchedModel
from rlcore.optim import CLIP_EPSILON, Adam
from rlcore.policy_graph import (
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
    Weights,
    check_gradients,
    check_weights,
)
from rlcore.schedule import Schedule, value_at
from rlcore_tf.backend import device_name, start, tf
from rlcore_tf.distributions import counterpart, without
from rlcore_tf.parameters import AdamVariables, arrays, assign, mlp, variables

STATS = ("policy_loss", "entropy", "loss", "grad_norm")


class PGConfig(GraphConfig):
    """Settings of ``tf.pg``, the same as those of ``torch.pg``.

    ``max_grad_norm`` bounds the global norm of the gradients, null leaves them as they are. ``squash`` acts in a
    bounded Box through tanh; without it a Gaussian is clipped to the bounds on the way to the environment.
    ``initial_log_std`` is where a Gaussian's log standard deviations start. ``normalize_advantages`` gives the returns
    of all that an evaluator sampled at once mean 0 and deviation 1: a constant baseline. ``epsilon`` is Adam's.
    """

    model: ModelConfig = Field(default_factory=ModelConfig)
    learning_rate: Schedule = 1e-3
    gamma: float = Field(0.99, ge=0.0, le=1.0)
    max_grad_norm: PositiveFloat | None = 0.5
    squash: bool = False
    initial_log_std: FiniteFloat = 0.0
    entropy_coeff: Schedule = 0.0
    normalize_advantages: bool = True
    epsilon: PositiveFloat = 1e-8

    @property
    def discount(self) -> float:
        return self.gamma


class Samples(NamedTuple):
    """Tensors: ``obs [n, size]``, ``actions [n, ...]``, ``advantages [n]``, and ``forbidden``.

    ``forbidden`` says which logits an action mask forbids, bool ``[n, outputs]``; ``[n, 0]`` without masks.
    """

    obs: Any
    actions: Any
    advantages: Any
    forbidden: Any


class PolicyGradient(PolicyGraph):
    """``tf.pg``. Statistics: ``policy_loss entropy loss grad_norm``.

    Episodes should be sampled whole: a piece that is cut off counts as if nothing came after it.

    Acting, gradients and updates are traced once each, for any number of rows; :attr:`traces` counts that.
    """

    Config = PGConfig
    config: PGConfig

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
        """Raises ``SpaceError`` for spaces that it cannot see or act in, ``ConfigError`` for a model that it
        does not have, ``UserError`` for a device that is not there."""
        super().__init__(observation_space, action_space, config, rng=rng, devices=devices, model=model)
        own = self.config
        architecture = Architecture.of(observation_space, action_space, own.model, squash=own.squash, value=False)
        refuse_all_but_dense(own.model, architecture)
        self._architecture = architecture
        self._flatten = FlatObs(observation_space, own.model.scale)
        self._distribution: Distribution = distribution_for(action_space, own.squash)
        self._mask = mask_for(observation_space, action_space)
        self._evaluation = counterpart(self._distribution)
        start(gpu=any(not device.startswith("cpu") for device in devices))
        self._device = device_name(tuple(devices))
        weights = architecture.init(rng, log_std=own.initial_log_std)
        with tf.device(self._device):
            self._variables = variables(weights)
            self._optimizer = AdamVariables(self.update_rule_at(0), weights)
        self._names = frozenset(weights)
        # Arrays of the weights' shapes that take no memory.
        self._shapes = {name: np.broadcast_to(np.float32(0.0), array.shape) for name, array in weights.items()}
        self._env_steps = 0
        self._trace()

    def _trace(self) -> None:
        """Fixes the signatures of what TensorFlow runs, so that no shape or number is ever traced anew."""
        number = tf.TensorSpec((), tf.float32)
        rows = tf.TensorSpec((None, self._flatten.size), tf.float32)
        samples = Samples(
            rows,
            tf.TensorSpec((None, *self._evaluation.shape), self._evaluation.dtype),
            tf.TensorSpec((None,), tf.float32),
            tf.TensorSpec((None, self._distribution.outputs if self._mask is not None else 0), tf.bool),
        )
        units = tf.TensorSpec((None,), tf.int64)
        shapes = [tf.TensorSpec(variable.shape, tf.float32) for variable in self._variables.values()]
        self._outputs = tf.function(self._outputs_of, input_signature=[rows])
        self._gradients = tf.function(self._gradients_of, input_signature=[samples, units, number])
        self._learn = tf.function(self._learn_from, input_signature=[samples, units, number, number, number])
        self._apply = tf.function(self._apply_list, input_signature=[shapes, number, number])

    @classmethod
    def remarks(
        cls,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: GraphConfig,
    ) -> list[Remark]:
        assert isinstance(config, PGConfig)
        return remarks_on(observation_space, config.model.scale)

    @property
    def traces(self) -> int:
        """How often TensorFlow has traced a function of this graph."""
        functions = (self._outputs, self._gradients, self._learn, self._apply)
        return sum(function.experimental_get_tracing_count() for function in functions)

    # -- acting

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        """Actions for ``[n, ...]`` observations, drawn by the kernel from what TensorFlow computes.

        ``action_logp`` is TensorFlow's, to the last bit that of ``log_probs``. ``NoLegalActionError`` where an action
        mask allows nothing.
        """
        with tf.device(self._device):
            outputs = self._outputs(tf.constant(self._flatten(obs)))
        params = masked(self._distribution, self._mask, outputs.numpy(), obs, rows)
        actions, _, extras = self._distribution.draw(params, rng) if explore else self._distribution.mode(params)
        return ActOutput(actions, (), {**extras, ACTION_LOGP: self._log_probs(outputs, obs, actions, extras)})

    def log_probs(self, batch: SampleBatch) -> NDArray[np.float32]:
        with tf.device(self._device):
            outputs = self._outputs(tf.constant(self._flatten(batch.obs)))
        return self._log_probs(outputs, batch.obs, batch.actions, batch.rows)

    def _log_probs(
        self, outputs: Any, obs: Columns, actions: Columns, extras: Mapping[str, NDArray[Any]]
    ) -> NDArray[np.float32]:
        """Of actions and what was drawn beside them, by what ``_outputs`` gives for their observations."""
        with tf.device(self._device):
            logits = outputs[:, : self._distribution.outputs]
            if self._mask is not None:
                logits = without(logits, tf.constant(self._forbidden(obs, len(logits))))
            taken = tf.constant(self._distribution.sampled(actions, extras))
            evaluated = self._evaluation.evaluate(logits, self._variables.get(LOG_STD), taken)
        log_probs: NDArray[np.float32] = evaluated.log_probs.numpy()
        return log_probs

    def _outputs_of(self, obs: Any) -> Any:
        outputs = self._policy(obs)
        if LOG_STD not in self._variables:
            return outputs
        log_std = tf.broadcast_to(self._variables[LOG_STD], (tf.shape(outputs)[0], self._distribution.free))
        return tf.concat([outputs, log_std], axis=1)

    def _policy(self, obs: Any) -> Any:
        own = self._architecture
        return mlp(self._variables, "policy", len(own.hidden), own.activation, obs)

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Adds the return to go of every row, and the advantages made of them."""
        return self._rho(batch)

    @property
    def _rho(self) -> Postprocess:
        own = self.config
        return functools.partial(returns_to_go, gamma=own.gamma, normalize=own.normalize_advantages)

    def actor(self) -> ActorCriticActor:
        """The same policy in numpy."""
        return ActorCriticActor(
            self.observation_space,
            self.action_space,
            self.config.model,
            self.get_weights(),
            squash=self.config.squash,
            value=False,
            rho=self._rho,
        )

    # -- learning

    def pin(self, batch: SampleBatch) -> Pinned[Samples]:
        """The columns that the loss reads, on the device."""
        if len(batch) == 0:
            raise UserError("there is no sample to learn from")
        obs = batch.obs
        with tf.device(self._device):
            samples = Samples(
                tf.constant(self._flatten(obs)),
                tf.constant(self._distribution.sampled(batch.actions, batch.rows)),
                tf.constant(batch[ADVANTAGES], tf.float32),
                tf.constant(self._forbidden(obs, len(batch))),
            )
        return Pinned(samples, len(batch))

    def _forbidden(self, obs: Columns, n: int) -> NDArray[np.bool_]:
        """Which outputs the masks in ``n`` observations forbid, as ``Samples.forbidden``."""
        if self._mask is None:
            return np.zeros((n, 0), np.bool_)
        return self._distribution.forbidden(self._mask.read(obs))

    def learn(self, batch: SampleBatch | Pinned[Samples], units: NDArray[np.int64] | None = None) -> LearnOutput:
        """One update; where the loss or a gradient is not finite nothing changes."""
        samples, chosen = self._chosen(batch, units)
        rate, root = self._optimizer.corrections(self._learning_rate)
        with tf.device(self._device):
            found, finite = self._learn(samples, chosen, _number(self._entropy_coeff), _number(rate), _number(root))
        applied = bool(finite.numpy())
        self._optimizer.steps += applied
        return LearnOutput(_stats(found), skipped=not applied)

    def gradients(self, batch: SampleBatch | Pinned[Samples], units: NDArray[np.int64] | None = None) -> GradientOutput:
        samples, chosen = self._chosen(batch, units)
        with tf.device(self._device):
            gradients, found = self._gradients(samples, chosen, _number(self._entropy_coeff))
        by_name = {name: gradient.numpy() for name, gradient in zip(self._variables, gradients, strict=True)}
        return GradientOutput(by_name, len(chosen), _stats(found))

    def apply_gradients(self, gradients: Weights) -> None:
        """One step of the optimizer. ``UserError`` where names or shapes are not those of the weights,
        ``NonFiniteError`` where a gradient is not finite; nothing has changed then."""
        check_gradients(self._shapes, gradients)
        if not all(np.isfinite(gradient).all() for gradient in gradients.values()):
            raise NonFiniteError("a gradient is NaN or infinite")
        rate, root = self._optimizer.corrections(self._learning_rate)
        with tf.device(self._device):
            self._apply([tf.constant(gradients[name]) for name in self._variables], _number(rate), _number(root))
        self._optimizer.steps += 1

    def _chosen(self, batch: SampleBatch | Pinned[Samples], units: NDArray[np.int64] | None) -> tuple[Samples, Any]:
        pinned = batch if isinstance(batch, Pinned) else self.pin(batch)
        rows = np.arange(pinned.rows) if units is None else np.asarray(units, np.int64)
        if len(rows) == 0:
            raise UserError("there is no sample to learn from")
        return pinned.held, tf.constant(rows)

    def _gradients_of(self, samples: Samples, units: Any, entropy_coeff: Any) -> tuple[list[Any], Any]:
        """Of the mean of ``-log pi(a) * advantage - entropy_coeff * entropy``; and the statistics in their order."""
        obs, actions, advantages, forbidden = (tf.gather(column, units) for column in samples)
        with tf.GradientTape() as tape:
            outputs = self._policy(obs)
            if self._mask is not None:
                outputs = without(outputs, forbidden)
            evaluated = self._evaluation.evaluate(outputs, self._variables.get(LOG_STD), actions)
            policy_loss = -tf.reduce_mean(evaluated.log_probs * advantages)
            loss = policy_loss - entropy_coeff * evaluated.entropy
        gradients = tape.gradient(loss, list(self._variables.values()))
        return gradients, tf.stack([policy_loss, evaluated.entropy, loss, tf.linalg.global_norm(gradients)])

    def _learn_from(self, samples: Samples, units: Any, entropy_coeff: Any, rate: Any, root: Any) -> tuple[Any, Any]:
        gradients, found = self._gradients_of(samples, units, entropy_coeff)
        finite = tf.reduce_all(tf.math.is_finite(found))
        # The branches are traced both; only the one that holds is run.
        tf.cond(finite, lambda: self._step(gradients, rate, root), lambda: finite)
        return found, finite

    def _apply_list(self, gradients: list[Any], rate: Any, root: Any) -> None:
        self._step(gradients, rate, root)

    def _step(self, gradients: list[Any], rate: Any, root: Any) -> Any:
        """Clips the gradients and steps."""
        bound = self.config.max_grad_norm
        if bound is not None:
            factor = tf.minimum(1.0, bound / (tf.linalg.global_norm(gradients) + CLIP_EPSILON))  # optim.clip_factor
            gradients = [gradient * factor for gradient in gradients]
        self._optimizer.step(self._variables, dict(zip(self._variables, gradients, strict=True)), rate, root)
        return tf.constant(True)

    # -- schedules, weights, state

    @property
    def _learning_rate(self) -> float:
        return value_at(self.config.learning_rate, self._env_steps)

    @property
    def _entropy_coeff(self) -> float:
        return value_at(self.config.entropy_coeff, self._env_steps)

    def update_rule(self) -> Adam:
        return self.update_rule_at(self._env_steps)

    def update_rule_at(self, env_steps: int) -> Adam:
        """The rule with the learning rate that holds after ``env_steps`` environment steps."""
        own = self.config
        return Adam(value_at(own.learning_rate, env_steps), own.max_grad_norm, epsilon=own.epsilon)

    def on_progress(self, progress: Progress) -> None:
        """Schedules go by the environment steps."""
        self._env_steps = progress.env_steps

    def get_weights(self, names: frozenset[str] | None = None) -> Weights:
        chosen = self._variables if names is None else {name: self._variables[name] for name in sorted(names)}
        return arrays(chosen)

    def set_weights(self, weights: Weights) -> None:
        check_weights(self._shapes, weights)
        assign(self._variables, weights)

    @property
    def acting(self) -> frozenset[str]:
        return self._names

    @property
    def trainable(self) -> frozenset[str]:
        return self._names

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


def _number(value: float) -> Any:
    return tf.constant(value, tf.float32)


def _stats(found: Any) -> dict[str, float]:
    return dict(zip(STATS, found.numpy().tolist(), strict=True))
