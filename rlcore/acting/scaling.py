"""Which observations are images, and how they are brought to [0, 1] on the way into a network.

The rule: a leaf of the observation is an *image* where its space is a uint8 Box with the bounds 0 and 255 everywhere
and rank 3, or 4 where images are stacked. Images are divided by 255, once, in front of the network; the other leaves
are read as they are. A model's ``scale`` overrules this by leaf, ``obs`` standing for an observation of one part:
``true`` maps the bounds of a Box to [0, 1], ``false`` leaves it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.acting.refusals import shown
from rlcore.acting.unseen import is_unseen
from rlcore.columns import leaf_spaces
from rlcore.errors import ConfigError
from rlcore.policy_graph import Remark

#: A grid of bytes with sides of this length is taken for a frame in grey, for which a warning is due.
_FRAME = 36

#: What a model's ``scale`` calls the observation of a plain space.
WHOLE = "obs"


class Scale(NamedTuple):
    """``(x - low) / width``, float32 ``[*shape]`` or numbers that hold everywhere."""

    low: NDArray[np.float32]
    width: NDArray[np.float32]

    def apply(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Of ``x [n, *shape]``, which does not change."""
        # Division, not a product with the inverse: 255 / 255 is 1.
        return np.asarray((x - self.low if self.low.any() else x) / self.width, np.float32)


def is_image(space: gymnasium.Space[Any]) -> bool:
    """Whether observations of this leaf are images by the rule above."""
    return space.dtype == np.uint8 and _looks_like_one(space)


def _looks_like_one(space: gymnasium.Space[Any]) -> bool:
    return (
        isinstance(space, spaces.Box)
        and len(space.shape) in (3, 4)
        and bool((space.low == 0).all())
        and bool((space.high == 255).all())
    )


def _looks_like_a_grey_frame(space: gymnasium.Space[Any]) -> bool:
    return (
        isinstance(space, spaces.Box)
        and space.dtype == np.uint8
        and len(space.shape) == 2
        and min(space.shape) >= _FRAME
        and bool((space.high == 255).all())
    )


def scales(observation_space: gymnasium.Space[Any], scale: Mapping[str, bool]) -> dict[str, Scale]:
    """How each leaf that is scaled is scaled. ``ConfigError`` where ``scale`` asks for what cannot be done."""
    leaves = {leaf: space for leaf, space in leaf_spaces(observation_space).items() if not is_unseen(leaf)}
    unknown = sorted(set(scale) - {leaf or WHOLE for leaf in leaves})
    if unknown:
        known = ", ".join(leaf or WHOLE for leaf in leaves)
        raise ConfigError(f"model.scale: the observation has no part '{unknown[0]}'; its parts are: {known}")
    chosen = {leaf: space for leaf, space in leaves.items() if scale.get(leaf or WHOLE, is_image(space))}
    return {leaf: _scale(leaf, space) for leaf, space in chosen.items()}


def _scale(leaf: str, space: gymnasium.Space[Any]) -> Scale:
    if not isinstance(space, spaces.Box):
        raise ConfigError(f"model.scale: '{leaf or WHOLE}' is {shown(space)}; only a Box can be scaled")
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    width = high - low
    if not (np.isfinite(width) & (width > 0.0) & (width <= np.finfo(np.float32).max)).all():
        raise ConfigError(f"model.scale: the bounds of '{leaf or WHOLE}', {shown(space)}, cannot be mapped to [0, 1]")
    return Scale(_short(low), _short(width))


def _short(array: NDArray[np.float64]) -> NDArray[np.float32]:
    """As float32; one number, ``[]``, where all are equal."""
    short = np.asarray(array, np.float32)
    return short.reshape(-1)[:1].reshape(()) if short.size and (short == short.flat[0]).all() else short


def remarks_on(observation_space: gymnasium.Space[Any], scale: Mapping[str, bool]) -> list[Remark]:
    """What is assumed of images, to be said once; warnings for float images in [0, 255] and frames in grey.

    Nobody scales these.
    """
    remarks = []
    for leaf, space in leaf_spaces(observation_space).items():
        name = leaf or WHOLE
        if is_unseen(leaf) or name in scale:
            continue
        if is_image(space):
            remarks.append(
                Remark(
                    f"observation '{name}', uint8 in [0, 255] of shape {space.shape}, is taken for an image and "
                    f"divided by 255; model.scale.{name}: false keeps it as it is"
                )
            )
        elif _looks_like_one(space) and np.issubdtype(space.dtype, np.floating):
            remarks.append(
                Remark(
                    f"observation '{name}' of shape {space.shape} looks like an image, but is {space.dtype} in "
                    f"[0, 255] and is not scaled; model.scale.{name}: true maps it to [0, 1], false says that it is "
                    "meant so",
                    warns=True,
                )
            )
        elif _looks_like_a_grey_frame(space):
            remarks.append(
                Remark(
                    f"observation '{name}' of shape {space.shape} looks like a frame in grey, but without an axis for "
                    "channels it is no image: no encoder reads it, and it is not scaled; stack frames (env_settings."
                    f"frame_stack, one will do), or say model.scale.{name}: false if it is meant so",
                    warns=True,
                )
            )
    return remarks
