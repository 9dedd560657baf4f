"""Deep Q-learning (Mnih et al. 2015) and what became of it: double, dueling, n-step, distributional, noisy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.acting.q_architecture import TARGET_Q, Q
from rlcore.acting.q_network import returns_of
from rlcore.batch import ACTIONS, DISCOUNTS, REWARDS, WEIGHTS, SampleBatch
from rlcore.columns import Columns, length
from rlcore.learning.coefficient import Coefficient
from rlcore.learning.dqn import NOISE, DQNConfig, DQNRules
from rlcore.learning.off_policy import NEXT, NEXT_FORBIDDEN
from rlcore.learning.successors import extended
from rlcore.policy_graph import Pinned, State
from rlcore.returns import n_step, next_obs
from rlcore_torch import value_losses
from rlcore_torch.backward import Backward
from rlcore_torch.columns import Minibatch, in_precision, shown
from rlcore_torch.off_policy import OffPolicyGraph
from rlcore_torch.q_model import QModel
from rlcore_torch.q_sequences import AFTER, OWN, SequenceSamples, chosen
from rlcore_torch.samples import Samples
from rlcore_torch.sequences import with_state

#: Weights by the name of their leaf.
ByName = Mapping[str, Tensor]
#: The targets' outputs for the successors, where they were computed ahead.
TARGET_OUTPUTS = "target_outputs"

class DQN(DQNRules, OffPolicyGraph):
    """``torch.dqn``. Statistics: ``q_loss q_mean loss grad_norm``.

    The temporal difference of a row is ``Q - target``; of a distribution it is the divergence from the target's.
    """

    config: DQNConfig

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        own = self.config
        self._model = QModel(self.observation_space, own, self._architecture)
        self._returns: dict[torch.device, Tensor] = {}
        if own.distribution is not None:
            returns = torch.from_numpy(returns_of(own.distribution)).to(self._dtype)
            # By the device that tensors name: "cuda" is called "cuda:0" there.
            self._returns = {moved.device: moved for moved in map(returns.to, self._devices)}
        layout = self._model.layout
        recordable = not (self._architecture.encoders or self._recurrent)
        self._begin_with_targets(layout, (0, len(layout)), self._architecture.init(rng), recordable)

    # -- learning

    def pin(self, batch: SampleBatch) -> Pinned[Samples]:
        """Copies on every device: of transitions, of recurrent policies of sequences."""
        if not self._recurrent:
            return self._transitions(batch, self._model.body, self._choice.mask)
        own, mask = self.config, self._choice.mask
        batch = n_step(batch, own.n_step, own.gamma)
        masks = {} if mask is None else {NEXT_FORBIDDEN: ~mask.read(next_obs(batch))}
        observed = in_precision(self._model.body.columns(extended(batch)), self._dtype)
        held = SequenceSamples(observed, masks, batch, self._devices, own.burn_in, self._dtype)
        return Pinned(held, len(batch))

    def _backward(
        self,
        batch: SampleBatch | Pinned[Samples],
        units: NDArray[np.int64] | None,
        coefficients: Mapping[str, Coefficient],
    ) -> Backward:
        pinned = batch if isinstance(batch, Pinned) else self.pin(batch)
        found = super()._backward(pinned, units, coefficients)
        if isinstance(pinned.held, SequenceSamples) and found.by_row is not None:
            return found._replace(by_row=pinned.held.spread(found.by_row, units))
        return found

    def _ahead(self, columns: Minibatch) -> Minibatch:
        """The targets' outputs, where targets do not move at every update, nor have noise that is drawn for each."""
        if self.config.tau is not None or self._random:
            return {}
        with torch.inference_mode():
            outputs, _ = self._model(self._targets.inputs(0), TARGET_Q, columns, None, NEXT)
        return {TARGET_OUTPUTS: outputs}

    def _totals(self, leaves: Sequence[Tensor], inputs: Minibatch, in_loss: tuple[bool, ...]) -> Tensor:
        online = dict(zip(self._model.names, leaves, strict=True))
        noise = inputs[NOISE].unbind(0) if NOISE in inputs else (None, None, None)
        own, deciding, after = self._sequence(online, inputs) if self._recurrent else self._rows(online, inputs, noise)
        taken = _of_action(own, inputs[ACTIONS])
        with torch.no_grad():
            best = value_losses.best_actions(self._means(deciding), inputs.get(NEXT_FORBIDDEN))
            after = _of_action(after, best)
        errors, losses, means = self._errors(taken, after, inputs)
        terms = torch.stack([value_losses.weighted_sum(losses, inputs.get(WEIGHTS)), means.sum()])
        return torch.cat([terms, errors.view(-1)])

    def _rows(self, online: ByName, inputs: Minibatch, noise: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
        """Outputs ``[n, actions, ...]`` for rows, for choosing after them, and of the targets after them."""
        own, _ = self._model(online, Q, inputs, noise[0])
        with torch.no_grad():
            after = inputs.get(TARGET_OUTPUTS)
            if after is None:
                after, _ = self._model(inputs, TARGET_Q, inputs, noise[2], NEXT)
            deciding = self._model(online, Q, inputs, noise[1], NEXT)[0] if self.config.double else after
        return own, deciding, after

    def _sequence(self, online: ByName, inputs: Minibatch) -> tuple[Tensor, ...]:
        """The same of packed sequences, each gone through once by either network."""
        own, _ = self._model(online, Q, inputs, None)
        with torch.no_grad():
            after = chosen(self._model(inputs, TARGET_Q, inputs, None)[0], inputs[AFTER])
            deciding = chosen(own, inputs[AFTER]) if self.config.double else after
        return chosen(own, inputs[OWN]), deciding, after

    def _errors(self, taken: Tensor, after: Tensor, inputs: Minibatch) -> tuple[Tensor, Tensor, Tensor]:
        """The temporal differences, losses and values of the rows, ``[n, 1]``; only losses have a gradient."""
        rewards, discounts = inputs[REWARDS], inputs[DISCOUNTS]
        if not self._returns:
            targets, found = value_losses.td_targets(rewards, discounts, after), taken.detach()
            losses = value_losses.squared_or_huber(taken, targets, self.config.huber_delta)
            return found - targets, losses, found
        returns = self._returns[taken.device]
        targets = value_losses.project(after.softmax(1), rewards, discounts, returns)
        log_probabilities = taken.log_softmax(1)
        losses = value_losses.divergence(log_probabilities, targets)
        return losses.detach(), losses, log_probabilities.detach().exp() @ returns[:, None]

    def _means(self, outputs: Tensor) -> Tensor:
        """The values ``[n, actions]``."""
        return value_losses.expected(outputs, self._returns[outputs.device]) if self._returns else outputs

    # -- acting

    @torch.inference_mode()
    def _values(
        self, obs: Columns, state: State, noise: NDArray[np.float32] | None
    ) -> tuple[NDArray[np.float32], State]:
        device = self._devices[0]
        columns = in_precision(self._model.body.columns(obs), self._dtype)
        inputs = {name: shown(column, device) for name, column in columns.items()}
        if self._recurrent:
            inputs = with_state(inputs, state, np.array([length(obs)]))
        online = dict(zip(self._model.names, self._parameters.leaves, strict=True))
        drawn = None if noise is None else torch.from_numpy(noise).to(device, self._dtype)
        outputs, after = self._model(online, Q, inputs, drawn)
        return self._means(outputs).cpu().numpy(), tuple(part.cpu().numpy() for part in after)


def _of_action(outputs: Tensor, actions: Tensor) -> Tensor:
    """``[n, 1]`` or ``[n, atoms]`` of the actions ``[n, 1]`` in ``outputs [n, actions]`` or ``[n, actions, atoms]``."""
    if outputs.ndim == 2:
        return outputs.gather(1, actions)
    return outputs.gather(1, actions[:, :, None].expand(-1, -1, outputs.shape[2]))[:, 0]
