"""Copies as another process would receive them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from rlcore.batch import MultiAgentBatch, SampleBatch
from rlcore.evaluator_messages import Update
from rlcore.policy_graph import Progress
from rlcore.runtime.snapshot import sized_snapshot, snapshot


@pytest.mark.parametrize("view", [np.s_[:, ::2], np.s_[::-1], np.s_[:, :1]], ids=str)
def test_views_cross_read_only_too(view: Any) -> None:
    array = np.arange(12).reshape(3, 4)[view]
    copied = snapshot({"a": [array]})["a"][0]
    assert copied.tolist() == array.tolist()
    assert not copied.flags.writeable


def test_batches_cross_whole() -> None:
    batch = SampleBatch({"obs": np.arange(6).reshape(3, 2)}, {"start": np.array([0]), "length": np.array([3])})
    copied = snapshot(batch)
    assert copied["obs"].tolist() == batch["obs"].tolist()
    assert not copied["obs"].flags.writeable


class Pair(NamedTuple):
    one: Any
    two: Any


@dataclass(frozen=True)
class Record:
    array: Any
    more: dict[str, Any]


@dataclass
class Slow:
    """Pickled in a way of its own."""

    number: int

    def __reduce__(self) -> tuple[Any, ...]:
        return Slow, (self.number + 1,)


class Ints(list):  # type: ignore[type-arg]
    """A list of another type."""


BATCH = SampleBatch({"obs": np.arange(6).reshape(3, 2)}, {"start": np.array([0]), "length": np.array([3])})

TREES = {
    "numbers": {"a": [1, 2.5, True, None, "text", b"bytes", 3 + 1j], 7: (np.float32(2.5), np.int64(3), np.bool_(True))},
    "arrays": [np.arange(3), np.zeros((0, 4)), np.array(5.0), np.array(["ab", "c"]), np.asfortranarray(np.eye(3))],
    "records": Pair(Record(np.arange(3), {"x": np.ones(2)}), (Pair(1, [2]), Slow(1))),
    "batches": {"one": BATCH, "many": MultiAgentBatch({"a": BATCH}, 5)},
    "agents": MultiAgentBatch({"a": BATCH}, 5, {"x": ("a", BATCH)}),
    "objects": [np.array([{"a": 1}, None], object), Ints([1, 2])],
    "messages": Update({"a": {"w": np.ones(2)}}, 3, {"a": Progress(1, 2, 3, {"loss": 0.5})}, {}),
}


def described(value: Any) -> Any:
    """All of a tree that matters, to be compared with ``==``."""
    if isinstance(value, np.ndarray | np.generic):
        order = (value.flags.c_contiguous, value.flags.f_contiguous, value.flags.writeable)
        return type(value), value.dtype, value.shape, value.tolist(), order if isinstance(value, np.ndarray) else ()
    if isinstance(value, dict):
        return type(value), [(key, described(part)) for key, part in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [described(part) for part in value]
    if isinstance(value, SampleBatch):
        return described(value.rows), described(value.cuts)
    if isinstance(value, MultiAgentBatch):
        agents = None if value.agents is None else dict(value.agents)
        return described(dict(value)), value.env_steps, described(agents)
    return (type(value), described(vars(value))) if hasattr(value, "__dict__") else (type(value), value)


@pytest.mark.parametrize("name", TREES)
def test_what_is_copied_without_pickling_is_as_if_it_had_been(name: str) -> None:
    assert described(snapshot(TREES[name])) == described(sized_snapshot(TREES[name])[0])


def test_nothing_of_a_copy_is_shared_but_what_was() -> None:
    array = np.arange(3)
    copied = snapshot({"a": array, "b": [array]})
    assert copied["a"] is copied["b"][0]
    array[0] = 9
    assert copied["a"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        copied["a"][0] = 1


def test_what_cannot_be_sent_elsewhere_is_not_copied() -> None:
    @dataclass
    class Local:
        number: int = 1

    endless: list[Any] = []
    endless.append(endless)
    assert snapshot(endless)[0] is not endless
    for value in (Local(), lambda: None, {"a": [Local()]}):
        with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
            snapshot(value)
