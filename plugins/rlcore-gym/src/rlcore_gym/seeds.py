"""One seed for each copy of an environment, and the check that the copies do not all draw the same numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlcore.columns import Columns
from rlcore.errors import EnvError
from rlcore_gym.generators import Place, Snapshot, same


def slot_seeds(seed: int | None, count: int) -> list[int]:
    """``count`` different seeds below 2**31, which every simulator takes; fresh entropy where ``seed`` is None.

    Slot ``i`` gets the same one whatever ``count`` is, but where two of the hashed words happen to be equal.
    """
    words = np.random.SeedSequence(seed).generate_state(2 * count, np.uint32) >> 1
    # Twice as many as needed: that fewer than half of them differ will not happen.
    return list(dict.fromkeys(words.tolist()))[:count]


def check_streams(
    name: str,
    before: Sequence[dict[Place, Snapshot]],
    after: Sequence[dict[Place, Snapshot]],
    observations: Columns,
) -> None:
    """Raises ``EnvError`` where copies that were reset with different seeds draw the same random numbers.

    The rule: all first observations are equal, and a random generator of the environment was used for them, outlived
    the reset instead of being seeded by it, and is in the same state in every copy. An environment that always starts
    alike without drawing numbers is none of this.
    """
    if len(before) < 2 or not _all_rows_equal(observations):
        return
    for place, first in after[0].items():
        if all(
            place in old
            and place in new
            and old[place].generator is new[place].generator
            and not same(old[place].state, new[place].state)
            and same(new[place].state, first.state)
            for old, new in zip(before, after, strict=True)
        ):
            raise EnvError(
                f"{name}: all {len(before)} copies start from the same observation and draw the same random numbers, "
                f"because '{place.attribute}' of {place.owner} does not depend on the seed; draw from self.np_random "
                "after super().reset(seed=seed), or seed it in reset"
            )


def _all_rows_equal(observations: Columns) -> bool:
    columns = observations.values() if isinstance(observations, dict) else [observations]
    return all(bool((column == column[:1]).all()) for column in columns)
