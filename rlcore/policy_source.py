"""What a policy of an evaluator may be given as, and how it is made from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlcore.env import BatchedEnv, Spaces
from rlcore.graph_spec import GraphSpec
from rlcore.policy_graph import Actor, GraphConfig, PolicyGraph
from rlcore.validation import validate

#: What a policy may be given as: its class, a spec to build it from, or the finished thing.
PolicySource = type[PolicyGraph] | GraphSpec | PolicyGraph | Actor


def policy_from(
    source: PolicySource,
    spaces: Spaces,
    config: GraphConfig | Mapping[str, Any] | None,
    seed: np.random.SeedSequence,
    env: BatchedEnv,
    devices: Sequence[str],
) -> tuple[PolicyGraph | Actor, GraphSpec | None]:
    """The policy that a source stands for, on ``devices`` where it is built here, and the spec it came from."""
    if isinstance(source, type):
        given = config if isinstance(config, GraphConfig) else validate(source.Config, dict(config or {}))
        source = GraphSpec(source, *spaces, given, seed, env.model())
        source.announce()
    if isinstance(source, GraphSpec):
        return source.build(devices), source
    return source, None
