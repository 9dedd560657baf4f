"""rlcore with the common recipe, by its public interface alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import rlcore
from recipe import ENV_ID, HIDDEN, RECIPE, Tap, Tapped, Training


def config(env: str | Callable[[], Any], env_steps: int, seed: int) -> dict[str, Any]:
    """The recipe as a run's config; tuned settings for CartPole play no part."""
    return {
        "algorithm": "ppo",
        "framework": "torch",
        "env": env,
        "policy": {
            "learning_rate": RECIPE.learning_rate,
            "gamma": RECIPE.gamma,
            "lambda": RECIPE.lambda_,
            "clip": RECIPE.clip,
            "entropy_coefficient": RECIPE.entropy,
            "value_coefficient": RECIPE.value,
            "max_grad_norm": RECIPE.max_grad_norm,
        },
        "model": {"hidden": list(HIDDEN), "activation": "tanh"},
        "optimizer": {"name": "multi_gpu", "epochs": RECIPE.epochs, "minibatch_size": RECIPE.minibatch},
        "evaluators": {"count": 0, "envs": RECIPE.num_envs, "fragment": RECIPE.horizon},
        "runtime": "inline",
        "seed": seed,
        "stop": {"env_steps": env_steps},
    }


def train(env_steps: int, seed: int) -> Training:
    """Trains for at least ``env_steps`` on the same tapped environments as the others."""
    tap = Tap()
    trainer = rlcore.Trainer(config(lambda: Tapped(tap), env_steps, seed))
    return _measured("rlcore", trainer, tap)


def train_by_name(env_steps: int, seed: int) -> Training:
    """The same by the environment's name, which lets the provider choose its fastest implementation."""
    return _measured("rlcore, env by name", rlcore.Trainer(config(ENV_ID, env_steps, seed)), None)
