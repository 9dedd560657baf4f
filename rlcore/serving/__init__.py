"""Serving a trained policy over HTTP: requests of many clients act in one call."""

from __future__ import annotations

from rlcore.serving.server import PolicyServer
from rlcore.serving.settings import ServeSettings

__all__ = ["PolicyServer", "ServeSettings"]
