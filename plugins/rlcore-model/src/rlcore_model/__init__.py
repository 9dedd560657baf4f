"""Learning from what learnt models of an environment imagine."""

from rlcore_model.imagination import imagine
from rlcore_model.mbpo import MBPO

__all__ = ["MBPO", "imagine"]
