"""The generalization term: clients whose data was used less than its share deserves score higher.

Reference: PAUSE, eq. (generalization reward), after Ben Ami et al. (2023).
"""

from __future__ import annotations

import numpy as np

from pausefl.types import FloatArray, IntArray


def underuse(shares: FloatArray, picks: IntArray, rounds: int, m: int, beta: float) -> FloatArray:
    """Return g_k = |d|^beta sign(d) with d = m·share - T/t; T/t is 0 before the first round.

    Deviation: the paper bounds g by 1, which fails for a client that holds more than 1/m of all data; the formula is
    kept, and whoever needs the range (the regret bound, the annealer) takes it from the data.

    >>> underuse(np.array([0.25, 0.75]), np.array([1, 0]), rounds=2, m=1, beta=2.0).tolist()
    [-0.0625, 0.5625]
    """
    gap = m * shares - (picks / rounds if rounds else 0.0)
    return np.sign(gap) * np.abs(gap) ** beta
