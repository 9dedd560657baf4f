"""Policy graphs in TensorFlow for rlcore. Importing the package does not import TensorFlow; taking a class does."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcore_tf.a3c import A3C
    from rlcore_tf.appo import APPO
    from rlcore_tf.impala import IMPALA
    from rlcore_tf.pg import PolicyGradient
    from rlcore_tf.ppo import PPO

__all__ = ["A3C", "APPO", "IMPALA", "PPO", "PolicyGradient"]

_MODULES = {"A3C": "a3c", "APPO": "appo", "IMPALA": "impala", "PPO": "ppo", "PolicyGradient": "pg"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
