"""A receiver that keeps the one rule for endings, and notes each slot's transitions as a learner would see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore.columns import Columns, map_columns, take
from rlcore.env import DEFAULT_GROUP, BatchedEnv, StepBatch

Policy = Callable[[Columns, int], Columns]


@dataclass
class Played:
    """By slot: ``(obs, reward, terminated, truncated, next_obs)`` of every real transition, and finished returns."""

    transitions: list[list[tuple[Any, float, bool, bool, Any]]]
    returns: list[list[float]] = field(default_factory=list)
    polls: list[StepBatch] = field(default_factory=list)

    def column(self, index: int, slot: int = 0) -> list[Any]:
        """One of the five parts over time; observations of plain spaces of length 1 as numbers."""
        values = [transition[index] for transition in self.transitions[slot]]
        return [value.item() if isinstance(value, np.ndarray) and value.size == 1 else value for value in values]


def copied(step: StepBatch) -> StepBatch:
    return StepBatch(
        **{name: map_columns(np.array, getattr(step, name)) for name in StepBatch.__slots__}  # type: ignore[attr-defined]
    )


def first_action(space: Any) -> Policy:
    sample = take(_idle(space), 0)
    return lambda obs, count: map_columns(lambda one: np.repeat(np.asarray(one)[None], count, 0), sample)


def _idle(space: Any) -> Columns:
    from rlcore_gym.spaces import idle_actions

    return idle_actions(space, 1)


def play(env: BatchedEnv, steps: int, policy: Policy | None = None, seed: int | None = 0) -> Played:
    """``steps`` polls after the reset; ``seed=None`` goes on from where the environment is, as after ``set_state``."""
    if seed is not None:
        env.reset(seed)
    policy = policy or first_action(env.groups[DEFAULT_GROUP][1])
    played = Played([[] for _ in range(env.num_slots)], [[] for _ in range(env.num_slots)])
    running = np.zeros(env.num_slots)
    step = copied(env.poll(None)[DEFAULT_GROUP])
    played.polls.append(step)
    for _ in range(steps):
        rows = np.flatnonzero(step.needs_action)
        acted = take(step.obs, rows)
        if len(rows):
            env.send({DEFAULT_GROUP: (step.slot[rows], policy(acted, len(rows)))})
        before, moved = step, step.needs_action
        step = copied(env.poll(None)[DEFAULT_GROUP])
        played.polls.append(step)
        ended = step.terminated | step.truncated
        assert len(np.flatnonzero(ended)) == len(_leaf(step.final_obs))
        running += step.reward
        for slot in np.flatnonzero(moved):
            final = take(step.final_obs, int(ended[:slot].sum())) if ended[slot] else take(step.obs, slot)
            own = (float(step.reward[slot]), bool(step.terminated[slot]), bool(step.truncated[slot]))
            played.transitions[slot].append((take(before.obs, slot), *own, final))
            if ended[slot]:
                played.returns[slot].append(float(running[slot]))
                running[slot] = 0.0
        assert not step.reward[~moved].any()
        assert not ended[~moved].any()
        assert step.first[~moved].all()
        assert not step.first[moved & ~ended].any()
        assert np.array_equal(step.episode_over, ended)
    return played


def _leaf(columns: Columns) -> Any:
    return next(iter(columns.values())) if isinstance(columns, dict) else columns


def same_step(one: StepBatch, other: StepBatch) -> bool:
    """Whether two polls handed over the same, to the last bit."""
    return all(_same(getattr(one, name), getattr(other, name)) for name in StepBatch.__slots__)  # type: ignore[attr-defined]


def _same(one: Columns, other: Columns) -> bool:
    if isinstance(one, dict):
        return isinstance(other, dict) and all(_same(array, other[leaf]) for leaf, array in one.items())
    assert not isinstance(other, dict)
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


#: What importing ale_py registers; it does so once.
_ALE: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def _registry_as_it_was() -> Iterator[None]:
    """Whatever a test lets Gymnasium register is gone after it."""
    before = dict(gymnasium.registry)
    yield
    _ALE.update({key: spec for key, spec in gymnasium.registry.items() if "ale_py" in str(spec.entry_point)})
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


@pytest.fixture
def ale() -> None:
    """The games of ALE."""
    pytest.importorskip("ale_py")
    gymnasium.registry.update(_ALE)


@pytest.fixture(name="play")
def _play() -> Callable[..., Played]:
    return play


@pytest.fixture(name="same_step")
def _same_step() -> Callable[[StepBatch, StepBatch], bool]:
    return same_step
