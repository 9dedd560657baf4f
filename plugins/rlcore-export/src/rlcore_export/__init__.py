"""Trained policies of rlcore as ONNX graphs, which act without rlcore and without the framework they were trained in.

What is exported here is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcore_export.exporting import check_model as check_model
    from rlcore_export.exporting import export_onnx as export_onnx
    from rlcore_export.exporting import onnx_model as onnx_model

_HOMES = {"check_model": "exporting", "export_onnx": "exporting", "onnx_model": "exporting"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
