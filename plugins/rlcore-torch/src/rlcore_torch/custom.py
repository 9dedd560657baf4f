"""CustomModel: a ``torch.nn.Module`` of the user's own in the place of the networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from rlcore.acting import LOG_STD, ModelConfig
from rlcore.columns import Columns
from rlcore.errors import ConfigError
from rlcore.learning.custom_model import (
    PREFIX,
    TRIAL_ROWS,
    Checked,
    CustomInputs,
    Tensors,
    build_custom,
    head_shapes,
    init_heads,
)
from rlcore.policy_graph import State, Weights
from rlcore_torch.columns import Minibatch
from rlcore_torch.model import Heads, Model
from rlcore_torch.parameters import Leaf
from rlcore_torch.sequences import BATCH_SIZES, state_of

_TENSORS = Tensors(
    is_tensor=lambda value: isinstance(value, Tensor),
    shape=lambda tensor: tuple(tensor.shape),
    dtype=lambda tensor: str(tensor.dtype),
    float32=str(torch.float32),
)


class CustomModel(Model):
    """The module that ``build(observation_space, **settings)`` gives, and last layers for actions and values.

    The module is called as ``module(obs, state)`` and gives ``(head inputs [n, k], values [n] or None, state)``. Its
    ``obs`` is float32 ``[n, ...]``, of a nested space ``{leaf: [n, ...]}``: images and what ``model.scale`` names are
    scaled, Discrete and MultiDiscrete parts one-hot, and action masks left out. ``state`` is a tuple of tensors
    ``[n, ...]``, empty unless the module has a method ``initial_state(n)`` that gives the one to begin with; a row's
    state then comes from the row before. Where it gives no values, a last layer makes them of the head inputs.

    Its parameters are learnt, unless they require no gradient. Its buffers are kept with the weights, those of whole
    numbers apart, and stay as they are. It is in evaluation mode: nothing is dropped, and statistics do not move.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: ModelConfig,
        *,
        squash: bool,
        value: bool,
        rng: np.random.Generator,
    ) -> None:
        """``ConfigError`` where ``model.custom`` leads to nothing of the kind."""
        assert model.custom is not None
        self._inputs = CustomInputs(observation_space, model.scale)
        self._module = _build(model.custom, observation_space, model.settings, seed=int(rng.integers(2**31)))
        self._given: Weights = {
            f"{PREFIX}{name}": tensor.detach().numpy().copy()
            for name, tensor in [*self._module.named_parameters(), *self._module.named_buffers()]
            if tensor.is_floating_point()
        }
        buffers = {f"{PREFIX}{name}" for name, _ in self._module.named_buffers()}
        frozen = {f"{PREFIX}{name}" for name, tensor in self._module.named_parameters() if not tensor.requires_grad}
        self._buffers = buffers & set(self._given)
        self.constant = frozenset(self._buffers | (frozen & set(self._given)))
        self._whole = {
            name: tensor.clone() for name, tensor in self._module.named_buffers() if not tensor.is_floating_point()
        }
        self._checked = Checked(model.custom, self._module, _TENSORS)
        self.recurrent = bool(self._checked.initial_state(1))
        width, own_values = self._trial()
        self.values_while_acting = value
        self._value = value
        self._heads = head_shapes(action_space, squash, width, value and not own_values)
        self.layout = [
            *(Leaf((name,), array.shape, array.shape) for name, array in self._given.items()),
            *(
                Leaf((name,), shape, shape[::-1], (1, 0)) if len(shape) == 2 else Leaf((name,), shape, shape)
                for name, shape in self._heads.items()
            ),
        ]

    def init(self, rng: np.random.Generator, log_std: float) -> Weights:
        return {name: array.copy() for name, array in self._given.items()} | init_heads(self._heads, rng, log_std)

    def columns(self, obs: Columns) -> dict[str, NDArray[Any]]:
        return {**self._inputs.columns(obs)}

    def initial_state(self, n: int) -> State:
        return tuple(part.detach().numpy() for part in self._checked.initial_state(n)) if self.recurrent else ()

    def __call__(self, leaves: Sequence[Tensor], inputs: Minibatch) -> Heads:
        weights = dict(zip([leaf.names[0] for leaf in self.layout], leaves, strict=True))
        own = {name[len(PREFIX) :]: self._held(name, weights[name]) for name in self._given}
        own |= {name: tensor.to(leaves[0].device, copy=True) for name, tensor in self._whole.items()}
        columns = self._inputs.read(inputs)
        if self.recurrent:
            features, values, state = self._steps(own, columns, state_of(inputs), inputs[BATCH_SIZES].tolist())
        else:
            features, values, state = self._call(own, columns, ())
        if self._value and values is None:
            values = functional.linear(features, weights["value.out.weight"], weights["value.out.bias"])
        policy = functional.linear(features, weights["policy.out.weight"], weights["policy.out.bias"])
        return Heads(
            policy, weights.get(LOG_STD), values.reshape(-1, 1) if self._value and values is not None else None, state
        )

    def _held(self, name: str, tensor: Tensor) -> Tensor:
        if name in self._buffers:
            return tensor.detach().clone()  # as a module may write into its buffers
        return tensor.detach() if name in self.constant else tensor

    def _steps(
        self, own: Mapping[str, Tensor], columns: Mapping[str, Tensor], state: tuple[Tensor, ...], sizes: Sequence[int]
    ) -> tuple[Tensor, Tensor | None, tuple[Tensor, ...]]:
        """One step of packed rows after the other."""
        features: list[Tensor] = []
        values: list[Tensor] = []
        ended: list[tuple[Tensor, ...]] = []
        start = 0
        for size in sizes:
            ended.insert(0, tuple(part[size:] for part in state))
            step = {leaf: column[start : start + size] for leaf, column in columns.items()}
            found, value, state = self._call(own, step, tuple(part[:size] for part in state))
            features.append(found)
            values += [] if value is None else [value.reshape(-1, 1)]
            start += size
        # Pieces end from the last to the first.
        last = tuple(torch.cat(parts) for parts in zip(state, *ended, strict=True))
        return torch.cat(features), torch.cat(values) if values else None, last

    def _call(
        self, own: Mapping[str, Tensor], columns: Mapping[str, Tensor], state: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor | None, tuple[Tensor, ...]]:
        obs = self._inputs.handed_over(columns)
        found: tuple[Tensor, Tensor | None, tuple[Tensor, ...]] = functional_call(self._module, dict(own), (obs, state))
        return found

    @torch.no_grad()
    def _trial(self) -> tuple[int, bool]:
        columns = {leaf: torch.zeros(TRIAL_ROWS, *shape) for leaf, shape in self._inputs.shapes.items()}
        return self._checked.trial(self._inputs.handed_over(columns), self._checked.initial_state(TRIAL_ROWS))


def _build(path: str, space: gymnasium.Space[Any], settings: Mapping[str, Any], seed: int) -> torch.nn.Module:
    # Modules draw their first weights from torch's own generator.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = build_custom(path, space, settings)
    if not isinstance(module, torch.nn.Module):
        raise ConfigError(f"model.custom: {path} gave {type(module).__name__}, expected a torch.nn.Module")
    return module.eval()
