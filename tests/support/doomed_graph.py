"""A policy graph that takes its process with it, or stops it, when a file says so."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, ClassVar

from rlcore.policy_graph import GradientOutput, GraphConfig
from rlcore_torch import PolicyGradient


class DoomedConfig(PolicyGradient.Config):  # type: ignore[name-defined,misc]
    """``order`` names a file that holds the number of a signal; who reads it first takes it away."""

    order: str


class Doomed(PolicyGradient):
    """Sends its process the signal before it computes gradients."""

    Config: ClassVar[type[GraphConfig]] = DoomedConfig

    def gradients(self, batch: Any, units: Any = None) -> GradientOutput:
        order = Path(self.config.order)  # type: ignore[attr-defined]
        taken = order.with_suffix(f".{os.getpid()}")
        try:
            order.rename(taken)
        except FileNotFoundError:
            return super().gradients(batch, units)
        os.kill(os.getpid(), signal.Signals(int(taken.read_text())))
        raise AssertionError("it was to be gone, or to hang")
