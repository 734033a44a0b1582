"""Let the C library give large pieces of memory back to the system as soon as they are free."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MAP_THRESHOLD = -1, -3  # of mallopt(3)
_SMALL = 1 << 17
"""Bytes up to which a piece may stay: what the C library begins with."""


def give_back_freed_memory() -> None:
    """Call first thing in a process that handles data.

    Otherwise the C library raises its limits when something large is freed, and keeps up to 64 MiB of later pieces.
    Then it shows in the memory of the machine that one record was long, for as long as the process lives.
    """
    with suppress(AttributeError, OSError):  # other C libraries do not raise any limit
        library = ctypes.CDLL(None)
        for limit in (_MAP_THRESHOLD, _TRIM_THRESHOLD):
            library.mallopt(limit, _SMALL)
