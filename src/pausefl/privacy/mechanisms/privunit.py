"""PrivUnit: the whole update under pure epsilon-LDP with an error of about d / epsilon, so that learning survives it.

References: Bhowmick et al. (2018), Algorithm 1; Asi, Feldman and Talwar (2022), Algorithm 2 (PrivUnitG, the same with
a Gaussian vector in place of one on the sphere), which is the one here.  The cut comes from
:mod:`pausefl.privacy.mechanisms.privunit_cap`, the draw from the source; the norm is released by ``Levels``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, Self

from pausefl.errors import require
from pausefl.privacy.mechanisms.base import Guarantee, Mechanism, clip_norm, require_bound, vector_norm
from pausefl.privacy.mechanisms.noise import Noise
from pausefl.privacy.mechanisms.privunit_cap import Cap, best_cap
from pausefl.types import Epsilon, FloatArray

_MOST = 64
_ENOUGH = 20.0
"""More epsilon than this is not used: the true level is then kept all but once in millions."""
_CHANCES = 2**62
"""Odds are whole numbers out of so many."""


@dataclass(frozen=True, slots=True)
class PrivUnit(Mechanism):
    """Release a random vector that leans towards the update's direction, scaled so that its mean is right.

    Args:
        l2: The length of the mean with ``norm="fixed"``, and the largest norm of an update with ``norm="private"``.
        norm: With ``"fixed"`` only the direction counts, and the mean is l2 x update / ||update||.  With ``"private"``
            the norm, clipped to l2, is released too, under its own share of epsilon, and the mean is the clipped
            update.
        norm_share: The share of epsilon that the norm gets; None takes the share with the least error.

    Use it to protect the whole update.  A zero update has no direction, so the client draws a random one for it, and
    the mean is zero.

    Law: for unit u, E[output] = l2 u and E||output / l2 - u||^2 = ``error(d, epsilon)`` with a fixed norm.

    With the secure source this is exactly epsilon-LDP, in floats too: docs/privacy.md has the proof.

    >>> import numpy as np
    >>> from pausefl.privacy import SimulatedNoise
    >>> mechanism = PrivUnit(l2=1.0)
    >>> released = mechanism.release(np.ones(100), 8.0, SimulatedNoise(np.random.default_rng(0)))
    >>> bool(released.update.mean() > 0.0), round(mechanism.error(100, 8.0), 1)
    (True, 13.3)
    """

    name: ClassVar[str] = "privunit"
    loss: ClassVar[Literal["pure"]] = "pure"
    least_epsilon: ClassVar[Epsilon] = 1e-6
    most_epsilon: ClassVar[Epsilon] = 500.0
    l2: float
    norm: Literal["fixed", "private"] = "fixed"
    norm_share: float | None = None

    def __post_init__(self) -> None:
        require_bound(self, "l2", "it is the norm of a typical update")
        require(self.norm in ("fixed", "private"), "norm", self.norm, "'fixed' or 'private'", "'fixed' is the default")
        share = self.norm_share
        require(
            share is None or self.norm == "private", "norm_share", share, "left out with norm='fixed'", "leave it out"
        )
        if share is not None:
            require_bound(self, "norm_share", "0.1 is common", 0.01, 0.99)

    @classmethod
    def audited(cls) -> dict[str, Self]:
        """Return the variant that sends a direction, and the variant that releases the norm too."""
        return {"privunit": cls(l2=1.0), "privunit-norm": cls(l2=1.0, norm="private")}

    @property
    def guarantee(self) -> Guarantee:
        """A promise without delta, for any two inputs."""
        return Guarantee("update", "l2", self.l2)

    def split(self, dimension: int, epsilon: Epsilon) -> tuple[Epsilon, Epsilon]:
        """Return what the direction and what the norm may leak; together epsilon."""
        if self.norm == "fixed":
            return epsilon, 0.0
        share = self.norm_share or _best_share(dimension, epsilon)
        return (1.0 - share) * epsilon, share * epsilon

    def cap(self, dimension: int, epsilon: Epsilon) -> Cap:
        """Return the cut that a release at this epsilon uses."""
        return best_cap(dimension, self.split(dimension, epsilon)[0])

    def error(self, dimension: int, epsilon: Epsilon, length: float = 1.0) -> float:
        """Return E||output - mean||^2 / l2^2 for an update of norm ``length`` x l2, in closed form."""
        direction = self.cap(dimension, epsilon).variance
        if self.norm == "fixed":
            return direction
        levels = best_levels(self.split(dimension, epsilon)[1])
        return levels.second(min(length, 1.0)) * (direction + 1.0) - min(length, 1.0) ** 2

    def noise_to_signal(self, dimension: int, epsilon: Epsilon) -> float:
        """Return the root of ``error`` for an update of the full norm."""
        return math.sqrt(self.error(dimension, epsilon))

    def _tighten(self, vector: FloatArray, share: float) -> None:
        # Without its norm an update is a direction, which no clip changes.
        if self.norm == "private":
            clip_norm(vector, 2, share * self.l2)

    def _randomize(self, vector: FloatArray, epsilon: Epsilon, noise: Noise) -> FloatArray:
        d = vector.size
        cap = self.cap(d, epsilon)
        length = vector_norm(vector, 2)
        # Drawn for every update, needed or not: the time it takes must not tell which updates are zero.
        spare = noise.uniform(d) - 0.5
        drawn = noise.cap(spare if length == 0.0 else vector, cap.threshold, cap.inside)
        # From here on only what is random already is changed, which costs no privacy.
        drawn *= self.l2 / cap.mean
        if self.norm == "private":
            drawn *= best_levels(self.split(d, epsilon)[1]).release(min(length / self.l2, 1.0), noise)
        return drawn


@lru_cache(maxsize=4096)
def _best_share(dimension: int, epsilon: Epsilon) -> float:
    def error(share: float) -> float:
        direction = best_cap(dimension, (1.0 - share) * epsilon).variance
        return best_levels(share * epsilon).second(1.0) * (direction + 1.0)

    return min((i / 20.0 for i in range(1, 13)), key=error)


@dataclass(frozen=True, slots=True)
class Levels:
    """One number from 0 to 1 under pure epsilon-LDP: randomised response over 0, 1/k, …, 1, stretched to be unbiased.

    Reference: Bhowmick et al. (2018), Section 4.2.  The outcome is one of a few levels: no low bits can be attacked.

    >>> levels = best_levels(6.0)
    >>> levels.k, round(levels.second(1.0), 3)
    (8, 1.008)
    """

    epsilon: Epsilon
    k: int

    def release(self, value: float, noise: Noise) -> float:
        """Return a random number whose mean is ``value``."""
        level = math.floor(value * self.k)
        level += int(noise.uniform(1)[0] < value * self.k - level)
        coin, other = noise.integer(_CHANCES), noise.integer(self.k)
        if coin < self._lost:
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
    def _lost(self) -> int:
        # Rounded up, and a little on top for the floats: the odds for the true level are never more than e^epsilon.
        odds = self.k * math.exp(-self.epsilon)
        return math.ceil(odds / (1.0 + odds) * (1.0 + 2.0**-40) * _CHANCES)

    @property
    def _keep(self) -> float:
        return 1.0 - self._lost / _CHANCES

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
