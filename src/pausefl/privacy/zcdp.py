"""Zero-concentrated differential privacy: the currency in which Gaussian noise adds up, and its price in epsilon.

References: Bun and Steinke (2016) for rho, which simply adds up over releases, also where each of them was chosen by
looking at those before (Feldman and Zrnic, 2021); Canonne, Kamath and Steinke (2020), Proposition 12, for the epsilon.
"""

from __future__ import annotations

import math
from functools import lru_cache

from pausefl.types import Epsilon

_STEPS = 100


@lru_cache(maxsize=4096)
def zcdp_epsilon(rho: float, delta: float) -> Epsilon:
    """Return the epsilon that goes with this delta for whatever is rho-zCDP; it grows with rho, and is 0 at 0.

    >>> round(zcdp_epsilon(0.02, 1e-5), 4)
    0.7943
    """
    if rho <= 0.0:
        return 0.0
    # The bound holds for every order 1 + x > 1.  It is lowest where rho x^2 = -log(delta (1 + x)), and the one side
    # rises in x while the other falls, so Newton's steps within a shrinking interval find that place.
    low, high = 0.0, 1.0 / delta - 1.0
    x = min(math.sqrt(-math.log(delta) / rho), high)
    for _ in range(_STEPS):
        slope = rho * x * x + math.log(delta) + math.log1p(x)
        low, high = (low, x) if slope > 0.0 else (x, high)
        new = x - slope / (2.0 * rho * x + 1.0 / (1.0 + x))
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - x) <= 1e-15 * x:
            break
        x = new
    return max(0.0, rho * (1.0 + x) + math.log(x / (1.0 + x)) - (math.log(delta) + math.log1p(x)) / x)


@lru_cache(maxsize=1024)
def zcdp_within(epsilon: Epsilon, delta: float) -> float:
    """Return the largest rho whose epsilon at this delta is at most ``epsilon``, rounded down.

    >>> zcdp_epsilon(zcdp_within(1.0, 1e-5), 1e-5) <= 1.0
    True
    """
    low, high = 0.0, 1.0
    while zcdp_epsilon(high, delta) <= epsilon:
        low, high = high, 2.0 * high
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if zcdp_epsilon(middle, delta) <= epsilon else (low, middle)
        if high < 1e-300:
            return 0.0
    return low * (1.0 - 1e-12)
