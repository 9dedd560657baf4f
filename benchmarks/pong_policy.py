"""Pong with a policy: sampling with the networks of Mnih et al. 2015, beside a bare loop with the same network.

    python benchmarks/pong_policy.py

The bare loops step Gymnasium's and ALE's own vector environments and take the action that a plain ``torch.nn`` network
rates highest. rlcore draws from the policy, notes log-probabilities and values, records every step and makes advantages
of them. Contestants take turns on one core; the ratios are medians over the turns. The goal: at least 0.9 of the bare
loop.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import ale_py
import gymnasium
import torch
from ale_py.vector_env import AtariVectorEnv

from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Fragment
from rlcore_torch import PPO

STEPS, ACTIONS = 32, 6
LEAST = 0.9
#: Plays on for ever; each ``next`` takes ``STEPS`` decisions in all copies.
Play = Iterator[None]


def one_game() -> Any:
    env = gymnasium.wrappers.AtariPreprocessing(gymnasium.make("ALE/Pong-v5", frameskip=1))
    return gymnasium.wrappers.FrameStackObservation(env, 4)


def bare(env: Any) -> Play:
    network = torch.nn.Sequential(
        torch.nn.Conv2d(4, 32, 8, 4),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 4, 2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(64, 64, 3, 1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(3136, 512),
        torch.nn.ReLU(),
        torch.nn.Linear(512, ACTIONS),
    ).eval()
    obs, _ = env.reset(seed=0)
    while True:
        for _ in range(STEPS):
            with torch.inference_mode():
                actions = network(torch.from_numpy(obs).float().mul_(1 / 255)).argmax(1).numpy()
            obs = env.step(actions)[0]
        yield


def ours(copies: int, **settings: Any) -> Play:
    evaluator = PolicyEvaluator(
        env="ALE/Pong-v5",
        env_settings={"atari": True, "frame_stack": 4, **settings},
        graph=PPO,
        num_envs=copies,
        collect=Fragment(STEPS),
        rng=0,
    )
    while True:
        evaluator.sample()
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="turns (default: %(default)s)")
    parser.add_argument("--games", type=int, default=8, help="copies of Pong (default: %(default)s)")
    options = parser.parse_args()
    gymnasium.register_envs(ale_py)
    copies = options.games
    contestants: dict[str, Callable[[], Play]] = {
        "Gymnasium, bare": lambda: bare(gymnasium.vector.SyncVectorEnv([one_game] * copies)),
        "Gymnasium, rlcore": lambda: ours(copies),
        "ALE, bare": lambda: bare(AtariVectorEnv("pong", copies, num_threads=1)),
        "ALE, rlcore": lambda: ours(copies, vectorization="native", workers=1),
    }
    plays = {name: make() for name, make in contestants.items()}
    # After the graphs are built, which may set another number.
    for play in plays.values():
        next(play)
    torch.set_num_threads(1)
    seconds: dict[str, list[float]] = {name: [] for name in plays}
    for _ in range(options.rounds):
        for name, play in plays.items():
            started = time.perf_counter()
            next(play)
            seconds[name].append(time.perf_counter() - started)
    print(f"Pong with a convolutional policy, {copies} copies, one core:")
    for name, own in seconds.items():
        rate = f"{copies * STEPS / statistics.median(own):6.0f} decisions/s"
        library, _, who = name.partition(", ")
        if who == "bare":
            print(f"  {name:20} {rate}")
            continue
        ratio = statistics.median(b / o for b, o in zip(seconds[f"{library}, bare"], own, strict=True))
        print(f"  {name:20} {rate}  {ratio:.2f} of the bare loop (goal: {LEAST})")


if __name__ == "__main__":
    main()
