"""Gymnasium spaces as plain JSON and back, so that a checkpoint can act without its environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.errors import CheckpointError, SpaceError

Space = gymnasium.Space[Any]


def space_to_json(space: Space) -> dict[str, Any]:
    """``{"type": "Box", ...}``; bounds that are all equal are one number. ``SpaceError`` for a space of another type.

    Subclasses of Gymnasium's own spaces count as another type: what they add would be lost.
    """
    encode = _ENCODERS.get(type(space))
    if encode is None:
        raise SpaceError(f"{type(space).__name__} spaces cannot be written down: {space}")
    return {"type": type(space).__name__, **encode(space)}


def space_from_json(tree: Mapping[str, Any]) -> Space:
    """The space that :func:`space_to_json` wrote. ``CheckpointError`` where ``tree`` is nothing that it writes."""
    try:
        return _DECODERS[tree["type"]](tree)
    except (KeyError, TypeError, ValueError, AssertionError) as error:
        raise CheckpointError(f"no space can be made of {tree!r}: {error!r}") from error


def _box(space: spaces.Box) -> dict[str, Any]:
    dtype = np.dtype(space.dtype).name
    return {"low": _bounds(space.low), "high": _bounds(space.high), "shape": list(space.shape), "dtype": dtype}


def _bounds(array: NDArray[Any]) -> Any:
    """One number where all are equal, else nested lists; infinities are the texts ``inf`` and ``-inf``."""
    if array.size and (array == array.flat[0]).all():
        return _number(array.flat[0].item())
    return _map_lists(_number, array.tolist())


def _number(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def _map_lists(function: Callable[[Any], Any], tree: Any) -> Any:
    return [_map_lists(function, part) for part in tree] if isinstance(tree, list) else function(tree)


def _read_box(tree: Mapping[str, Any]) -> Space:
    dtype, shape = np.dtype(tree["dtype"]), tuple(tree["shape"])
    # The dtype at once: large integers would pass through floats otherwise.
    low, high = (np.asarray(_map_lists(_read_number, tree[key]), dtype) for key in ("low", "high"))
    return spaces.Box(np.broadcast_to(low, shape), np.broadcast_to(high, shape), shape, dtype.type)


def _read_number(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value


def _discrete(space: spaces.Discrete) -> dict[str, Any]:
    return {"n": int(space.n), "start": int(space.start), "dtype": np.dtype(space.dtype).name}


def _read_discrete(tree: Mapping[str, Any]) -> Space:
    return spaces.Discrete(tree["n"], start=tree["start"], dtype=np.dtype(tree["dtype"]).type)


def _multi_discrete(space: spaces.MultiDiscrete) -> dict[str, Any]:
    return {"nvec": space.nvec.tolist(), "start": space.start.tolist(), "dtype": np.dtype(space.dtype).name}


def _read_multi_discrete(tree: Mapping[str, Any]) -> Space:
    dtype = np.dtype(tree["dtype"])
    nvec, start = np.asarray(tree["nvec"], dtype), np.asarray(tree["start"], dtype)
    return spaces.MultiDiscrete(nvec, dtype=dtype.type, start=start)


def _multi_binary(space: spaces.MultiBinary) -> dict[str, Any]:
    return {"n": list(space.shape) if isinstance(space.n, tuple) else int(space.n)}


def _read_multi_binary(tree: Mapping[str, Any]) -> Space:
    return spaces.MultiBinary(tree["n"])


def _dict(space: spaces.Dict) -> dict[str, Any]:
    return {"spaces": [[key, space_to_json(child)] for key, child in space.spaces.items()]}


def _read_dict(tree: Mapping[str, Any]) -> Space:
    return spaces.Dict([(key, space_from_json(child)) for key, child in tree["spaces"]])


def _tuple(space: Any) -> dict[str, Any]:
    return {"spaces": [space_to_json(child) for child in space.spaces]}


def _read_tuple(tree: Mapping[str, Any]) -> Space:
    return spaces.Tuple([space_from_json(child) for child in tree["spaces"]])


_ENCODERS: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    spaces.Box: _box,
    spaces.Discrete: _discrete,
    spaces.MultiDiscrete: _multi_discrete,
    spaces.MultiBinary: _multi_binary,
    spaces.Dict: _dict,
    spaces.Tuple: _tuple,
}
_DECODERS: Mapping[str, Callable[[Mapping[str, Any]], Space]] = {
    "Box": _read_box,
    "Discrete": _read_discrete,
    "MultiDiscrete": _read_multi_discrete,
    "MultiBinary": _read_multi_binary,
    "Dict": _read_dict,
    "Tuple": _read_tuple,
}
