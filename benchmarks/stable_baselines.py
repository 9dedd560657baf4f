"""Stable-Baselines3 with the common recipe. Only sampling without learning needs a method that it keeps private."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator

import gymnasium
from recipe import ENV_ID, HIDDEN, RECIPE, Stopwatch, Tap, Tapped, Training
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

VERSION = importlib.metadata.version("stable-baselines3")


class Nothing(BaseCallback):
    """Goes on."""

    def _on_step(self) -> bool:
        return True


def build(env: DummyVecEnv, horizon: int, seed: int) -> PPO:
    return PPO(
        "MlpPolicy",
        env,
        learning_rate=RECIPE.learning_rate,
        n_steps=horizon,
        batch_size=RECIPE.minibatch,
        n_epochs=RECIPE.epochs,
        gamma=RECIPE.gamma,
        gae_lambda=RECIPE.lambda_,
        clip_range=RECIPE.clip,
        ent_coef=RECIPE.entropy,
        vf_coef=RECIPE.value,
        max_grad_norm=RECIPE.max_grad_norm,
        policy_kwargs={"net_arch": list(HIDDEN)},
        seed=seed,
        device="cpu",
    )


def train(env_steps: int, seed: int) -> Training:
    """Trains for at least ``env_steps``."""
    tap = Tap()
    algorithm = build(DummyVecEnv([lambda: Tapped(tap) for _ in range(RECIPE.num_envs)]), RECIPE.horizon, seed)
    watch = Stopwatch()
    algorithm.learn(env_steps)
    seconds, cpu_seconds = watch.read()
    return Training("Stable-Baselines3", VERSION, tap.env_steps, seconds, cpu_seconds, tap.best, {})


def sampler(num_envs: int, horizon: int, seed: int) -> Iterator[int]:
    """Each ``next`` collects one rollout and gives its environment steps."""
    algorithm = build(DummyVecEnv([lambda: gymnasium.make(ENV_ID) for _ in range(num_envs)]), horizon, seed)
    _, callback = algorithm._setup_learn(10**9, Nothing())
    while True:
        algorithm.collect_rollouts(algorithm.env, callback, algorithm.rollout_buffer, horizon)
        yield num_envs * horizon
