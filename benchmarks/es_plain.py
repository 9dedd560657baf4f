"""An evolution strategy's episodes as a plain loop has them: a torch module acts on one observation at a time."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from rlcore_es.layout import Layout
from rlcore_es.noise import noise_table


class Work(NamedTuple):
    """Members to play, one episode each: the weights ``centre`` plus ``signs[i]`` times the noise at ``indexes[i]``."""

    env: str
    layout: Layout
    centre: NDArray[np.float64]
    #: Size and seed of the table of noise.
    table: tuple[int, int]
    noise_std: float
    indexes: Sequence[int]
    signs: Sequence[float]


class Spent(NamedTuple):
    """Seconds by the clock and of the processor's time."""

    wall: float
    processor: float


def play_all(work: Work) -> Spent:
    """Plays all members, one after the other, in one environment."""
    torch.set_num_threads(1)
    table, env = noise(*work.table), made(work.env)
    wall, processor = time.perf_counter(), time.process_time()
    for index, sign in zip(work.indexes, work.signs, strict=True):
        moved = work.centre + sign * work.noise_std * table[index : index + len(work.centre)]
        play(env, module(work.layout.weights(moved)))
    return Spent(time.perf_counter() - wall, time.process_time() - processor)


@functools.cache
def noise(size: int, seed: int) -> NDArray[np.float32]:
    return noise_table(size, seed)


@functools.cache
def made(env: str) -> Any:
    return gymnasium.make(env)


def module(weights: dict[str, Any]) -> torch.nn.Sequential:
    """The policy's network with these weights."""
    layers: list[torch.nn.Module] = []
    names = sorted({name.rpartition(".")[0] for name in weights}, key=lambda name: (name.endswith("out"), name))
    for name in names:
        weight, bias = (torch.from_numpy(weights[f"{name}.{kind}"]) for kind in ("weight", "bias"))
        layer = torch.nn.utils.skip_init(torch.nn.Linear, *weight.shape)
        layer.weight, layer.bias = torch.nn.Parameter(weight.T.contiguous()), torch.nn.Parameter(bias)
        layers += [layer, torch.nn.Tanh()]
    return torch.nn.Sequential(*layers[:-1])


@torch.no_grad()
def play(env: Any, policy: torch.nn.Module) -> float:
    """The return of one episode."""
    obs, _ = env.reset()
    discrete = isinstance(env.action_space, gymnasium.spaces.Discrete)
    total, over = 0.0, False
    while not over:
        chosen = policy(torch.from_numpy(obs))
        # Environments with continuous actions clip them themselves.
        obs, reward, terminated, truncated, _ = env.step(int(chosen.argmax()) if discrete else chosen.numpy())
        total += float(reward)
        over = terminated or truncated
    return total
