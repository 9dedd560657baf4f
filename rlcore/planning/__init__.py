"""Planning over a BatchedModel: Monte Carlo tree search for many games at once, in numpy."""

from __future__ import annotations

from rlcore.planning.leaves import Leaves, Playouts, Predictions
from rlcore.planning.search import Search
from rlcore.planning.settings import SearchConfig
from rlcore.planning.trees import Trees

__all__ = ["Leaves", "Playouts", "Predictions", "Search", "SearchConfig", "Trees"]
