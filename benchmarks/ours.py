"""rlcore with the common recipe, by its public interface alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recipe import ENV_ID, HIDDEN, RECIPE, Stopwatch, Tap, Tapped, Training

import rlcore
from rlcore.resolve import resolve


def config(env: str | Callable[[], Any], env_steps: int, seed: int) -> dict[str, Any]:
    """The recipe as a run's config; tuned settings for CartPole play no part."""
    return {
        "algorithm": "ppo",
        "framework": "torch",
        "env": env,
        "policy": {
            "learning_rate": RECIPE.learning_rate,
            "gamma": RECIPE.gamma,
            "gae_lambda": RECIPE.lambda_,
            "clip": RECIPE.clip,
            "entropy_coeff": RECIPE.entropy,
            "vf_loss_coeff": RECIPE.value,
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
    return _run("rlcore", config(lambda: Tapped(tap), env_steps, seed), tap)


def train_by_name(env_steps: int, seed: int) -> Training:
    """The same by the environment's name, which lets the provider choose its fastest implementation."""
    return _run("rlcore, env by name", config(ENV_ID, env_steps, seed), Tap())


def _run(contestant: str, settings: dict[str, Any], tap: Tap) -> Training:
    trainer = rlcore.Trainer(resolve(settings, env_settings=False))
    parts = {"sample": 0.0, "learn": 0.0, "sync": 0.0}
    best, env_steps = 0.0, 0
    watch = Stopwatch()
    while env_steps < settings["stop"]["env_steps"]:
        row = trainer.step()
        env_steps = row["env_steps"]
        best = max(best, row["episode_return_mean"] or 0.0)
        for name in parts:
            parts[name] += row[f"{name}_s"]
    seconds, cpu_seconds = watch.read()
    trainer.close()
    return Training(contestant, rlcore.__version__, env_steps, seconds, cpu_seconds, tap.best or best, parts)
