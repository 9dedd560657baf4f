"""PPO learns in these environments; an external simulator of twenty lines, killed and started again, trains it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import rlcore

pytestmark = [pytest.mark.learning, pytest.mark.timeout(1200)]

SIMULATOR = '''
import sys
import gymnasium
from rlcore_batched.client import Client

env = gymnasium.make("CartPole-v1")
with Client(sys.argv[1], token="secret") as client:
    while True:
        obs, _ = env.reset()
        terminated = truncated = False
        while not (terminated or truncated):
            action = client.action(obs)
            obs, reward, terminated, truncated, _ = env.step(action)
            client.log_return(reward)
        client.end_episode(obs, truncated=not terminated)
'''


def trained(env: str, **config: Any) -> Any:
    pytest.importorskip("rlcore_torch")
    return rlcore.Trainer({"algorithm": "ppo", "env": env, "seed": 1, **config}).train()


def returned(result: Any) -> float:
    return float(result["episode_return_mean"])


def test_ppo_learns_array_cartpole() -> None:
    assert returned(trained("batched:cartpole", stop={"episode_return_mean": 475, "env_steps": 200_000})) >= 475


def test_ppo_learns_catch() -> None:
    assert returned(trained("batched:catch", stop={"episode_return_mean": 0.9, "env_steps": 300_000})) >= 0.9


@pytest.mark.parametrize("settings", [{}, {"batch_size": 4}], ids=["lockstep", "ready"])
def test_ppo_learns_envpool_cartpole(settings: dict[str, Any]) -> None:
    pytest.importorskip("envpool")
    stop = {"episode_return_mean": 475, "env_steps": 200_000}
    result = trained("envpool:CartPole-v1", env_settings=settings, evaluators={"envs": 8}, stop=stop)
    assert returned(result) >= 475


def test_ppo_learns_envpool_pendulum() -> None:
    pytest.importorskip("envpool")
    assert returned(trained("envpool:Pendulum-v1", stop={"episode_return_mean": -250, "env_steps": 300_000})) >= -250


def test_an_external_simulator_trains_ppo_and_may_be_killed(tmp_path: Path) -> None:
    address, script = str(tmp_path / "socket"), tmp_path / "simulator.py"
    script.write_text(SIMULATOR)
    assert len(SIMULATOR.strip().splitlines()) <= 20
    running = [subprocess.Popen([sys.executable, str(script), address])]

    def replace() -> None:
        running[-1].kill()
        running.append(subprocess.Popen([sys.executable, str(script), address]))

    timers = [threading.Timer(seconds, replace) for seconds in (8.0, 16.0)]
    for timer in timers:
        timer.start()
    try:
        result = trained(
            f"external:{address}",
            env_settings={"spaces_of": "CartPole-v1", "token": "secret"},
            policy={"learning_rate": 1e-3, "gamma": 0.98, "gae_lambda": 0.9},
            evaluators={"envs": 1, "fragment": 512},
            stop={"episode_return_mean": 300, "env_steps": 200_000},
        )
    finally:
        for timer in timers:
            timer.cancel()
        running[-1].kill()
    assert returned(result) >= 300
    assert len(running) > 1
