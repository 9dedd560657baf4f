"""The array simulators beside their Gymnasium originals, from the same states with the same actions."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore.env import DEFAULT_GROUP
from rlcore.envs import build_env

COPIES = 8

#: ``(id, original, variables in the original's order)``
ORIGINALS = [
    ("cartpole", "CartPole-v1", ("x", "speed", "angle", "turning")),
    ("pendulum", "Pendulum-v1", ("angle", "turning")),
    ("acrobot", "Acrobot-v1", ("angle_1", "angle_2", "turning_1", "turning_2")),
    ("mountaincar", "MountainCar-v0", ("position", "velocity")),
]


def state_of(env: Any, slot: int, names: tuple[str, ...]) -> np.ndarray:
    return np.array([env.get_state()["state"][name][slot] for name in names])


def actions_for(space: Any, rng: np.random.Generator) -> np.ndarray:
    if isinstance(space, gymnasium.spaces.Discrete):
        return rng.integers(0, space.n, COPIES)
    return rng.uniform(1.2 * space.low, 1.2 * space.high, (COPIES, *space.shape)).astype(np.float32)


@pytest.mark.parametrize(("env_id", "original", "names"), ORIGINALS)
@pytest.mark.parametrize("seed", [0, 1])
def test_trajectories_equal_those_of_the_original(
    env_id: str, original: str, names: tuple[str, ...], seed: int
) -> None:
    """Observations, rewards and endings, the time limit included, over whole episodes."""
    env, rng = build_env(f"batched:{env_id}", COPIES, {}), np.random.default_rng(seed)
    copies = [gymnasium.make(original, disable_env_checker=True) for _ in range(COPIES)]
    env.reset(seed)
    step = env.poll(None)[DEFAULT_GROUP]
    endings = np.zeros(COPIES, np.int64)
    while endings.min() < 2:
        for slot in np.flatnonzero(step.first):
            copies[slot].reset(seed=0)
            copies[slot].unwrapped.state = state_of(env, slot, names)
        actions = actions_for(env.groups[DEFAULT_GROUP][1], rng)
        env.send({DEFAULT_GROUP: (step.slot, actions)})
        step = env.poll(None)[DEFAULT_GROUP]
        ended = step.terminated | step.truncated
        seen = np.array(step.obs)
        seen[ended] = step.final_obs
        for slot, own in enumerate(copies):
            obs, reward, terminated, truncated, _ = own.step(actions[slot])
            np.testing.assert_allclose(seen[slot], obs, rtol=0, atol=1e-5)
            assert step.reward[slot] == pytest.approx(float(reward), abs=1e-5)
            assert (step.terminated[slot], step.truncated[slot]) == (terminated, truncated)
        endings += ended


@pytest.mark.parametrize(("env_id", "original", "names"), ORIGINALS)
def test_spaces_and_first_states_are_those_of_the_original(env_id: str, original: str, names: tuple[str, ...]) -> None:
    env, own = build_env(f"batched:{env_id}", 4000, {}), gymnasium.make(original)
    assert env.groups[DEFAULT_GROUP] == (own.observation_space, own.action_space)
    env.reset(0)
    state = env.get_state()["state"]
    samples = np.array([(own.reset(seed=seed), own.unwrapped.state)[1] for seed in range(4000)])
    for column, name in enumerate(names):
        np.testing.assert_allclose(
            np.quantile(state[name], [0.05, 0.5, 0.95]),
            np.quantile(samples[:, column], [0.05, 0.5, 0.95]),
            atol=0.05 * np.ptp(samples[:, column]) + 1e-12,
        )


def test_settings_are_those_of_the_original() -> None:
    for settings, copy in (
        ({"g": 5.0}, gymnasium.make("Pendulum-v1", g=5.0)),
        ({"goal_velocity": 0.1}, gymnasium.make("MountainCar-v0", goal_velocity=0.1)),
        ({"sutton_barto_reward": True}, gymnasium.make("CartPole-v1", sutton_barto_reward=True)),
    ):
        original = copy.spec.id
        env_id, _, names = next(own for own in ORIGINALS if own[1] == original)
        env = build_env(f"batched:{env_id}", 1, settings)
        env.reset(3)
        step = env.poll(None)[DEFAULT_GROUP]
        copy.reset(seed=0)
        copy.unwrapped.state = state_of(env, 0, names)
        action = copy.action_space.sample()
        while not (step.terminated | step.truncated).any():
            env.send({DEFAULT_GROUP: (step.slot, np.asarray(action)[None])})
            step = env.poll(None)[DEFAULT_GROUP]
            _, reward, terminated, truncated, _ = copy.step(action)
            assert step.reward[0] == pytest.approx(float(reward), abs=1e-5)
            assert (step.terminated[0], step.truncated[0]) == (terminated, truncated)
