"""The digest of weights by which runs are compared."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from rlcore.policy_graph import Weights


def weights_sha256(weights: Mapping[str, Weights]) -> str:
    """A digest over sorted policy ids and weight names, and each weight's dtype, shape and bytes (little endian)."""
    digest = hashlib.sha256()
    for policy_id in sorted(weights):
        for name in sorted(weights[policy_id]):
            array = np.asarray(weights[policy_id][name])
            array = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
            digest.update(f"{policy_id}\0{name}\0{array.dtype.str}\0{array.shape}\0".encode())
            digest.update(array.tobytes())
    return digest.hexdigest()
