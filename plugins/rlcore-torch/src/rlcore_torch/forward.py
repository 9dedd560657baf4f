"""Forward: a model computed in a precision."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlcore.acting.model_config import Precision
from rlcore_torch.columns import Minibatch
from rlcore_torch.model import Heads, Model


class Forward:
    """Calls ``model``. In ``bfloat16`` products and convolutions are computed in that precision (autocast); parameters,
    what comes out and all that is made of it stay float32."""

    def __init__(self, model: Model, precision: Precision) -> None:
        self._model = model
        self._mixed = precision == "bfloat16"

    def __call__(self, leaves: Sequence[Tensor], inputs: Minibatch) -> Heads:
        if not self._mixed:
            return self._model(leaves, inputs)
        with torch.autocast(leaves[0].device.type, torch.bfloat16):
            heads = self._model(leaves, inputs)
        values = None if heads.values is None else heads.values.float()
        return Heads(heads.policy.float(), heads.log_std, values, tuple(part.float() for part in heads.state))
