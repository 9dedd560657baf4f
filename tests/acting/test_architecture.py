from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from pydantic import ValidationError

from rlcore.acting import Architecture, ModelConfig, refuse_all_but_dense, remarks_on_encoders
from rlcore.acting.architecture import refuse_encoders
from rlcore.acting.convolutions import impala, nature
from rlcore.acting.images import Image, image_of
from rlcore.errors import ConfigError

VECTOR = spaces.Box(-1.0, 1.0, (4,), np.float32)
DISCRETE = spaces.Discrete(3)
BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)


def pixels(*shape: int, dtype: Any = np.uint8) -> spaces.Box:
    return spaces.Box(0, 255, shape, dtype)


def image(*shape: int) -> Image:
    found = image_of(pixels(*shape))
    assert found is not None
    return found


def one_line(error: BaseException) -> bool:
    return bool(str(error)) and "\n" not in str(error)


@pytest.mark.parametrize(
    ("shape", "outputs"),
    # Of 84 x 84: 20 x 20, 9 x 9, 7 x 7 pixels of 64 channels, as in Mnih et al. 2015.
    [((84, 84, 4), 3136), ((4, 84, 84), 3136), ((36, 36, 1), 64), ((210, 160, 3), 64 * 22 * 16), ((36, 44, 3), 128)],
)
def test_sizes_of_nature(shape: tuple[int, ...], outputs: int) -> None:
    encoder = nature(image(*shape))
    assert encoder.outputs == outputs
    channels = min(shape[0], shape[-1])
    assert [layer.shape for layer in encoder.convolutions] == [
        (8, 8, channels, 32),
        (4, 4, 32, 64),
        (3, 3, 64, 64),
    ]


@pytest.mark.parametrize(
    ("shape", "outputs"),
    # Each stage halves the sides, rounding up: 84 -> 42 -> 21 -> 11.
    [((84, 84, 4), 11 * 11 * 32), ((72, 96, 3), 9 * 12 * 32), ((9, 5, 3), 2 * 1 * 32), ((1, 1, 1), 32)],
)
def test_sizes_of_impala(shape: tuple[int, ...], outputs: int) -> None:
    encoder = impala(image(*shape))
    assert encoder.outputs == outputs
    assert len(encoder.convolutions) == 15
    assert [stage.convolution.outputs for stage in encoder.stages] == [16, 32, 32]
    assert len({layer.name for layer in encoder.convolutions}) == 15


def test_too_small_images_are_refused_by_nature() -> None:
    with pytest.raises(ConfigError, match="at least 36 x 36 pixels, not 35 x 84; impala takes smaller ones") as caught:
        Architecture.of(pixels(35, 84, 3), DISCRETE, ModelConfig(encoder="nature"))
    assert one_line(caught.value)


@pytest.mark.parametrize("encoder", ["nature", "impala"])
@pytest.mark.parametrize("space", [VECTOR, spaces.Dict({"a": VECTOR, "b": DISCRETE})], ids=["vector", "dict"])
def test_encoders_need_an_image(encoder: Any, space: Any) -> None:
    with pytest.raises(ConfigError, match=rf"model\.encoder: {encoder}: .* has no image") as caught:
        Architecture.of(space, DISCRETE, ModelConfig(encoder=encoder))
    assert one_line(caught.value)


@pytest.mark.parametrize(
    ("space", "encoded"),
    [
        (pixels(36, 36, 3), True),
        (pixels(4, 36, 40), True),
        (pixels(2, 36, 36, 3), True),
        (pixels(35, 36, 3), False),
        (pixels(7, 7, 3), False),
        (pixels(36, 36, 3, dtype=np.float32), False),
        (spaces.Box(0, 1, (36, 36, 3), np.uint8), False),
        (pixels(36, 36), False),
    ],
    ids=str,
)
def test_auto_encodes_large_uint8_images(space: Any, encoded: bool) -> None:
    architecture = Architecture.of(space, DISCRETE, ModelConfig())
    assert bool(architecture.encoders) == encoded
    assert len(remarks_on_encoders(space, ModelConfig())) == encoded
    if encoded:
        assert (architecture.hidden, architecture.activation, architecture.flat) == ((512,), "relu", 0)
    else:
        assert (architecture.hidden, architecture.activation) == ((64, 64), "tanh")
        assert architecture.flat == math.prod(space.shape)


