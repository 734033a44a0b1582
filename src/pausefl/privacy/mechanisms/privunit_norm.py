"""One number between 0 and 1, released unbiased under pure epsilon-LDP: randomised response over a few levels.

Reference: Bhowmick et al. (2018), Section 4.2.  The outcome is one of a few levels, so there are no low bits to attack.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from pausefl.privacy.mechanisms.noise import Noise
from pausefl.types import Epsilon

_MOST = 64
_ENOUGH = 20.0
"""More epsilon than this is not used: beyond it floats no longer carry the odds against the true level."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Randomised response over 0, 1/k, …, 1, stretched so that the mean is right.

    >>> levels = best_levels(6.0)
    >>> levels.k, round(levels.second(1.0), 3)
    (8, 1.008)
    """

    epsilon: Epsilon
    k: int

    def release(self, value: float, noise: Noise) -> float:
        """Return a random number whose mean is ``value``."""
        rounding, coin, place = noise.uniform(3)
        level = math.floor(value * self.k)
        level += int(rounding < value * self.k - level)
        if coin >= self._keep:
            other = min(math.floor(place * self.k), self.k - 1)
            level = other + (other >= level)
        return (level - self._shift) * self._stretch / self.k

    def second(self, value: float) -> float:
        """Return the second moment of what ``release(value)`` returns."""
        low = math.floor(value * self.k)
        up = value * self.k - low
        return (1.0 - up) * self._second_at(low) + (up * self._second_at(low + 1) if up > 0.0 else 0.0)

    def worst(self) -> float:
        """Return the largest variance over all values; it lies at a level or half way between two."""
        halves = (half / (2.0 * self.k) for half in range(2 * self.k + 1))
        return max(self.second(value) - value * value for value in halves)

    @property
    def _keep(self) -> float:
        return 1.0 / (1.0 + self.k * math.exp(-self.epsilon))

    @property
    def _stretch(self) -> float:
        # (e^epsilon + k) / (e^epsilon - 1)
        return (1.0 + self.k * math.exp(-self.epsilon)) / -math.expm1(-self.epsilon)

    @property
    def _shift(self) -> float:
        # All levels together, times the chance of each that is not the true one.
        return self.k * (self.k + 1) / 2.0 * (1.0 - self._keep) / self.k

    def _second_at(self, level: int) -> float:
        k, shift = self.k, self._shift
        true = (level - shift) ** 2
        every = k * (k + 1) * (2 * k + 1) / 6.0 - shift * k * (k + 1) + (k + 1) * shift**2
        return (self._keep * true + (1.0 - self._keep) / k * (every - true)) * (self._stretch / k) ** 2


@lru_cache(maxsize=4096)
def best_levels(epsilon: Epsilon) -> Levels:
    """Return the number of levels with the smallest worst variance."""
    epsilon = min(epsilon, _ENOUGH)
    best = Levels(epsilon, 1)
    # More levels round more finely but are harder to tell apart: the variance falls, then rises.
    for k in range(2, _MOST + 1):
        finer = Levels(epsilon, k)
        if finer.worst() >= best.worst():
            break
        best = finer
    return best
