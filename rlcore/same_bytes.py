"""Comparing many pieces of memory: by the C library, a third faster here than whatever numpy and Python offer."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat


def differ(some: Iterable[int], others: Iterable[int], size: int) -> Iterator[int]:
    """Where the ``size`` bytes at two addresses differ: not 0. They are looked at as it is asked for, and have to be
    there as long."""
    # Made once, it need not be made for every call.
    return map(_MEMCMP, some, others, repeat(ctypes.c_size_t(size)))


def _memcmp() -> Callable[[int, int, ctypes.c_size_t], int]:
    try:
        # It keeps the interpreter's lock, for a microsecond: letting go of it would cost a tenth of that.
        found = ctypes.PyDLL(None).memcmp
    except (AttributeError, OSError, TypeError):
        # No such library by that name, as on Windows.
        return lambda one, other, size: ctypes.string_at(one, size.value) != ctypes.string_at(other, size.value)
    found.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    found.restype = ctypes.c_int
    return found


_MEMCMP = _memcmp()
