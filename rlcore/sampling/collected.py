"""What a sampler hands to its evaluator, and the check that no value in it is NaN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rlcore.batch import ENV_STEP, LAST_OBS, OBS, REWARDS, SLOT, SampleBatch
from rlcore.columns import Array
from rlcore.errors import EnvError
from rlcore.sampling.episode import Episode


@dataclass
class Collected:
    """Raw batches by policy, not yet postprocessed, the episodes that ended, and the environment steps they cost."""

    batches: dict[str, SampleBatch]
    episodes: list[Episode] = field(default_factory=list)
    env_steps: int = 0
    #: ``{agent_id: (policy_id, batch)}`` where there are several agents, for postprocessing that looks at the others.
    agents: Mapping[object, tuple[str, SampleBatch]] | None = None


def check_finite(batch: SampleBatch, env_name: str) -> None:
    """Raises ``EnvError`` for the first NaN or infinite observation or reward, naming environment, slot, step, key."""
    for name, column in batch.rows.items():
        if name != REWARDS and name.split(".")[0] != OBS:
            continue
        bad = _first_bad(column)
        if bad is not None:
            slot = batch.cuts[SLOT][batch.piece_of_row()[bad]]
            raise EnvError(
                f"environment '{env_name}', slot {slot}, step {batch[ENV_STEP][bad]} of its episode: "
                f"'{name}' is not finite: {_shown(column[bad])}"
            )
    for name, column in batch.cuts.items():
        bad = _first_bad(column) if name.split(".")[0] == LAST_OBS else None
        if bad is not None:
            step = batch[ENV_STEP][batch.last_rows()[bad]] + 1
            raise EnvError(
                f"environment '{env_name}', slot {batch.cuts[SLOT][bad]}, step {step} of its episode: "
                f"'{OBS}{name.removeprefix(LAST_OBS)}' is not finite: {_shown(column[bad])}"
            )


def _first_bad(column: Array) -> int | None:
    if column.dtype.kind != "f" or np.isfinite(column).all():
        return None
    return int(np.flatnonzero(~np.isfinite(column).reshape(len(column), -1).all(axis=1))[0])


def _shown(value: Array) -> str:
    return np.array2string(np.asarray(value), threshold=8, edgeitems=3)
