"""Compilation of the inner loops, cached on disk where there is a place to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from numba import njit

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first use; in a read-only installation without a home, compile anew in each process."""
    try:
        cached: Callable[P, R] = njit(cache=True)(function)
    except RuntimeError:  # numba found no folder for its cache
        cached = njit()(function)
    return cached
