"""Parts of an observation that are no features: networks do not see them, and filters leave them alone.

They are action masks (:mod:`rlcore.acting.masks`) and, where the observation space is a Dict with the key
``model_state``, that part: what a planner rebuilds the state from (:mod:`rlcore.model`).
"""

from __future__ import annotations

from rlcore.acting.masks import is_mask
from rlcore.model import MODEL_STATE


def is_unseen(leaf: str) -> bool:
    """Whether the observation leaf of this dotted name is no feature."""
    return is_mask(leaf) or leaf == MODEL_STATE or leaf.startswith(MODEL_STATE + ".")
