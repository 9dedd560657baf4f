"""What a sampler hands to its evaluator, and the check of the rewards in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rlcore.batch import ENV_STEP, REWARDS, SLOT, SampleBatch
from rlcore.errors import BadValueError
from rlcore.sampling.episode import Episode


@dataclass
class Collected:
    """Raw batches by policy, not yet postprocessed, the episodes that ended, and the environment steps they cost."""

    batches: dict[str, SampleBatch]
    episodes: list[Episode] = field(default_factory=list)
    env_steps: int = 0
    #: ``{agent_id: (policy_id, batch)}`` where there are several agents, for postprocessing that looks at the others.
    agents: Mapping[object, tuple[str, SampleBatch]] | None = None
    #: Steps that were asked for and of which no row is left, because an environment began anew.
    lost_steps: int = 0
    #: Ids of episodes that broke off where an earlier sample ends.
    broken: tuple[int, ...] = ()


@dataclass
class Played:
    """Episodes that were played and not recorded, the environment steps they cost, and those that were lost."""

    episodes: list[Episode] = field(default_factory=list)
    env_steps: int = 0
    lost_steps: int = 0


def check_rewards(batch: SampleBatch, env_name: str) -> None:
    """Raises ``BadValueError`` for the first NaN or infinite reward, naming environment, slot and step."""
    rewards = batch[REWARDS]
    if np.isfinite(rewards).all():
        return
    row = int(np.flatnonzero(~np.isfinite(rewards))[0])
    slot = batch.cuts[SLOT][batch.piece_of_row()[row]]
    raise BadValueError(
        f"environment '{env_name}', slot {slot}, step {batch[ENV_STEP][row]} of its episode: "
        f"the reward is not finite: {rewards[row]}"
    )
