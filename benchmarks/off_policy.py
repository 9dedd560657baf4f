"""Learning from replay beside Stable-Baselines3: DQN on CartPole end to end, and one update of SAC.

    python benchmarks/off_policy.py [--env-steps N] [--seeds N]

DQN: CartPole-v1, one network of 128 x 128 units, plain targets copied every 500 steps, minibatches of 64, one update
for every four environment steps after the first 1000, Adam at 5e-4, gradients clipped at 10, epsilon from 1 to 0.04
over 10,000 steps, 50,000 transitions. Samples are taken in several ways, such as four steps of one environment and then
an update, or eight steps of four and then eight updates; Stable-Baselines3 takes part in each of them. Each run is a
fresh process with one thread, the contestants in turns, on the same wrapped Gymnasium environments; imports are not
counted.

SAC: Pendulum-v1's shapes, networks of 256 x 256, minibatches of 256 drawn from 20,000 transitions, the temperature
learnt, targets moved at every update. Both draw, learn and move targets in one process with one thread, by turns.

Goals: three times the environment steps that Stable-Baselines3 makes with one environment, which is how it is used;
one and a half times its updates of SAC.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from recipe import Stopwatch, Tap, Tapped, Training

#: ``{name: (environments, steps of each before the updates that are then due)}``
WAYS = {"1 x 4": (1, 4), "4 x 1": (4, 1), "4 x 8": (4, 8), "8 x 8": (8, 8)}
CONTESTANTS = ("Stable-Baselines3", "rlcore")
STORED, SAC_BATCH = 20_000, 256


@dataclass(frozen=True)
class Recipe:
    """Plain deep Q-learning (Mnih et al. 2015)."""

    hidden: tuple[int, ...] = (128, 128)
    learning_rate: float = 5e-4
    gamma: float = 0.99
    capacity: int = 50_000
    learning_starts: int = 1000
    minibatch: int = 64
    steps_per_update: int = 4
    target_every: int = 500
    epsilon: float = 0.04
    epsilon_steps: int = 10_000
    max_grad_norm: float = 10.0


RECIPE = Recipe()


# -- DQN


def train_ours(way: str, env_steps: int, seed: int) -> Training:
    """By the public interface, for at least ``env_steps``."""
    import rlcore
    from rlcore.resolve import resolve

    (envs, fragment), tap = WAYS[way], Tap()
    settings = {
        "algorithm": "dqn",
        "framework": "torch",
        "env": lambda: Tapped(tap),
        "policy": {
            "learning_rate": RECIPE.learning_rate,
            "gamma": RECIPE.gamma,
            "epsilon": [[0, 1.0], [RECIPE.epsilon_steps, RECIPE.epsilon]],
            "double": False,
            "n_step": 1,
            "tau": None,
            "target_update_every": RECIPE.target_every,
            "max_grad_norm": RECIPE.max_grad_norm,
        },
        "model": {"hidden": list(RECIPE.hidden), "activation": "relu"},
        "optimizer": {
            "name": "replay",
            "capacity": RECIPE.capacity,
            "learning_starts": RECIPE.learning_starts,
            "minibatch_size": RECIPE.minibatch,
            "learnt_per_sampled": RECIPE.minibatch / RECIPE.steps_per_update,
            "rounds": 1000 // (envs * fragment),
        },
        "evaluators": {"count": 0, "envs": envs, "fragment": fragment},
        "runtime": "inline",
        "seed": seed,
        "stop": {"env_steps": env_steps},
    }
    trainer = rlcore.Trainer(resolve(settings, env_settings=False))
    parts, row = {"sample": 0.0, "learn": 0.0, "sync": 0.0}, {"env_steps": 0}
    watch = Stopwatch()
    while row["env_steps"] < env_steps:
        row = trainer.step()
        for name in parts:
            parts[name] += row[f"{name}_s"]
    seconds, cpu_seconds = watch.read()
    trainer.close()
    return Training(f"rlcore, {way}", rlcore.__version__, tap.env_steps, seconds, cpu_seconds, tap.best, parts)


def train_theirs(way: str, env_steps: int, seed: int) -> Training:
    """The same by Stable-Baselines3."""
    import stable_baselines3
    from stable_baselines3.common.vec_env import DummyVecEnv

    (envs, fragment), tap = WAYS[way], Tap()
    algorithm = stable_baselines3.DQN(
        "MlpPolicy",
        DummyVecEnv([lambda: Tapped(tap) for _ in range(envs)]),
        learning_rate=RECIPE.learning_rate,
        buffer_size=RECIPE.capacity,
        learning_starts=RECIPE.learning_starts,
        batch_size=RECIPE.minibatch,
        gamma=RECIPE.gamma,
        train_freq=fragment,
        gradient_steps=envs * fragment // RECIPE.steps_per_update,
        target_update_interval=RECIPE.target_every,
        exploration_fraction=RECIPE.epsilon_steps / env_steps,
        exploration_final_eps=RECIPE.epsilon,
        max_grad_norm=RECIPE.max_grad_norm,
        policy_kwargs={"net_arch": list(RECIPE.hidden)},
        seed=seed,
        device="cpu",
    )
    watch = Stopwatch()
    algorithm.learn(env_steps)
    seconds, cpu_seconds = watch.read()
    version = stable_baselines3.__version__
    return Training(f"Stable-Baselines3, {way}", version, tap.env_steps, seconds, cpu_seconds, tap.best, {})


TRAIN: dict[str, Callable[[str, int, int], Training]] = {"rlcore": train_ours, "Stable-Baselines3": train_theirs}


def train_in_turns(env_steps: int, seeds: int) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """``{way: {contestant: its runs}}``, each in a process of its own."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {way: {name: [] for name in CONTESTANTS} for way in WAYS}
    for seed in range(seeds):
        for way in WAYS:
            for name in CONTESTANTS:
                one = ["--one", name, "--way", way, "--env-steps", str(env_steps), "--seed", str(seed)]
                done = subprocess.run(
                    [sys.executable, __file__, *one],
                    cwd=Path(__file__).parent,
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
                found[way][name].append(json.loads(done.stdout.splitlines()[-1]))
    return found


def report(found: dict[str, dict[str, list[dict[str, Any]]]]) -> Iterator[str]:
    """The table of DQN, in Markdown."""
    yield "\nDQN on CartPole-v1, an update of 64 for every four steps; SB3: Stable-Baselines3 with one environment\n"
    yield "| contestant | environments x steps | env steps/s | by CPU second | x SB3 | x SB3 by CPU time | time |"
    yield "|---|---|--:|--:|--:|--:|---|"
    keys, base = ("steps_per_s", "steps_per_cpu_s"), found["1 x 4"]["Stable-Baselines3"]
    for way, runs in found.items():
        for name, own in runs.items():
            speeds = [f"{statistics.median(run[key] for run in own):,.0f}" for key in keys]
            # Run by run, since the runs took turns.
            pairs = list(zip(own, base, strict=True))
            times = [f"{statistics.median(run[key] / other[key] for run, other in pairs):.2f}" for key in keys]
            seconds = sum(run["seconds"] for run in own)
            totals = {part: sum(run["parts"][part] for run in own) / seconds for part in own[0]["parts"]}
            spent = ", ".join(f"{part} {share:.0%}" for part, share in totals.items())
            yield " | ".join([f"| {name} {own[0]['version']}", way, *speeds, *times, spent + " |"])


# -- SAC


def sac_ours(rows: dict[str, np.ndarray]) -> Callable[[int], None]:
    """A function that makes so many updates."""
    import gymnasium

    from rlcore.batch import MultiAgentBatch, SampleBatch
    from rlcore.graph_spec import GraphSpec
    from rlcore.learner import Learner
    from rlcore_replay import ReplayBuffer
    from rlcore_torch import SAC

    env = gymnasium.make("Pendulum-v1")
    config = SAC.Config(model={"hidden": (256, 256)}, tau=0.005, learning_rate=3e-4)
    spec = GraphSpec(SAC, env.observation_space, env.action_space, config, np.random.SeedSequence(0))
    learner, buffer, rng = Learner({"default": spec}), ReplayBuffer(STORED), np.random.default_rng(0)
    own = {name: rows[name] for name in ("obs", "actions", "rewards", "terminated", "truncated")}
    cuts = {"start": np.arange(STORED), "length": np.ones(STORED, np.int64)}
    cuts |= {"last_obs": rows["next_obs"], "bootstrap": ~rows["terminated"]}
    buffer.add(SampleBatch(own, cuts))

    def update(times: int) -> None:
        for _ in range(times):
            learner.learn(learner.pin(MultiAgentBatch({"default": buffer.sample(SAC_BATCH, rng)}, 0)))

    return update


def sac_theirs(rows: dict[str, np.ndarray]) -> Callable[[int], None]:
    """The same by Stable-Baselines3."""
    from stable_baselines3 import SAC
    from stable_baselines3.common.logger import Logger

    algorithm = SAC("MlpPolicy", "Pendulum-v1", batch_size=SAC_BATCH, buffer_size=STORED, seed=0, device="cpu")
    algorithm.set_logger(Logger(None, []))
    for i in range(STORED):
        obs, after, action = (rows[name][i : i + 1] for name in ("obs", "next_obs", "actions"))
        algorithm.replay_buffer.add(obs, after, action, rows["rewards"][i : i + 1], rows["terminated"][i : i + 1], [{}])
    return lambda times: algorithm.train(times, SAC_BATCH)


def sac_in_turns(rounds: int) -> Iterator[str]:
    """The table of SAC, in Markdown."""
    import torch

    torch.set_num_threads(1)
    rng, nothing = np.random.default_rng(0), np.zeros(STORED, np.bool_)
    observations = rng.standard_normal((2, STORED, 3)).astype(np.float32)
    rows = {
        "obs": observations[0],
        "next_obs": observations[1],
        "actions": rng.uniform(-2.0, 2.0, (STORED, 1)).astype(np.float32),
        "rewards": rng.standard_normal(STORED).astype(np.float32),
        "terminated": nothing,
        "truncated": nothing,
    }
    contestants = {"Stable-Baselines3": sac_theirs(rows), "rlcore": sac_ours(rows)}
    clock: dict[str, list[float]] = {name: [] for name in contestants}
    cpu: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, update in contestants.items():
            watch = Stopwatch()
            update(100)
            if turn:  # the first makes recordings
                for spent, seconds in zip((clock, cpu), watch.read(), strict=True):
                    spent[name].append(seconds / 100)
    yield "\n| SAC, 256 x 256, minibatches of 256 | updates/s | per CPU second | x SB3 | x SB3 by CPU time |"
    yield "|---|--:|--:|--:|--:|"
    for name in contestants:
        speeds = [f"{1.0 / statistics.median(spent[name]):,.0f}" for spent in (clock, cpu)]
        pairs = [zip(spent["Stable-Baselines3"], spent[name], strict=True) for spent in (clock, cpu)]
        times = [f"{statistics.median(base / own for base, own in pair):.2f}" for pair in pairs]
        yield " | ".join([f"| {name}", *speeds, *times]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env-steps", type=int, default=30_000, help="of each run of DQN (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each contestant (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="turns of 100 updates of SAC (default: %(default)s)")
    parser.add_argument("--one", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        import torch

        torch.set_num_threads(1)
        print(json.dumps(TRAIN[options.one](options.way, options.env_steps, options.seed).row()))
        return
    if options.seeds:
        print("\n".join(report(train_in_turns(options.env_steps, options.seeds))), flush=True)
    if options.rounds:
        print("\n".join(sac_in_turns(options.rounds)))


if __name__ == "__main__":
    main()
