"""The best cap for PrivUnit: how far out to cut the sphere, and how often to land beyond the cut.

References: Bhowmick et al., "Protection Against Reconstruction" (2018), Section 4.1; Asi, Feldman and Talwar, "Optimal
Algorithms for Mean Estimation under Local Differential Privacy" (2022), Section 3.

A random V is drawn with <V, u> >= threshold with probability p and below it otherwise.  If a uniform V lands beyond the
cut with probability c, the two densities are p/c and (1-p)/(1-c), so logit(p) - logit(c) = epsilon is exactly
epsilon-LDP, and the mean of <V, u> comes to T E / (1 + c E), with E = e^epsilon - 1 and T the tail's first moment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import betaincc, betainccinv, betaln, expit, ndtr, ndtri

from pausefl.types import Epsilon, FloatArray

_MARGIN = 1e-9
"""Taken off epsilon: more than the incomplete beta function errs by in log c, at a million dimensions too."""
_SURE = 1.0 - 2.0**-20
"""The most often a draw may land beyond the cut: nearer to 1, floats no longer carry the odds against it."""
_LEAST = 1e-300


@dataclass(frozen=True, slots=True)
class Cap:
    """A cut and what follows from it: ``mean`` of <V, u> along the true direction u, and ``second``, E||V||^2."""

    dimension: int
    gaussian: bool
    threshold: float
    tail: float
    inside: float
    mean: float
    second: float

    @property
    def variance(self) -> float:
        """E||V/mean - u||^2, the same for every unit vector u."""
        return self.second / self.mean**2 - 1.0

    def along(self, coin: float, place: float) -> float:
        """Turn two uniform numbers into <V, u>, by inverting its distribution function."""
        above = self.tail * place if coin < self.inside else self.tail + (1.0 - self.tail) * place
        # Next to 1 the sum rounds to 1, and next to 0 the product to 0: either would be infinitely far out.
        above = min(max(above, _LEAST), 1.0 - 2.0**-53)
        if self.gaussian:
            return -float(ndtri(above)) / math.sqrt(self.dimension)
        if self.dimension == 1:
            return 1.0 if above <= 0.5 else -1.0
        square = float(betainccinv(0.5, (self.dimension - 1) / 2.0, 2.0 * min(above, 1.0 - above)))
        return math.copysign(math.sqrt(square), 0.5 - above)


@lru_cache(maxsize=4096)
def best_cap(dimension: int, epsilon: Epsilon, gaussian: bool) -> Cap:
    """Return the cap of least variance, found by a grid that closes in on it."""
    # The optimum has a tail near e^-epsilon, and a Gaussian tail is e^(-a^2/2).
    low, high = 0.0, (math.sqrt(2.0 * epsilon) + 2.0) / math.sqrt(dimension)
    if not gaussian:
        high = min(high, 1.0 - 2.0**-40)
    for _ in range(6):
        grid = np.linspace(low, high, 33)
        best = int(np.argmin(_moments(dimension, epsilon, gaussian, grid)[3]))
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 32)])
    threshold = grid[best : best + 1]
    tail, mean, second, _ = (float(np.squeeze(value)) for value in _moments(dimension, epsilon, gaussian, threshold))
    inside = min(_SURE, float(expit(epsilon - _MARGIN + math.log(tail) - math.log1p(-tail))))
    return Cap(dimension, gaussian, float(threshold[0]), tail, inside, mean, second)


def _moments(d: int, epsilon: Epsilon, gaussian: bool, cut: FloatArray) -> tuple[FloatArray, ...]:
    """Return c, the mean, E||V||^2 and the variance for each cut."""
    E = math.expm1(epsilon - _MARGIN)
    shift = np.zeros_like(cut)
    if gaussian:
        a = cut * math.sqrt(d)
        tail = ndtr(-a)
        density = np.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi)
        first = density / math.sqrt(d)
        # E X^2 beyond a is c + a density(a), so drawing it with p in place of c shifts E||V||^2 from 1 by this much.
        shift = a * density / d
    elif d == 1:
        tail, first = np.full_like(cut, 0.5), np.full_like(cut, 0.5)
    else:
        b = (d - 1) / 2.0
        tail = betaincc(0.5, b, cut * cut) / 2.0
        # The integral of t (1-t^2)^((d-3)/2) beyond the cut, over the whole sphere's.
        first = np.exp(b * np.log1p(-cut * cut) - math.log(d - 1) - float(betaln(0.5, b)))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        # (p - c) / (c (1 - c)): how much more often V lands beyond the cut than by chance.
        lift = np.minimum(E / (1.0 + tail * E), (_SURE - tail) / (tail * (1.0 - tail)))
        mean, second = first * lift, 1.0 + shift * lift
        return tail, mean, second, np.where(tail > 0.0, second / mean**2 - 1.0, np.inf)
