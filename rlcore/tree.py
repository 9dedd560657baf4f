"""State trees as a JSON document plus named arrays, and back. Nothing in either form is ever executed.

A state tree is what every ``get_state`` gives: dicts, lists, tuples, numpy arrays and scalars, ints of any size,
floats, strings, bools and None. In the document an array is a reference into the table of arrays; all that JSON cannot
say by itself is an object with one key that begins with ``$``:

============ =============================================================================
``$array``   name of the array; ``dtype`` and ``shape`` where it is stored as its bytes;
             ``scalar`` true where it was a numpy scalar
``$int``     an integer beyond 53 bits, in hexadecimal (bit generators have 128 bits)
``$float``   ``nan``, ``inf`` or ``-inf``
``$tuple``   a list of the tuple's items
``$dict``    a list of ``[key, value]`` pairs, where a key is an integer or begins with ``$``
============ =============================================================================
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.errors import CheckpointError

#: The types that the array file stores as they are; all others are stored as their bytes.
PLAIN_DTYPES = frozenset(map(np.dtype, ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8"]))
_EXACT_IN_JSON = 2**53


def flatten(tree: Any) -> tuple[Any, dict[str, NDArray[Any]]]:
    """``tree`` as a JSON document and ``{name: C-contiguous array}``; equal arrays, as weights often are, stand once.

    Raises ``CheckpointError`` with the place in the tree for a value of any other type, and for arrays of objects.
    """
    arrays = _Table()
    return _encode(tree, "", arrays), arrays.named


class _Table:
    """The arrays of a tree by name."""

    def __init__(self) -> None:
        self.named: dict[str, NDArray[Any]] = {}
        self._alike: dict[tuple[str, tuple[int, ...], int], list[str]] = {}

    def add(self, array: NDArray[Any], wanted: str) -> str:
        """The name of a C-contiguous array: that of an equal one, byte by byte, where there is one already."""
        content = array.reshape(-1).view(np.uint8)
        alike = self._alike.setdefault((array.dtype.str, array.shape, zlib.crc32(content.data)), [])
        for name in alike:
            if np.array_equal(self.named[name].reshape(-1).view(np.uint8), content):
                return name
        name = _unused_name(wanted, self.named)
        self.named[name] = array
        alike.append(name)
        return name


def unflatten(document: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """The inverse of :func:`flatten`. Raises ``CheckpointError`` where the document does not fit the arrays."""
    return _decode(document, dict(arrays), set())


def names_of_arrays(document: Any) -> Iterator[str]:
    """The arrays that a document refers to."""
    if isinstance(document, list):
        for item in document:
            yield from names_of_arrays(item)
    elif isinstance(document, dict):
        if isinstance(document.get("$array"), str):
            yield document["$array"]
        for item in document.values():
            yield from names_of_arrays(item)


def copy_tree(tree: Any) -> Any:
    """``tree`` with every dict, list, tuple and array copied. Several times as fast as pickling it."""
    if type(tree) is dict:
        return {key: copy_tree(part) for key, part in tree.items()}
    if isinstance(tree, np.ndarray):
        return tree.copy()
    if type(tree) in (list, tuple):
        return type(tree)([copy_tree(part) for part in tree])
    return tree


def _encode(value: Any, path: str, arrays: _Table) -> Any:
    # numpy scalars come first: np.float64 is a float, np.str_ a str.
    if isinstance(value, np.ndarray | np.generic):
        return _encode_array(value, path, arrays)
    if value is None or isinstance(value, bool):
        return value
    if type(value) is str:
        return value
    if type(value) is int:
        return value if abs(value) <= _EXACT_IN_JSON else {"$int": hex(value)}
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, dict):
        return _encode_dict(value, path, arrays)
    if type(value) in (list, tuple):
        items = [_encode(item, f"{path}/{index}", arrays) for index, item in enumerate(value)]
        return items if type(value) is list else {"$tuple": items}
    raise CheckpointError(
        f"'{path or '/'}' is a {type(value).__module__}.{type(value).__qualname__}; a checkpoint holds dicts, lists, "
        "tuples, arrays, numbers, strings, bools and None"
    )


def _encode_dict(value: dict[Any, Any], path: str, arrays: _Table) -> dict[str, Any]:
    for key in value:
        if type(key) not in (str, int):
            raise CheckpointError(f"'{path or '/'}' has the key {key!r}; keys in a checkpoint are strings or integers")
    items = [(key, _encode(item, f"{path}/{key}", arrays)) for key, item in value.items()]
    if all(type(key) is str and not key.startswith("$") for key in value):
        return dict(items)
    return {"$dict": [[_encode(key, path, arrays), item] for key, item in items]}


def _encode_array(value: NDArray[Any] | np.generic, path: str, arrays: _Table) -> dict[str, Any]:
    dtype = value.dtype
    if isinstance(value, np.ma.MaskedArray) or dtype.hasobject or not _known_by_its_name(dtype):
        raise CheckpointError(
            f"'{path or '/'}' is an array of type {dtype!r}; a checkpoint holds arrays of numbers, bools, fixed-width "
            "strings and dates"
        )
    # ascontiguousarray would make one dimension of none.
    array = np.asarray(value, order="C")
    plain = dtype in PLAIN_DTYPES
    stored = array if plain else np.frombuffer(array.tobytes(), np.uint8)
    reference: dict[str, Any] = {"$array": arrays.add(stored, path.lstrip("/"))}
    if not plain:
        reference |= {"dtype": dtype.str, "shape": list(array.shape)}
    if isinstance(value, np.generic):
        reference["scalar"] = True
    return reference


def _known_by_its_name(dtype: np.dtype[Any]) -> bool:
    """Whether ``dtype.str`` says all about it: not so for structured types and those of other libraries."""
    try:
        return np.dtype(dtype.str) == dtype
    except TypeError:
        return False


def _unused_name(wanted: str, arrays: Mapping[str, object]) -> str:
    """``wanted`` in characters that the array file takes, numbered where it is taken."""
    wanted = wanted.encode("utf-8", "backslashreplace").decode("utf-8") or "array"
    name, number = wanted, 1
    while name in arrays or name == "__metadata__":
        number += 1
        name = f"{wanted}#{number}"
    return name


def _decode(document: Any, arrays: Mapping[str, NDArray[Any]], given: set[str]) -> Any:
    """``given`` are the arrays that the tree has already: it gets no array twice."""
    if isinstance(document, list):
        return [_decode(item, arrays, given) for item in document]
    if not isinstance(document, dict):
        return document
    marks = [key for key in document if key.startswith("$")]
    if not marks:
        return {key: _decode(item, arrays, given) for key, item in document.items()}
    content = document[marks[0]]
    match marks:
        case ["$array"] if isinstance(content, str):
            return _decode_array(content, document, arrays, given)
        case ["$int"] if isinstance(content, str):
            return _parsed(lambda: int(content, 16), content)
        case ["$float"] if content in ("nan", "inf", "-inf"):
            return float(content)
        case ["$tuple"] if isinstance(content, list):
            return tuple(_decode(item, arrays, given) for item in content)
        case ["$dict"] if isinstance(content, list) and all(isinstance(p, list) and len(p) == 2 for p in content):
            pairs = [(_decode(key, arrays, given), _decode(item, arrays, given)) for key, item in content]
            if all(type(key) in (str, int) for key, _ in pairs):
                return dict(pairs)
    raise CheckpointError(f"the state has an entry that this version does not know: {', '.join(marks)}")


def _decode_array(name: str, reference: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], given: set[str]) -> Any:
    if name not in arrays:
        raise CheckpointError(f"the state refers to an array '{name}' that is not there")
    array = arrays[name]
    if "dtype" in reference:
        stored = array
        array = _parsed(lambda: _from_bytes(stored, reference["dtype"], reference["shape"]), name)
    if not array.flags.writeable or name in given:
        array = array.copy()
    given.add(name)
    return array[()] if reference.get("scalar") is True else array


def _from_bytes(stored: NDArray[Any], dtype_name: Any, shape: Any) -> NDArray[Any]:
    if not isinstance(dtype_name, str):
        raise TypeError(f"{dtype_name!r} is no type")
    dtype = np.dtype(dtype_name)
    if dtype.hasobject or stored.dtype != np.uint8:
        raise TypeError(f"{dtype} cannot be stored as bytes")
    if stored.nbytes != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{stored.nbytes} bytes are no array of shape {shape} and type {dtype}")
    return np.ndarray(tuple(shape), dtype, stored.tobytes()).copy()


def _parsed(parse: Callable[[], Any], what: str) -> Any:
    try:
        return parse()
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise CheckpointError(f"the state holds '{what}', which cannot be read: {error}") from error
