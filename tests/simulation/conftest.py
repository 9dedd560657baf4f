"""Modules of ``benchmarks/`` for the tests of what they simulate."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark_module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Imports one by its name; all of them are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", None)):
            del sys.modules[name]
