"""AlphaZero: self-play with tree search, and a gate that a candidate has to pass."""

from rlcore_alphazero.alphazero import AlphaZero
from rlcore_alphazero.config import AlphaZeroConfig, GateConfig

__all__ = ["AlphaZero", "AlphaZeroConfig", "GateConfig"]
