"""What tests of the conformance kit share."""

from __future__ import annotations

import pytest
from support.packages import Install, install

from rlcore import registry

__all__ = ["Install", "install"]


@pytest.fixture(autouse=True)
def no_registrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
