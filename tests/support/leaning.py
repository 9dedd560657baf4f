"""Recorded episodes of a rule that balances CartPole for a while."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np


def record_leaning(folder: Path, episodes: int) -> None:
    """Pushes to where the pole is going to be; some 300 steps an episode."""
    from rlcore_offline import DatasetWriter
    from rlcore_offline.minari_source import joined

    env = gymnasium.make("CartPole-v1")
    found = []
    for seed in range(episodes):
        obs, _ = env.reset(seed=seed)
        seen, actions, rewards, over, terminated = [obs], [], [], False, False
        while not over:
            actions.append(int(obs[2] + 0.5 * obs[3] + 0.05 * obs[1] > 0.0))
            obs, reward, terminated, truncated, _ = env.step(actions[-1])
            over = terminated or truncated
            seen.append(obs)
            rewards.append(reward)
        ends = np.zeros(len(rewards), np.bool_)
        ends[-1] = terminated
        found.append(
            SimpleNamespace(
                observations=np.array(seen),
                actions=np.array(actions),
                rewards=rewards,
                terminations=ends,
                truncations=~ends,
            )
        )
    spaces = env.observation_space, env.action_space
    DatasetWriter(folder, spaces, "CartPole-v1").write(joined(found, *spaces))
