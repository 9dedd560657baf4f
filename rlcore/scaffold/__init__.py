"""New plugins: complete, tested, installable packages, written from templates as a place to start from."""

from __future__ import annotations

from rlcore.scaffold.names import PluginName
from rlcore.scaffold.writing import new_plugin

__all__ = ["PluginName", "new_plugin"]
