"""Frames as RGB arrays, whatever form an environment gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.wrappers import AtariPreprocessing

from rlcore.columns import Array
from rlcore.env import BatchedEnv
from rlcore_gym.atari_frames import AtariFrames

#: Frames of a second of an Atari 2600.
ATARI_SPEED = 60.0


def rgb(rendered: Any) -> Array | None:
    """``[height, width, 3]`` uint8 of what ``render()`` returned: a frame, or a list of which the last counts.

    None where it drew nothing, or drew text.
    """
    if isinstance(rendered, list | tuple):
        return rgb(rendered[-1]) if rendered else None
    if rendered is None or isinstance(rendered, str):
        return None
    frame = np.asarray(rendered)
    if frame.ndim != 3 or frame.dtype != np.uint8:
        return None
    # Without transparency, of which a video has none.
    return frame[:, :, :3] if frame.shape[2] == 4 else frame


def frames_per_second(env: Any) -> float:
    """How many steps of an environment (or vector environment) are a second, as it says itself."""
    layer = env
    while layer is not None:
        if isinstance(layer, AtariFrames | AtariPreprocessing):
            return ATARI_SPEED / layer.frame_skip
        layer = getattr(layer, "env", None)
    stated = env.metadata.get("render_fps")
    return float(stated) if isinstance(stated, int | float) and stated > 0 else BatchedEnv.frames_per_second
