"""One seed for each copy of an environment, and the check that the copies do not all draw the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from rlcore.columns import Columns
from rlcore.errors import EnvError
from rlcore_gym.generators import Place, Snapshot, same

#: The states, after a reset, of the generators that it drew from: those that outlived it and were in another before.
Draws = dict[Place, dict[str, Any]]


class Follow(IntEnum):
    """For what a seed follows from another. Saved runs rely on the numbers."""

    RESTART = 1
    GAME = 2


def slot_seeds(seed: int | None, count: int) -> list[int]:
    """``count`` different seeds below 2**31, which every simulator takes; fresh entropy where ``seed`` is None.

    Slot ``i`` gets the same one whatever ``count`` is, but where two of the hashed words happen to be equal.
    """
    words = np.random.SeedSequence(seed).generate_state(2 * count, np.uint32) >> 1
    # Twice as many as needed: that fewer than half of them differ will not happen.
    return list(dict.fromkeys(words.tolist()))[:count]


def following_seed(seed: int, what: Follow) -> int:
    """The seed below 2**31 of what comes after an episode that ``seed`` opened."""
    return int(np.random.SeedSequence(seed, spawn_key=(int(what),)).generate_state(1, np.uint32)[0] >> 1)


def draws(before: Mapping[Place, Snapshot], after: Mapping[Place, Snapshot]) -> Draws:
    """From which generators a reset drew."""
    return {
        place: new.state
        for place, new in after.items()
        if place in before
        and before[place].generator is new.generator
        and not same(before[place].state, new.state)
    }


def check_streams(name: str, drawn: Sequence[Draws], observations: Columns) -> None:
    """Raises ``EnvError`` where copies that were reset with different seeds draw the same random numbers.

    The rule: all first observations are equal, and a random generator of the environment was used for them, outlived
    the reset instead of being seeded by it, and is in the same state in every copy. An environment that always starts
    alike without drawing numbers is none of this.
    """
    if len(drawn) < 2 or not _all_rows_equal(observations):
        return
    for place, first in drawn[0].items():
        if all(place in own and same(own[place], first) for own in drawn):
            raise EnvError(
                f"{name}: all {len(drawn)} copies start from the same observation and draw the same random numbers, "
                f"because '{place.attribute}' of {place.owner} does not depend on the seed; draw from self.np_random "
                "after super().reset(seed=seed), or seed it in reset"
            )


def _all_rows_equal(observations: Columns) -> bool:
    columns = observations.values() if isinstance(observations, dict) else [observations]
    return all(bool((column == column[:1]).all()) for column in columns)
