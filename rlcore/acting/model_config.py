"""The model section of a policy's config."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import NonNegativeInt, PositiveInt, model_validator

from rlcore.policy_graph import GraphConfig

Activation = Literal["tanh", "relu"]
Precision = Literal["float32", "bfloat16", "float64"]
Encoder = Literal["mlp", "nature", "impala", "tower"]


class TowerConfig(GraphConfig):
    """``blocks`` residual blocks of two 3 x 3 convolutions with ``channels`` channels."""

    blocks: PositiveInt = 4
    channels: PositiveInt = 64


class ModelConfig(GraphConfig):
    """Which networks a policy has, from the observation to its outputs: encoder, hidden layers, LSTM.

    ``encoder`` says what reads images: the convolutions of Mnih et al. 2015 (``nature``), the residual ones of Espeholt
    et al. 2018 (``impala``), those of AlphaZero, which keep the size of a board (``tower``, of so many ``blocks`` and
    ``channels``), or nothing (``mlp``: their pixels are inputs like any other). Left out it is ``nature`` where the
    observation has uint8 images of at least 36 x 36 pixels, else ``mlp``. Parts that are no images go past the
    convolutions. ``hidden`` are the sizes of the layers behind, ``activation`` is theirs; left out they are
    ``[64, 64]`` and ``tanh``, with convolutions ``[512]`` (nature) or ``[256]`` (impala, tower) and ``relu``; graphs
    that learn from replayed transitions have ``relu``, those of continuous actions ``[256, 256]``. ``lstm`` is the
    number of units of a recurrent layer after them, 0 is none. With ``shared_value`` all of this is one network with
    two outputs; without it the values have one of their own. Left out, convolutions are shared, as they usually are:
    values then cost next to nothing.

    ``scale`` says of parts of the observation, by dotted name (``obs`` where it has no parts), whether their bounds are
    mapped to [0, 1]; without it that is done to uint8 images (:mod:`rlcore.acting.scaling`).

    ``custom`` names a model of the user's own, ``package.module:build``, in place of everything but ``scale``;
    ``settings`` are handed to it as keywords. What it has to be is the framework plugin's business.

    ``precision: bfloat16`` computes products and convolutions in that precision and keeps the rest float32; with
    ``float64`` the weights and all that is computed of them have it, slowly: for comparing numbers. ``compile`` hands
    the loss to the framework's compiler: seconds to minutes at the start, to be won back by large networks.
    """

    hidden: tuple[PositiveInt, ...] | None = None
    activation: Activation | None = None
    encoder: Encoder | None = None
    tower: TowerConfig = TowerConfig()
    lstm: NonNegativeInt = 0
    shared_value: bool | None = None
    scale: dict[str, bool] = {}
    custom: str | None = None
    settings: dict[str, Any] = {}
    precision: Precision = "float32"
    compile: bool = False

    @model_validator(mode="after")
    def _custom_alone(self) -> ModelConfig:
        if self.encoder != "tower" and self.tower != TowerConfig():
            raise ValueError("tower: read with encoder: tower only")
        if self.custom is None:
            if self.settings:
                raise ValueError("settings are those of a custom model, which is not named: set custom")
            return self
        module, _, attribute = self.custom.partition(":")
        if not (module and attribute):
            raise ValueError(f"custom: '{self.custom}' is not of the form package.module:build")
        set_too = sorted(self.model_fields_set & {"hidden", "activation", "encoder", "tower", "lstm", "shared_value"})
        changed = [name for name in set_too if getattr(self, name) != type(self).model_fields[name].default]
        if changed:
            raise ValueError(f"{', '.join(changed)}: not read beside a custom model; hand it what it needs in settings")
        return self
