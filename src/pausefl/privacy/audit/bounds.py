"""From counts to epsilon: how often an event happened with each of two inputs, and what that rules out.

References: Clopper and Pearson (1934); Jagielski, Ullman and Oprea (2020); for the Gaussian curve Nasr et al., "Tight
Auditing of Differentially Private Machine Learning" (2023), and Dong, Roth and Su, "Gaussian Differential
Privacy" (2022).

A fair coin decides which of the two inputs each trial has, and an event is a guess at it: right, wrong, or none.  Every
bound holds with confidence 1 - ``error`` for one way of guessing that was chosen before the trials were made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
from scipy.special import betaincinv, ndtri

from pausefl.privacy.mechanisms.gaussian import gaussian_delta
from pausefl.privacy.zcdp import zcdp_epsilon
from pausefl.types import Epsilon, FloatArray, IntArray

_NEVER = 1e-300
_RATE = 0.05
"""The share of the error that the bound on how often there is a guess may use."""


Counts: TypeAlias = tuple[IntArray, IntArray, tuple[int, int]]
"""How often a guess was right and wrong, and how many trials had the guessed and the other input."""


class Bound(Protocol):
    """A lower bound on what leaks, in a measure of its own, and what that measure means as an epsilon."""

    both_sides: ClassVar[bool]
    """Whether some scores may be a guess at one input and others a guess at the other."""

    def lower(self, right: IntArray, wrong: IntArray, runs: tuple[int, int], error: float) -> FloatArray:
        """Return the bound for these counts."""
        ...

    def epsilon(self, lower: float) -> Epsilon:
        """Return the bound as an epsilon; at least 0."""
        ...


@dataclass(frozen=True, slots=True)
class AnyMechanism:
    """For whatever claims (epsilon, delta) and nothing else.  The measure is epsilon itself.

    With p and q the chances of guessing an input if it is the one and if it is the other, p <= e^epsilon q + delta, and
    the same with 2 delta if some scores guess the one and some the other.  Because of the coin, each guess is right
    with probability p / (p + q): one binomial, and so one bound instead of two.

    >>> bound = AnyMechanism(0.0)
    >>> round(bound.epsilon(bound.lower(np.array(900), np.array(100), (1000, 1000), 0.05)), 2)
    2.02
    """

    both_sides: ClassVar[bool] = True
    delta: float

    def lower(self, right: IntArray, wrong: IntArray, runs: tuple[int, int], error: float) -> FloatArray:
        """Return log((p - 2 delta) / q), bounded from below."""
        guesses, slack = right + wrong, np.zeros(np.shape(right))
        if self.delta > 0.0:
            # (p - 2 delta) / q = (p - 2 delta) / s / (1 - p / s), where s = p + q is twice the share of guesses.
            slack = self.delta / np.maximum(_least(guesses, sum(runs), _RATE * error), _NEVER)
            error *= 1.0 - _RATE
        share = _least(right, guesses, error)
        bounds: FloatArray = np.log(np.maximum(share - slack, _NEVER) / (1.0 - share))
        return bounds

    def epsilon(self, lower: float) -> Epsilon:
        """Return it, at least 0."""
        return max(0.0, float(lower))


@dataclass(frozen=True, slots=True)
class GaussianCurve:
    """For a mechanism that also claims the loss of Gaussian noise, as the tight figure of a ledger takes for granted.

    Such a mechanism obeys ndtri(p) - ndtri(q) <= mu for every event, where mu = sensitivity / sigma follows from the
    claim.  The measure is mu.  It needs far fewer runs than the tails, where epsilon and delta show.

    With ``in_rho`` the releases are paid in rho, and an epsilon stands for the rho that it is worth at this delta:
    Gaussian noise has rho = mu^2 / 2.  That epsilon is above the one that the same noise has by itself.
    """

    both_sides: ClassVar[bool] = False
    delta: float
    in_rho: bool = False

    def lower(self, right: IntArray, wrong: IntArray, runs: tuple[int, int], error: float) -> FloatArray:
        """Return mu, bounded from below."""
        p, q = _least(right, runs[0], error / 2.0), 1.0 - _least(runs[1] - wrong, runs[1], error / 2.0)
        bounds: FloatArray = ndtri(np.maximum(p, _NEVER)) - ndtri(np.maximum(q, _NEVER))
        return bounds

    def epsilon(self, lower: float) -> Epsilon:
        """Return the epsilon that Gaussian noise of this mu has, or is paid with, at the claimed delta."""
        if self.in_rho:
            return zcdp_epsilon(max(0.0, lower) ** 2 / 2.0, self.delta)
        if lower <= 0.0 or gaussian_delta(0.0, 1.0 / lower) <= self.delta:
            return 0.0
        low, high = 0.0, 1.0
        while gaussian_delta(high, 1.0 / lower) > self.delta:
            high *= 2.0
        for _ in range(60):
            middle = (low + high) / 2.0
            low, high = (middle, high) if gaussian_delta(middle, 1.0 / lower) > self.delta else (low, middle)
        return low


def low_bit(seen: FloatArray) -> FloatArray:
    """Return the exponent of the lowest set bit of each float, 1074 for a zero, which has none."""
    mantissa, exponent = np.frexp(seen)
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 54 + exponent
    return np.where(whole == 0, 1074.0, lowest).astype(np.float64)


def _least(hits: IntArray, runs: IntArray | int, error: float) -> FloatArray:
    # Clopper and Pearson (1934): the limit is a quantile of a beta distribution.
    some = np.maximum(hits, 1)
    least: FloatArray = np.where(hits > 0, betaincinv(some, np.maximum(runs - some, 0) + 1, error), 0.0)
    return np.minimum(least, 1.0 - 2.0**-53)
