"""Rollouts of a policy in a model of its environment, as transitions that it may learn from (Janner et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import (
    ACTIONS,
    AGENT_ID,
    BOOTSTRAP,
    ENV_STEP,
    EPS_ID,
    LAST_OBS,
    LENGTH,
    OBS,
    POLICY_VERSION,
    REWARDS,
    SLOT,
    START,
    TERMINATED,
    TRUNCATED,
    SampleBatch,
    T,
    concat,
)
from rlcore.columns import Columns, length, take, to_table
from rlcore.model import BatchedModel
from rlcore.policy_graph import Actor, PolicyGraph, State


def imagine(
    model: BatchedModel, policy: Actor | PolicyGraph, starts: Columns, steps: int, rng: np.random.Generator
) -> SampleBatch:
    """What ``policy`` meets in ``steps`` steps of ``model`` from the observations ``starts [n, ...]``: transitions, up
    to ``n * steps`` of them, one piece each; none after an end.

    Columns are those that samplers fill, and the extras of acting. Each rollout counts as an episode of its own, whose
    number is also its slot.
    """
    states, number = model.from_obs(starts), np.arange(length(starts))
    memory: State = policy.initial_state(len(number))
    parts: list[SampleBatch] = []
    for t in range(steps):
        obs = model.observe(states)
        acted = policy.act(obs, memory, explore=True, rng=rng)
        assert not isinstance(acted.actions, dict)
        states, rewards = model.step(states, acted.actions, rng)
        ended = model.terminal(states)
        rows = {**to_table(OBS, obs), ACTIONS: acted.actions, **acted.extras, REWARDS: rewards[:, 0]}
        parts.append(_transitions(rows, ended, model.observe(states), t, number))
        alive = np.flatnonzero(~ended)
        if not len(alive):
            break
        states, number = take(states, alive), number[alive]
        memory = tuple(part[alive] for part in acted.state)
    return concat(parts)


def _transitions(
    rows: Mapping[str, NDArray[Any]], ended: NDArray[np.bool_], after: Columns, t: int, number: NDArray[np.int64]
) -> SampleBatch:
    """Step ``t`` of the rollouts ``number``."""
    n = len(number)
    counted = {
        TERMINATED: np.asarray(ended, np.bool_),
        TRUNCATED: np.zeros(n, np.bool_),
        T: np.full(n, t, np.int32),
        ENV_STEP: np.full(n, t, np.int64),
    }
    cuts = {
        START: np.arange(n),
        LENGTH: np.ones(n, np.int64),
        SLOT: number,
        AGENT_ID: np.zeros(n, np.int64),
        EPS_ID: number,
        POLICY_VERSION: np.zeros(n, np.int64),
        BOOTSTRAP: ~ended,
        **to_table(LAST_OBS, after),
    }
    return SampleBatch({**rows, **counted}, cuts)


def with_columns_of(batch: SampleBatch, pattern: SampleBatch) -> SampleBatch:
    """``batch`` with the columns that ``pattern`` has too, in its dtypes."""

    def kept(own: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {name: np.asarray(own[name], other[name].dtype) for name in other if name in own}

    return SampleBatch(kept(batch.rows, pattern.rows), kept(batch.cuts, pattern.cuts))


def mixed(parts: Sequence[SampleBatch], size: int, minibatches: int) -> SampleBatch:
    """Transitions of several sources as so many minibatches of ``size`` rows, one behind the other; of each source
    every one has as many."""
    if len(parts) == 1:
        return parts[0]
    numbers, at = [], 0
    for part in parts:
        numbers.append(at + np.arange(len(part)).reshape(minibatches, -1))
        at += len(part)
    order = np.concatenate(numbers, axis=1).reshape(-1)
    assert len(order) == size * minibatches
    return concat(parts).take_pieces(order)
