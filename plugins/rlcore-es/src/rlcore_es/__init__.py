"""Evolution strategies: an optimizer that needs no gradients, and one that goes around those that do."""

from rlcore_es.config import ESConfig
from rlcore_es.es import ES
from rlcore_es.nested import NestedES, NestedESConfig

__all__ = ["ES", "ESConfig", "NestedES", "NestedESConfig"]
