"""What simulators hand over, checked before it becomes rows: shapes, kinds of numbers, and that rewards are finite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns
from rlcore.errors import BadValueError, EnvError, UserError

Given = TypeVar("Given")


def called(name: str, call: str, function: Callable[[], Given]) -> Given:
    """What ``function`` of a simulator gives; what it raises as an ``EnvError`` that names the environment."""
    try:
        return function()
    except UserError:
        raise
    except Exception as error:
        raise EnvError(f"{name}: {call} raised {type(error).__name__}: {error}") from error


def stepped(name: str, function: Callable[[], Any]) -> tuple[Any, Any, Any]:
    """What ``step`` of a simulator gives: state, rewards, and who terminated."""
    outcome = called(name, "step()", function)
    if not isinstance(outcome, tuple) or len(outcome) != 3:
        raise BadValueError(f"{name}: step() returned a {type(outcome).__name__}, not an Outcome of three parts")
    state, rewards, terminated = outcome
    return state, rewards, terminated


class ValueCheck:
    """Checks for one environment, at the cost of a few numpy calls a step whatever the number of rows.

    All raise ``BadValueError``, which names the environment. That observations are finite and in their space is checked
    where they are sampled, for all environments alike.
    """

    def __init__(self, name: str, leaves: Mapping[str, gymnasium.Space[Any]]) -> None:
        """``leaves`` are the spaces of an observation by dotted name, ``""`` for a plain one."""
        self._name = name
        self._leaves = {leaf: (tuple(space.shape or ()), np.dtype(space.dtype)) for leaf, space in leaves.items()}

    def observations(self, obs: Any, rows: int) -> Columns:
        """``obs [rows, ...]`` in the types of its space."""
        if not isinstance(obs, dict):
            self._check_keys({""})
            return self._array("", obs, rows)
        self._check_keys(obs.keys())
        return {leaf: self._array(leaf, array, rows) for leaf, array in obs.items()}

    def _check_keys(self, keys: Any) -> None:
        if keys == self._leaves.keys():
            return
        have, expected = (", ".join(sorted(map(repr, own))) for own in (keys, self._leaves))
        raise BadValueError(f"{self._name}: the observation has the parts {have}, its space has {expected}")

    def _array(self, leaf: str, value: Any, rows: int) -> Array:
        shape, dtype = self._leaves[leaf]
        array, what = np.asarray(value), f"observation '{leaf}'" if leaf else "the observation"
        if array.shape != (rows, *shape):
            raise BadValueError(f"{self._name}: {what} is of shape {array.shape}, expected {(rows, *shape)}")
        if array.dtype == dtype:
            return array
        if not _fits(array, dtype):
            raise BadValueError(f"{self._name}: {what} holds {array.dtype} values, its space says {dtype}")
        return array.astype(dtype)

    def rewards(
        self, rewards: Any, shape: tuple[int, ...], slots: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """``rewards`` of ``shape``, its first axis that of ``slots`` at ``steps`` of their episodes: finite float32."""
        array = np.asarray(rewards)
        if array.shape != shape:
            raise BadValueError(f"{self._name}: the rewards are of shape {array.shape}, expected {shape}")
        if array.dtype.kind not in "biuf":
            raise BadValueError(f"{self._name}: the rewards hold {array.dtype} values, and are numbers")
        with np.errstate(over="ignore"):
            given = array.astype(np.float32)
        finite = np.isfinite(given)
        if not finite.all():
            place = tuple(np.argwhere(~finite)[0])
            excess = ", too large for float32" if np.isfinite(array[place]) else ""
            where = f"slot {slots[place[0]]}, step {steps[place[0]]} of its episode"
            raise BadValueError(f"{self._name}, {where}: the reward is not finite: {array[place]}{excess}")
        return given

    def flags(self, flags: Any, rows: int, what: str) -> NDArray[np.bool_]:
        """``flags [rows]`` as bool; ``what`` they are is for the message."""
        array = np.asarray(flags)
        if array.shape != (rows,) or array.dtype.kind not in "biu":
            raise BadValueError(
                f"{self._name}: {what} is {array.dtype} of shape {array.shape}, expected bool of shape {(rows,)}"
            )
        return array.astype(np.bool_, copy=False)


def _fits(array: Array, dtype: np.dtype[Any]) -> bool:
    """Whether ``array`` may be stored as ``dtype``: of its kind, or integers that fit; nothing becomes infinite."""
    if np.can_cast(array.dtype, dtype, "same_kind"):
        if dtype.kind != "f":
            return True
        with np.errstate(over="ignore"):
            return bool((np.isfinite(array.astype(dtype)) == np.isfinite(array)).all())
    if array.dtype.kind not in "iu" or dtype.kind not in "iu":
        return False
    bounds = np.iinfo(dtype)
    return not array.size or (int(array.min()) >= bounds.min and int(array.max()) <= bounds.max)