def test_what_was_chosen_is_not_remarked_on() -> None:
    for encoder in ("mlp", "nature", "impala"):
        assert remarks_on_encoders(pixels(36, 36, 3), ModelConfig(encoder=encoder)) == []
    (remark,) = remarks_on_encoders(pixels(4, 36, 40), ModelConfig())
    assert "'obs' is read as 36 x 40 pixels of 4 channels" in remark.text and not remark.warns


def test_mlp_reads_pixels_as_numbers() -> None:
    architecture = Architecture.of(pixels(36, 36, 3), DISCRETE, ModelConfig(encoder="mlp"))
    assert not architecture.encoders and architecture.features == 36 * 36 * 3


def test_what_is_left_out_follows_the_encoder() -> None:
    small = Architecture.of(pixels(9, 9, 3), DISCRETE, ModelConfig(encoder="impala"))
    assert (small.hidden, small.activation) == ((256,), "relu")
    told = Architecture.of(pixels(9, 9, 3), DISCRETE, ModelConfig(encoder="impala", hidden=(), activation="tanh"))
    assert (told.hidden, told.activation, told.width) == ((), "tanh", 2 * 2 * 32)


@pytest.mark.parametrize(
    ("told", "with_images", "without"), [(None, True, False), (True, True, True), (False, False, False)]
)
def test_values_share_convolutions_unless_told_otherwise(told: Any, with_images: bool, without: bool) -> None:
    model = ModelConfig(shared_value=told)
    for space, shared in ((pixels(36, 36, 3), with_images), (VECTOR, without)):
        assert Architecture.of(space, DISCRETE, model).networks == (("shared",) if shared else ("policy", "value"))
        assert Architecture.of(space, DISCRETE, model, value=False).networks == ("policy",)


def test_parts_of_an_observation_stand_beside_the_images() -> None:
    space = spaces.Dict({"eye": pixels(36, 36, 3), "place": VECTOR, "kind": spaces.Discrete(5)})
    architecture = Architecture.of(space, BOX, ModelConfig(hidden=(16,), lstm=8, shared_value=True))
    assert (architecture.flat, architecture.features, architecture.width) == (9, 64 + 9, 8)
    assert architecture.networks == ("shared",) and architecture.state_sizes == (8, 8)
    assert architecture.shapes() == {
        "shared.image.eye.conv_0.weight": (8, 8, 3, 32),
        "shared.image.eye.conv_0.bias": (32,),
        "shared.image.eye.conv_1.weight": (4, 4, 32, 64),
        "shared.image.eye.conv_1.bias": (64,),
        "shared.image.eye.conv_2.weight": (3, 3, 64, 64),
        "shared.image.eye.conv_2.bias": (64,),
        "shared.hidden_0.weight": (73, 16),
        "shared.hidden_0.bias": (16,),
        "shared.lstm.weight_x": (16, 32),
        "shared.lstm.weight_h": (8, 32),
        "shared.lstm.bias": (32,),
        "policy.out.weight": (8, 2),
        "policy.out.bias": (2,),
        "policy.log_std": (2,),
        "value.out.weight": (8, 1),
        "value.out.bias": (1,),
    }


def test_separate_networks_have_a_recurrent_state_each() -> None:
    architecture = Architecture.of(VECTOR, DISCRETE, ModelConfig(lstm=5))
    assert architecture.networks == ("policy", "value") and architecture.state_sizes == (5, 5, 5, 5)
    alone = Architecture.of(VECTOR, DISCRETE, ModelConfig(lstm=5, shared_value=True), value=False)
    assert alone.networks == ("policy",) and alone.state_sizes == (5, 5)
    assert not any(name.startswith(("value", "shared")) for name in alone.shapes())


