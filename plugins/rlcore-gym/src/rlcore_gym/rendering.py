"""Frames as RGB arrays, whatever form an environment gives them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlcore.columns import Array


def rgb(rendered: Any) -> Array | None:
    """``[height, width, 3]`` uint8 of what ``render()`` returned: a frame, or a list of which the last counts.

    None where it drew nothing, or drew text.
    """
    if isinstance(rendered, list | tuple):
        return rgb(rendered[-1]) if rendered else None
    if rendered is None or isinstance(rendered, str):
        return None
    frame = np.asarray(rendered)
    return frame if frame.ndim == 3 and frame.dtype == np.uint8 else None
