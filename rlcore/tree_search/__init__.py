"""Monte Carlo tree search over a BatchedModel, for many games at once, in numpy."""

from __future__ import annotations

from rlcore.tree_search.leaves import Leaves, Playouts, Predictions
from rlcore.tree_search.search import Search
from rlcore.tree_search.settings import SearchConfig
from rlcore.tree_search.trees import Trees

__all__ = ["Leaves", "Playouts", "Predictions", "Search", "SearchConfig", "Trees"]
