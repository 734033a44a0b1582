"""The best cap for PrivUnit: how far out to cut, and how often to land beyond the cut.

References: Bhowmick et al., "Protection Against Reconstruction" (2018), Section 4.1; Asi, Feldman and Talwar, "Optimal
Algorithms for Mean Estimation under Local Differential Privacy" (2022), Section 3.

A normal vector V is drawn with <V, u> >= threshold with probability p and below it otherwise.  If a plain one lands
beyond the cut with probability c, the two densities are p/c and (1-p)/(1-c) of the plain one's, so
logit(p) - logit(c) = epsilon is exactly epsilon-LDP, and the mean of <V, u> comes to T E / (1 + c E), with
E = e^epsilon - 1 and T the tail's first moment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import expit, ndtr

from pausefl.types import Epsilon, FloatArray

_MARGIN = 1e-9
"""Taken off epsilon: far more than c and p err by in floats, relatively."""
_SURE = 1.0 - 2.0**-20
"""The most often a draw may land beyond the cut: nearer to 1, floats no longer carry the odds against it."""
_FINE = 2.0**40
"""Cuts are whole multiples of 1 over this, so that exact draws can be compared with them."""


@dataclass(frozen=True, slots=True)
class Cap:
    """A cut and what follows from it: ``mean`` of <V, u> along the true direction u, and ``second``, E||V||^2."""

    threshold: float
    tail: float
    inside: float
    mean: float
    second: float

    @property
    def variance(self) -> float:
        """E||V/mean - u||^2, the same for every unit vector u."""
        return self.second / self.mean**2 - 1.0


@lru_cache(maxsize=4096)
def best_cap(dimension: int, epsilon: Epsilon) -> Cap:
    """Return the cap of least variance, found by a grid that closes in on it."""
    # The optimum has a tail near e^-epsilon, and a Gaussian tail is e^(-a^2/2).
    low, high = 0.0, math.sqrt(2.0 * epsilon) + 2.0
    for _ in range(6):
        grid = np.linspace(low, high, 33)
        best = int(np.argmin(_moments(dimension, epsilon, grid)[3]))
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 32)])
    threshold = np.rint(grid[best : best + 1] * _FINE) / _FINE
    tail, mean, second, _ = (float(value[0]) for value in _moments(dimension, epsilon, threshold))
    inside = min(_SURE, float(expit(epsilon - _MARGIN + math.log(tail) - math.log1p(-tail))))
    return Cap(float(threshold[0]), tail, inside, mean, second)


def _moments(d: int, epsilon: Epsilon, cut: FloatArray) -> tuple[FloatArray, ...]:
    """Return c, the mean, E||V||^2 and the variance for each cut."""
    E = math.expm1(epsilon - _MARGIN)
    tail = ndtr(-cut)
    first = np.exp(-0.5 * cut * cut) / math.sqrt(2.0 * math.pi)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        # (p - c) / (c (1 - c)): how much more often V lands beyond the cut than by chance.
        lift = np.minimum(E / (1.0 + tail * E), (_SURE - tail) / (tail * (1.0 - tail)))
        # E X^2 beyond the cut is c + cut x density, so drawing it with p in place of c shifts E||V||^2 by this much.
        mean, second = first * lift, d + cut * first * lift
        return tail, mean, second, np.where(tail > 0.0, second / mean**2 - 1.0, np.inf)
