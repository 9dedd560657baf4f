"""Ctrl-C, as it comes while an optimizer waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from rlcore.runtime.base import Runtime


@contextmanager
def interrupted(runtime: Runtime, at: int) -> Iterator[None]:
    """What is done within is interrupted when it waits for the ``at``-th time, counted from 1."""
    wait: Callable[..., Any] = runtime.wait
    waits = 0

    def interrupt(*args: Any) -> Any:
        nonlocal waits
        waits += 1
        if waits == at:
            raise KeyboardInterrupt
        return wait(*args)

    with patch.object(runtime, "wait", interrupt), pytest.raises(KeyboardInterrupt):
        yield
