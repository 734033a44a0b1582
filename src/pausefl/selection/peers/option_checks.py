"""Options of the policies, checked: each fault is told in one line."""

from __future__ import annotations

import numpy as np

from pausefl.errors import is_finite, require


def check_number(name: str, value: object, least: float, most: float | None, usual: float) -> None:
    """Refuse what is no finite number from ``least`` to ``most``; ``usual`` is the value to propose."""
    bound = f"a finite number from {least:g}" if most is None else f"a number from {least:g} to {most:g}"
    fits = is_finite(value) and float(value) >= least and (most is None or float(value) <= most)  # type: ignore[arg-type]
    require(fits, name, value, bound, f"the usual value is {usual:g}")


def check_positive(name: str, value: object, remedy: str) -> None:
    """Refuse what is no finite number above 0."""
    require(is_finite(value) and float(value) > 0.0, name, value, "a finite number above 0", remedy)  # type: ignore[arg-type]


def check_whole(name: str, value: object, remedy: str, least: int = 1) -> None:
    """Refuse what is no whole number from ``least``."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= least
    require(whole, name, value, f"a whole number from {least}", remedy)
