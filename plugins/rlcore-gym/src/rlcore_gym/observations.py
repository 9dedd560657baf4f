"""Observations of many environments, checked and written once into preallocated columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, PackedColumns, column_name
from rlcore_gym.failures import Misfit
from rlcore_gym.spaces import can_cast, too_large


class ObservationRows:
    """Fills ``columns`` of ``[rows, ...]`` for ``space`` from what environments return.

    ``write`` takes one observation per row and makes a constant number of numpy calls for each leaf; ``write_row``
    takes a single one. Both raise ``Misfit`` for an observation of the wrong shape, with values of another kind (a
    fraction where integers belong) or too large for the space's type, or with keys that are missing or not of the
    space. The order of keys is free.
    """

    def __init__(self, space: gymnasium.Space[Any], columns: Columns) -> None:
        self.columns = columns
        self._writer = _writer(space, "", self.columns)

    def write(self, observations: Sequence[Any]) -> None:
        with np.errstate(over="raise"):
            self._writer.write(observations)

    def write_some(self, rows: NDArray[np.int64], observations: Sequence[Any]) -> None:
        """Those of some rows."""
        self._writer.write_some(rows, observations)

    def write_row(self, row: int, observation: Any) -> None:
        self._writer.write_row(row, observation)


def batched_columns(space: gymnasium.Space[Any], value: Any, rows: int) -> Columns:
    """A batch of ``rows`` observations, nested as ``space`` is, as flat columns. The arrays themselves if they fit.

    ``Misfit`` where they do not; its row says nothing.
    """
    columns: dict[str, NDArray[Any]] = {}
    _collect(space, value, rows, "", columns)
    return columns.get("", columns)


def _collect(space: gymnasium.Space[Any], value: Any, rows: int, leaf: str, columns: dict[str, NDArray[Any]]) -> None:
    match space:
        case gymnasium.spaces.Dict():
            _check_keys(_label(leaf), value, space.spaces.keys(), 0)
            for key, child in space.spaces.items():
                _collect(child, value[key], rows, column_name(leaf, str(key)), columns)
        case gymnasium.spaces.Tuple():
            _check_parts(_label(leaf), value, len(space.spaces), 0)
            for index, child in enumerate(space.spaces):
                _collect(child, value[index], rows, column_name(leaf, str(index)), columns)
        case _:
            assert space.dtype is not None
            array = _checked(_label(leaf), value, (rows, *(space.shape or ())), space.dtype, 0)
            columns[leaf] = array.astype(space.dtype, copy=False)


def _checked(label: str, value: Any, shape: tuple[int, ...], dtype: np.dtype[Any], row: int) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise Misfit(row, f"{label} is no array: {error}") from error
    if array.shape != shape:
        given = f"a {type(value).__name__}" if array.dtype.hasobject else f"of shape {array.shape}"
        raise Misfit(row, f"{label} is {given}, expected {shape}")
    if array.dtype == dtype:
        return array
    if not can_cast(array, dtype):
        raise Misfit(row, f"{label} holds {array.dtype} values, its space says {dtype}")
    if dtype.kind == array.dtype.kind == "f" and (lost := too_large(array, dtype)) is not None:
        raise Misfit(row, f"{label} holds {lost!r}, too large for {dtype}")
    return array


def _check_keys(label: str, value: Any, keys: Collection[Any], row: int) -> None:
    if not isinstance(value, Mapping):
        raise Misfit(row, f"{label} is a {type(value).__name__}, its space says a dict")
    missing = [key for key in keys if key not in value]
    extra = [key for key in value if key not in keys]
    if missing or extra:
        lacks = f"lacks {_listed(missing)}" if missing else ""
        has = f"has {_listed(extra)}, unknown to its space" if extra else ""
        raise Misfit(row, f"{label} {' and '.join(filter(None, (lacks, has)))}")


def _check_parts(label: str, value: Any, parts: int, row: int) -> None:
    if not isinstance(value, tuple | list):
        raise Misfit(row, f"{label} is a {type(value).__name__}, its space says a tuple")
    if len(value) != parts:
        raise Misfit(row, f"{label} has {len(value)} parts, its space says {parts}")


def _listed(keys: Sequence[Any]) -> str:
    return f"the key{'s' * (len(keys) > 1)} {', '.join(repr(str(key)) for key in keys)}"


def _label(leaf: str) -> str:
    return f"observation '{leaf}'" if leaf else "the observation"


class _Writer(ABC):
    """Writes one part of the space; ``write`` is the fast path, ``write_row`` says what is wrong."""

    def __init__(self, leaf: str) -> None:
        self.label = _label(leaf)

    def write(self, values: Sequence[Any]) -> None:
        # Whatever the fast path does not take, write_row judges value by value.
        if not self._write_all(values):
            for row, value in enumerate(values):
                self.write_row(row, value)

    def write_some(self, rows: NDArray[np.int64], values: Sequence[Any]) -> None:
        for row, value in zip(rows.tolist(), values, strict=True):
            self.write_row(row, value)

    @abstractmethod
    def _write_all(self, values: Sequence[Any]) -> bool: ...

    @abstractmethod
    def write_row(self, row: int, value: Any) -> None: ...


class _ArrayWriter(_Writer):
    def __init__(self, leaf: str, column: NDArray[Any]) -> None:
        super().__init__(leaf)
        self._column = column
        self._shape = column.shape[1:]
        self._rows = len(column)
        # Rows end to end: concatenating into this writes all of them in one call. Of part of a block there is none.
        whole = column.flags.c_contiguous
        joined = (self._rows * self._shape[0], *self._shape[1:]) if self._shape else column.shape
        self._end_to_end = column.reshape(joined) if whole else None

    def _write_all(self, values: Sequence[Any]) -> bool:
        if self._end_to_end is None:
            return False
        try:
            if not self._shape:
                return self._write_scalars(np.asarray(values))
            # The total length does not prove each one's: 3 and 5 are 4 and 4 together.
            if list(map(len, values)).count(self._shape[0]) != self._rows:
                return False
            np.concatenate(values, out=self._end_to_end, casting="same_kind")
        except (TypeError, ValueError, FloatingPointError):
            return False
        return True

    def write_some(self, rows: NDArray[np.int64], values: Sequence[Any]) -> None:
        try:
            array = np.array(values)
        except ValueError:
            array = np.zeros(0)
        # Of this very type, so that nothing is left to judge.
        if array.dtype == self._column.dtype and array.shape == (len(rows), *self._shape):
            self._column[rows] = array
        else:
            super().write_some(rows, values)

    def _write_scalars(self, array: NDArray[Any]) -> bool:
        if array.shape != (self._rows,) or not can_cast(array, self._column.dtype):
            return False
        self._column[...] = array
        return True

    def write_row(self, row: int, value: Any) -> None:
        array = _checked(self.label, value, self._shape, self._column.dtype, row)
        self._column[row] = array


class _DictWriter(_Writer):
    def __init__(self, leaf: str, children: Mapping[Any, _Writer], blocks: Sequence[_Block]) -> None:
        super().__init__(leaf)
        self._children = dict(children)
        self._blocks = list(blocks)
        packed = {key for block in blocks for key in block.keys}
        self._alone = {key: child for key, child in self._children.items() if key not in packed}

    def _write_all(self, values: Sequence[Any]) -> bool:
        try:
            if list(map(len, values)).count(len(self._children)) != len(values):
                return False
            columns = [[value[key] for value in values] for key in self._alone]
            if not all(block.write(values) for block in self._blocks):
                return False
        except (TypeError, KeyError, IndexError):
            return False
        for child, column in zip(self._alone.values(), columns, strict=True):
            child.write(column)
        return True

    def write_row(self, row: int, value: Any) -> None:
        _check_keys(self.label, value, self._children.keys(), row)
        for key, child in self._children.items():
            child.write_row(row, value[key])


class _Block:
    """Vectors that lie side by side, of all rows written in one call."""

    def __init__(self, keys: Sequence[Any], block: NDArray[Any], sizes: Sequence[int]) -> None:
        self.keys = list(keys)
        self._sizes = list(sizes) * len(block)
        self._end_to_end = block.reshape(-1)

    def write(self, values: Sequence[Any]) -> bool:
        keys = self.keys
        parts = [value[key] for value in values for key in keys]
        # The total length does not prove each one's.
        if list(map(len, parts)) != self._sizes:
            return False
        try:
            np.concatenate(parts, out=self._end_to_end, casting="same_kind")
        except (TypeError, ValueError, FloatingPointError):
            return False
        return True


class _TupleWriter(_Writer):
    def __init__(self, leaf: str, children: Sequence[_Writer]) -> None:
        super().__init__(leaf)
        self._children = list(children)

    def _write_all(self, values: Sequence[Any]) -> bool:
        try:
            if list(map(len, values)).count(len(self._children)) != len(values):
                return False
            columns = list(zip(*values, strict=True))
        except (TypeError, ValueError):
            return False
        for child, column in zip(self._children, columns, strict=True):
            child.write(column)
        return True

    def write_row(self, row: int, value: Any) -> None:
        _check_parts(self.label, value, len(self._children), row)
        for child, part in zip(self._children, value, strict=True):
            child.write_row(row, part)


def _writer(space: gymnasium.Space[Any], leaf: str, columns: Columns) -> _Writer:
    def child(key: Any, part: gymnasium.Space[Any]) -> _Writer:
        return _writer(part, column_name(leaf, str(key)), columns)

    match space:
        case gymnasium.spaces.Dict():
            blocks = _blocks(space, columns) if isinstance(columns, PackedColumns) and not leaf else []
            return _DictWriter(leaf, {key: child(key, part) for key, part in space.spaces.items()}, blocks)
        case gymnasium.spaces.Tuple():
            return _TupleWriter(leaf, [child(index, part) for index, part in enumerate(space.spaces)])
        case _:
            return _ArrayWriter(leaf, columns[leaf] if isinstance(columns, dict) else columns)


def _blocks(space: gymnasium.spaces.Dict, columns: PackedColumns) -> list[_Block]:
    """The writers of blocks in which the keys of ``space`` lie in order."""
    made = []
    for number, block in enumerate(columns.blocks):
        keys = [key for key in space.spaces if columns.places.get(str(key), (-1,))[0] == number]
        keys.sort(key=lambda key: columns.places[str(key)][1].start)
        made.append(_Block(keys, block, [columns[str(key)].shape[1] for key in keys]))
    return made
