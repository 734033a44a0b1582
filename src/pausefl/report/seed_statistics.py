"""Statistics of a few seeds: Student's t interval, the exact sign-flip test, and Holm's correction.

Student's distribution is taken from scipy.special, as scipy.stats does: that one takes half a second to import.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

EXACT_UP_TO = 16
"""With more seeds than this, signs are drawn instead of enumerated."""
_DRAWS = 99_999
_CHUNK = 10_000
_ROUNDING = 1e-12
"""What is smaller than this share of the numbers themselves comes from their last digits."""


def t_half_width(values: Sequence[float], confidence: float = 0.95) -> float:
    """Return half the width of the interval of the mean; infinity for one value, and for two that agree exactly.

    Two equal numbers say nothing about the spread: an interval without width would be a claim of certainty.
    """
    count = len(values)
    deviation = _deviation(values)
    if count < 3 and deviation == 0.0:
        return math.inf
    return float(special.stdtrit(count - 1, 0.5 + confidence / 2)) * deviation / math.sqrt(count)


def t_test(differences: Sequence[float], about: float = 0.0) -> float | None:
    """Return the two-sided p-value of the paired t test that the mean difference is ``about``; None where it has none.

    It has none for a single pair, and none where all differences are the same number.
    """
    deviation = _deviation(differences)
    if deviation == 0.0:
        return None
    t = (float(np.mean(differences)) - about) / (deviation / math.sqrt(len(differences)))
    return float(2.0 * special.stdtr(len(differences) - 1, -abs(t)))


def sign_flip_test(differences: Sequence[float]) -> float | None:
    """Return the two-sided p-value of the sign-flip test: how often random signs make a mean at least as far from 0.

    It assumes only that a difference is as likely to be negative as positive if the policies are alike; it is exact for
    up to 16 seeds.  With n seeds it cannot fall below 2 / 2**n: five seeds never say less than 0.0625.

    >>> sign_flip_test([1.0, 2.0, 3.0, 4.0, 5.0])
    0.0625
    """
    values = np.array(differences, dtype=np.float64)
    count = len(values)
    if count == 0:
        return None
    # The same signs must count, whatever the order of the sum, and also where hardly anything is left of it.
    seen = abs(float(values.sum())) - _ROUNDING * float(np.abs(values).sum())
    if count <= EXACT_UP_TO:
        signs = 1.0 - 2.0 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
        return float(np.mean(np.abs(signs @ values) >= seen))
    rng = np.random.default_rng(0)
    as_far = 0
    for start in range(0, _DRAWS, _CHUNK):
        signs = rng.choice([-1.0, 1.0], size=(min(_CHUNK, _DRAWS - start), count))
        as_far += int(np.sum(np.abs(signs @ values) >= seen))
    return (1 + as_far) / (1 + _DRAWS)


def _deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of a sample; 0 where all are one number, of which rounding would leave a trace."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return deviation if deviation > _ROUNDING * float(np.max(np.abs(values), initial=0.0)) else 0.0


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected for being several (Holm, 1979), in the given order; None stays None and is not counted.

    >>> holm([0.01, 0.04, None, 0.03])
    [0.03, 0.06, None, 0.06]
    """
    order = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(order):
        largest = max(largest, min(1.0, p * (len(order) - rank)))
        corrected[place] = largest
    return corrected
