"""How much experience one ``sample()`` collects: said by type."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlcore.errors import ConfigError


@dataclass(frozen=True)
class Fragment:
    """``steps`` steps of every environment slot; episodes go on across fragments."""

    steps: int = 200

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigError(f"a fragment has at least 1 step, not {self.steps}")


@dataclass(frozen=True)
class Episodes:
    """Exactly ``count`` whole episodes, shared out evenly over the slots before the first step.

    The share of a slot is fixed, so that short episodes are not preferred. A slot that has its share goes on until the
    others are done; those steps count as environment steps and yield no rows. Where episodes are only played, an
    environment that can lets it rest.
    """

    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ConfigError(f"at least 1 episode is collected, not {self.count}")

    def shares(self, slots: int) -> NDArray[np.int64]:
        """How many episodes each of the ``slots`` plays, int64 ``[slots]``."""
        return np.asarray(self.count // slots + (np.arange(slots) < self.count % slots), np.int64)


Collect = Fragment | Episodes