def test_where_weights_start() -> None:
    model = ModelConfig(hidden=(8,), lstm=4, shared_value=False)
    weights = Architecture.of(pixels(36, 36, 3), BOX, model).init(np.random.default_rng(0), log_std=-0.5)
    assert all(array.dtype == np.float32 and array.flags.c_contiguous for array in weights.values())
    assert weights["policy.log_std"].tolist() == [-0.5, -0.5]
    # Forget gates, the second quarter, begin open.
    assert weights["value.lstm.bias"].tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8
    for gate in np.split(weights["policy.lstm.weight_h"].astype(np.float64), 4, axis=1):
        np.testing.assert_allclose(gate.T @ gate, np.eye(4), atol=1e-6)
    convolution = weights["policy.image.conv_1.weight"].reshape(-1, 64).astype(np.float64)
    np.testing.assert_allclose(convolution.T @ convolution, 2.0 * np.eye(64), atol=1e-5)
    biases = [name for name in weights if name.endswith("bias") and ".lstm." not in name]
    assert len(biases) == 10 and not any(weights[name].any() for name in biases)


def test_equal_generators_give_equal_weights() -> None:
    architecture = Architecture.of(pixels(9, 9, 3), BOX, ModelConfig(encoder="impala", lstm=3, hidden=(4,)))
    one, same, other = (architecture.init(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert all(one[name].tobytes() == same[name].tobytes() for name in one)
    differ = {name for name in one if one[name].tobytes() != other[name].tobytes()}
    assert differ == {name for name in one if "weight" in name}


def test_a_custom_model_is_nothing_that_the_kernel_can_lay_out() -> None:
    with pytest.raises(ConfigError, match=r"model\.custom: this policy graph takes no custom model"):
        Architecture.of(VECTOR, DISCRETE, ModelConfig(custom="package.module:build"))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"encoder": "mlp", "lstm": 8}, "model.lstm: this policy graph is not recurrent"),
        ({"encoder": "impala"}, "model.encoder: this policy graph has no convolutions"),
        ({}, "model.encoder: this policy graph has no convolutions"),
        ({"encoder": "mlp", "precision": "bfloat16"}, "model.precision: this policy graph has no such option"),
        ({"encoder": "mlp", "compile": True}, "model.compile: this policy graph has no such option"),
    ],
)
def test_refusals_of_graphs_with_dense_layers_only(model: Any, message: str) -> None:
    config = ModelConfig(**model)
    with pytest.raises(ConfigError) as caught:
        refuse_all_but_dense(config, Architecture.of(pixels(36, 36, 3), DISCRETE, config))
    assert str(caught.value).startswith(message) and one_line(caught.value)


def test_dense_layers_are_not_refused() -> None:
    config = ModelConfig(encoder="mlp", hidden=(3,))
    architecture = Architecture.of(pixels(36, 36, 3), DISCRETE, config)
    refuse_encoders(architecture)
    refuse_all_but_dense(config, architecture)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"settings": {"width": 3}}, "settings are those of a custom model"),
        ({"custom": "package.module"}, "is not of the form package.module:build"),
        ({"custom": ":build"}, "is not of the form package.module:build"),
        ({"custom": "m:b", "lstm": 8}, "lstm: not read beside a custom model"),
        ({"custom": "m:b", "hidden": [8], "shared_value": True}, "hidden, shared_value: not read beside"),
        ({"custom": "m:b", "encoder": "impala", "activation": "relu"}, "activation, encoder: not read beside"),
        ({"precision": "float16"}, "precision"),
        ({"encoder": "resnet"}, "encoder"),
    ],
)
def test_B163_settings_that_contradict_each_other(given: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ModelConfig.model_validate(given)


def test_defaults_that_are_spelt_out_do_not_contradict_a_custom_model() -> None:
    config = ModelConfig(custom="m:b", settings={"width": 3}, precision="bfloat16", compile=True, scale={"obs": True})
    assert ModelConfig.model_validate(config.model_dump(mode="json")) == config
