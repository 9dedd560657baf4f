"""Evolution strategies: an optimizer that needs no gradients, and hybrids of it with those that do."""

from rlcore_es.config import ESConfig
from rlcore_es.es import ES

__all__ = ["ES", "ESConfig"]
