"""Trained policies of rlcore as ONNX graphs, which act without rlcore and without the framework they were trained in.

What is exported here is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.lazy import lazily

if TYPE_CHECKING:
    from rlcore_export.exporting import check_model as check_model
    from rlcore_export.exporting import export_onnx as export_onnx
    from rlcore_export.exporting import onnx_model as onnx_model

_MODULES = {"check_model": "exporting", "export_onnx": "exporting", "onnx_model": "exporting"}

__all__ = sorted(_MODULES)

__getattr__, __dir__ = lazily(__name__, _MODULES)
