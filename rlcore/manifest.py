"""What the manifest of a run's checkpoint says: all that can be known of it without reading its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rlcore
from rlcore.config import ResolvedPolicy, RunConfig
from rlcore.evaluator_set import EvaluatorSet
from rlcore.parts import Parts
from rlcore.saved_policies import describe_policy, weights_in
from rlcore.weights_digest import weights_sha256


def manifest_of(
    config: RunConfig, policies: Mapping[str, ResolvedPolicy], parts: Parts, state: Mapping[str, Any]
) -> dict[str, Any]:
    """The manifest for ``state``, a trainer's tree; plain JSON."""
    return {
        "rlcore_version": rlcore.__version__,
        "config": config.to_tree(),
        "policies": {
            name: describe_policy(settings, parts.spaces[name], config.filter, parts.actors[name])
            for name, settings in policies.items()
        },
        "env_steps": state["counters"]["env_steps"],
        "weights_version": state["evaluators"]["version"],
        "weights_sha256": weights_sha256(weights_in(state["policies"])),
        "restarts": EvaluatorSet.unrestorable(state["evaluators"]),
    }
