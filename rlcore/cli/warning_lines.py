"""Warnings on the command line: one plain line each on stderr, without the line of source that gave it."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: What Gymnasium's logger puts before its messages.
_LABEL = re.compile(r"^(WARN|ERROR): ")


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Within it, warnings are printed by :func:`show`."""
    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Prints ``warning: message``; where it is not meant for users, such as numpy's, the place in the code as well."""
    text = _LABEL.sub("", _COLOUR.sub("", " ".join(str(message).split())))
    place = "" if issubclass(category, UserWarning) else f" ({category.__name__}, {filename}:{lineno})"
    print(f"warning: {text}{place}", file=file if file is not None else sys.stderr, flush=True)
