"""What rlcore adds to environments: bookkeeping of nested observations, and Atari beside its libraries' own loops.

    python benchmarks/env_overhead.py

Contestants take turns; the ratios are medians over the turns. The goals: recording Dict observations of ten keys costs
at most twice what a single Box of the same bytes costs; Pong without a policy runs at 0.9 of the speed of Gymnasium's
and ALE's own vector environments, at the least.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np

from rlcore.env import DEFAULT_GROUP, BatchedEnv
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import ActOutput, Progress
from rlcore.sampling.collect import Fragment
from rlcore_gym import GymProvider

KEYS, NUMBERS, COPIES, STEPS = 10, 8, 16, 200
MOST_FOR_KEYS, LEAST_FOR_PONG = 2.0, 0.9
#: Plays on for ever; each ``next`` takes ``STEPS`` steps of all copies.
Play = Iterator[None]


class Still(gymnasium.Env[Any, Any]):
    """Returns the same arrays again and again, so that next to nothing of a step is its own."""

    def __init__(self, nested: bool) -> None:
        box = gymnasium.spaces.Box(-1, 1, (NUMBERS,), np.float32)
        one = gymnasium.spaces.Box(-1, 1, (KEYS * NUMBERS,), np.float32)
        names = [f"part {i}" for i in range(KEYS)]
        self.observation_space = gymnasium.spaces.Dict({name: box for name in names}) if nested else one
        self.action_space = gymnasium.spaces.Discrete(2)
        self.obs: Any = self.observation_space.sample()
        self.result = (self.obs, 1.0, False, False, {})

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.obs, {}

    def step(self, action: Any) -> Any:
        return self.result


class Idle:
    """An actor that looks at nothing."""

    lookahead = 0
    postprocess = None

    def initial_state(self, n: int) -> tuple[()]:
        return ()

    def act(self, obs: Any, state: Any = (), *, rows: Any = None, explore: bool = True, rng: Any) -> ActOutput:
        return ActOutput(np.zeros(len(rows.slot), np.int64), (), {})

    def on_progress(self, progress: Progress) -> None: ...


def recorded(env: Any, copies: int, settings: dict[str, Any]) -> Play:
    """Sampled into batches."""
    policies: Any = {"default": Idle()}
    evaluator = PolicyEvaluator(
        env=env, env_settings=settings, policies=policies, num_envs=copies, collect=Fragment(STEPS), rng=0
    )
    while True:
        evaluator.sample()
        yield


def bare(nested: bool) -> Play:
    """A plain loop over the same environments."""
    envs = [Still(nested) for _ in range(COPIES)]
    action = np.int64(0)
    while True:
        for _ in range(STEPS):
            for env in envs:
                env.step(action)
        yield


def driven(env: BatchedEnv, actions: np.ndarray[Any, Any]) -> Play:
    """Polled and answered; nothing is kept."""
    env.reset(0)
    step = env.poll(None)[DEFAULT_GROUP]
    while True:
        for time_ in range(STEPS):
            env.send({DEFAULT_GROUP: (step.slot, actions[time_])})
            step = env.poll(None)[DEFAULT_GROUP]
        yield


def vector(env: Any, actions: np.ndarray[Any, Any]) -> Play:
    """A vector environment of the library in a loop."""
    env.reset(seed=0)
    while True:
        for time_ in range(STEPS):
            env.step(actions[time_])
        yield


def take_turns(plays: dict[str, Callable[[], Play]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each contestant for ``STEPS`` steps of all copies, turn by turn."""
    running = {name: make() for name, make in plays.items()}
    for play in running.values():
        next(play)
    seconds: dict[str, list[float]] = {name: [] for name in plays}
    for _ in range(rounds):
        for name, play in running.items():
            started = time.perf_counter()
            next(play)
            seconds[name].append(time.perf_counter() - started)
    return seconds


def keys(rounds: int) -> None:
    found = take_turns(
        {
            "box": lambda: recorded(Still, COPIES, {"nested": False}),
            "box, bare": lambda: bare(False),
            "dict": lambda: recorded(Still, COPIES, {"nested": True}),
            "dict, bare": lambda: bare(True),
        },
        rounds,
    )
    own = {
        kind: [with_us - alone for with_us, alone in zip(found[kind], found[f"{kind}, bare"], strict=True)]
        for kind in ("box", "dict")
    }
    ratio = statistics.median(nested / single for nested, single in zip(own["dict"], own["box"], strict=True))
    for kind, seconds in own.items():
        each = statistics.median(seconds) / STEPS * 1e6
        print(f"bookkeeping of a {kind:4}: {each:6.1f} us a step of {COPIES} copies")
    print(f"ten keys to one Box of {KEYS * NUMBERS} numbers: {ratio:.2f} (goal: at most {MOST_FOR_KEYS})\n")


def pong(copies: int, rounds: int) -> None:
    import ale_py
    from ale_py.vector_env import AtariVectorEnv

    gymnasium.register_envs(ale_py)
    actions = np.random.default_rng(0).integers(0, 6, (STEPS, copies))
    settings = {"atari": True, "frame_stack": 4}

    def one() -> Any:
        env = gymnasium.wrappers.AtariPreprocessing(gymnasium.make("ALE/Pong-v5", frameskip=1))
        return gymnasium.wrappers.FrameStackObservation(env, 4)

    def made(**more: Any) -> BatchedEnv:
        return GymProvider().make("ALE/Pong-v5", copies, {**settings, **more})

    found = take_turns(
        {
            "Gymnasium, SyncVectorEnv": lambda: vector(gymnasium.vector.SyncVectorEnv([one] * copies), actions),
            "rlcore, driven": lambda: driven(made(), actions),
            "rlcore, recorded": lambda: recorded("ALE/Pong-v5", copies, settings),
            "ALE, AtariVectorEnv": lambda: vector(AtariVectorEnv("pong", copies, num_threads=1), actions),
            "rlcore, native": lambda: driven(made(vectorization="native", workers=1), actions),
        },
        rounds,
    )
    pairs = {
        "rlcore, driven": "Gymnasium, SyncVectorEnv",
        "rlcore, recorded": "Gymnasium, SyncVectorEnv",
        "rlcore, native": "ALE, AtariVectorEnv",
    }
    print(f"Pong, {copies} copies, one core:")
    for name, seconds in found.items():
        rate = f"{copies * STEPS / statistics.median(seconds):6.0f} decisions/s"
        base = pairs.get(name)
        ratio = statistics.median(b / own for b, own in zip(found[base], seconds, strict=True)) if base else None
        print(f"  {name:26} {rate}" + (f"  {ratio:.2f} of {base} (goal: {LEAST_FOR_PONG})" if ratio else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="turns (default: %(default)s)")
    parser.add_argument("--games", type=int, default=4, help="copies of Pong (default: %(default)s)")
    options = parser.parse_args()
    keys(options.rounds)
    if importlib.util.find_spec("ale_py") is None or importlib.util.find_spec("cv2") is None:
        print("Pong is left out: it needs rlcore-gym[atari]")
    else:
        pong(options.games, max(options.rounds // 3, 3))


if __name__ == "__main__":
    main()
