"""The speed term: an upper confidence bound on tau_min / latency.

Reference: PAUSE, eq. (ucb definition); zeta from its large-network study.
"""

from __future__ import annotations

import math

import numpy as np

from pausefl.types import FloatArray, IntArray


def upper_confidence(mean_speed: FloatArray, picks: IntArray, rounds: int, m: int, zeta: float = 1.0) -> FloatArray:
    """Return zeta·mean + sqrt((m+1) log t / T) after ``rounds`` rounds; infinity for clients never picked.

    >>> upper_confidence(np.array([0.5, 0.0]), np.array([4, 0]), rounds=10, m=3).round(3).tolist()
    [2.017, inf]
    """
    if rounds == 0:
        return np.full(len(picks), np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        bonus = np.sqrt((m + 1) * math.log(rounds) / picks)  # PAUSE, eq. (ucb definition)
    # In round 1 the logarithm is 0, and 0/0 is still an unknown client.
    return np.where(picks == 0, np.inf, zeta * mean_speed + bonus)
