"""Ape-X: distributed prioritised replay."""

from rlcore_apex.apex import Apex
from rlcore_apex.config import ApexConfig

__all__ = ["Apex", "ApexConfig"]
