"""Which models ``tf.pg`` has: dense layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlcore.errors import ConfigError
from rlcore_tf import PolicyGradient

VECTOR = Box(-1.0, 1.0, (4,), np.float32)
IMAGE = Box(0, 255, (36, 36, 1), np.uint8)


def build(space: Any, model: dict[str, Any]) -> Any:
    config = PolicyGradient.Config(model=model)
    return PolicyGradient(space, Discrete(3), config, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("space", "model", "message"),
    [
        (VECTOR, {"lstm": 8}, "model.lstm: this policy graph is not recurrent"),
        (IMAGE, {}, "model.encoder: this policy graph has no convolutions; 'mlp' reads the pixels"),
        (IMAGE, {"encoder": "impala"}, "model.encoder: this policy graph has no convolutions"),
        (VECTOR, {"encoder": "nature"}, "model.encoder: nature: "),
        (VECTOR, {"custom": "package.module:build"}, "model.custom: this policy graph takes no custom model"),
        (VECTOR, {"precision": "bfloat16"}, "model.precision: this policy graph has no such option"),
        (VECTOR, {"compile": True}, "model.compile: this policy graph has no such option"),
    ],
)
def test_what_it_does_not_have_is_refused_in_one_line(space: Any, model: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(space, model)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_pixels_are_read_as_numbers_where_that_is_asked_for() -> None:
    graph = build(IMAGE, {"encoder": "mlp", "hidden": [4]})
    assert graph.get_weights()["policy.hidden_0.weight"].shape == (36 * 36, 4)
    obs = np.full((2, 36, 36, 1), 255, np.uint8)
    assert graph.act(obs, explore=False, rng=np.random.default_rng(0)).actions.shape == (2,)


def test_sharing_values_means_nothing_where_there_are_none() -> None:
    one, other = (build(VECTOR, {"hidden": [4], "shared_value": shared}).get_weights() for shared in (False, True))
    assert one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)
