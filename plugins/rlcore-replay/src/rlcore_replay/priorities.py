"""Proportional priorities (Schaul et al. 2016, section 3.3) over the places of a ring."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcore.tree import copy_tree
from rlcore_replay.sum_tree import Float64, Indexes, SumTree

#: What is added to every temporal difference, so that none of them keeps an item from being drawn again.
EPSILON = 1e-6


class Priorities:
    """Stored is ``p = (|td| + epsilon) ** alpha``; an item is drawn with probability ``p / sum of p``.

    New items get the greatest p so far, 1 before there is any (algorithm 1 there, line 6). The importance weights of
    what was drawn are ``(N p / sum of p) ** -beta`` over the greatest of them in the batch.

    Raises ``ValueError`` for an alpha that is negative and an epsilon that is not positive.
    """

    def __init__(self, capacity: int, alpha: float, epsilon: float = EPSILON) -> None:
        if not alpha >= 0.0:
            raise ValueError(f"alpha is 0 or more, not {alpha}")
        if not epsilon > 0.0:
            raise ValueError(f"epsilon is more than 0, not {epsilon}")
        self.alpha = alpha
        self.epsilon = epsilon
        self.tree = SumTree(capacity)
        #: What new items get.
        self.highest = 1.0
        self._marked: dict[str, Any] | None = None

    def add(self, places: Indexes, td_errors: NDArray[Any] | None) -> None:
        """New items at ``places``, with priorities of their own, or the highest so far.

        Of more errors than places the last ones count.
        """
        if td_errors is None:
            self.tree.set(places, self.highest)
        else:
            self.update(places, td_errors[len(td_errors) - len(places) :])

    def update(self, places: Indexes, td_errors: ArrayLike) -> None:
        """From the temporal differences ``[n]`` of the items at ``places`` ``[n]``.

        Raises ``ValueError``, and changes nothing, where one is NaN or infinite, naming its item.
        """
        if not len(places):
            return
        stored = np.abs(np.asarray(td_errors, np.float64))
        stored += self.epsilon
        if self.alpha != 1.0:
            np.power(stored, self.alpha, out=stored)
        self.tree.set(places, stored)
        self.highest = max(self.highest, float(np.maximum.reduce(stored)))

    def draw(self, n: int, rng: np.random.Generator, beta: float) -> tuple[Indexes, NDArray[np.float32]]:
        """``n`` places, stratified, and their weights, float32 ``[n]``."""
        places = self.tree.draw_stratified(n, rng)
        return places, self.weights(places, beta)

    def weights(self, places: Indexes, beta: float) -> NDArray[np.float32]:
        """The weights of a batch of the items at ``places``: 1 for the least likely of them."""
        stored = self.tree.values.take(places)
        ratio: Float64 = np.minimum.reduce(stored) / stored
        return np.power(ratio, beta, out=ratio).astype(np.float32)

    def mark(self) -> None:
        """``get_marked`` gives them as they are now, until the next mark."""
        self._marked = copy_tree(self.get_state())

    def get_marked(self) -> dict[str, Any]:
        """The state at the last mark, or now where there was none."""
        return self.get_state() if self._marked is None else self._marked

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly."""
        return {"tree": self.tree.get_state(), "highest": self.highest}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self.tree.set_state(state["tree"])
        self.highest = float(state["highest"])
        self._marked = None
