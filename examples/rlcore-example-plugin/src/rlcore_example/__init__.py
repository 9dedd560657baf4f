"""An optimizer and a policy graph for rlcore that are found by name once this package is installed."""

from __future__ import annotations

from rlcore_example.accumulate import Accumulate
from rlcore_example.features import FeaturesPG

__all__ = ["Accumulate", "FeaturesPG"]
