"""What is set aside so that floats keep a bound that real numbers keep."""

from __future__ import annotations

import math

from pausefl.errors import is_finite

SHAVE = 1.0 - 2.0**-30
"""Taken off a bound beforehand: more than rounding adds to a sum of eight million terms, in any order."""


def number(value: object) -> float:
    """Return a finite number as a plain float, and NaN for whatever is none: text, a truth value, 10**400.

    >>> number(40), number("40"), number(10**400)
    (40.0, nan, nan)
    """
    try:
        return float(value) if is_finite(value) else math.nan  # type: ignore[arg-type]
    except OverflowError:
        return math.nan
