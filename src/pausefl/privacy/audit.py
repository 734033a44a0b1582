"""The audit: attack a mechanism on the inputs that differ most, and bound from below what it must have leaked.

Reference: Jagielski, Ullman and Oprea (2020) and Nasr et al. (2021) for the bound; Mironov (2012) for the low bits.

If a mechanism is (epsilon, delta)-DP, every event has P(event | a) <= e^epsilon P(event | b) + delta.  The event is
chosen on one half of the runs and measured on the other, so choosing costs no confidence; each of the two
probabilities gets a one-sided Clopper-Pearson bound at half of the error, so that both hold together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from pausefl.errors import require
from pausefl.privacy.mechanism import Mechanism
from pausefl.privacy.noise import Noise
from pausefl.types import BoolArray, Epsilon, FloatArray

_LEVELS = ((4.0, -4.0), (0.0, 4.0))
"""Pairs of inputs in units of the clip, beyond it on purpose: a clip that comes too late then shows."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What the attack achieved.  A correct mechanism is accused in at most ``error`` of all audits."""

    mechanism: str
    source: str
    private: bool
    claimed: Epsilon
    delta: float
    lower: Epsilon
    event: str
    runs: int
    error: float

    @property
    def passed(self) -> bool:
        """Whether the claim survived; never a proof of it."""
        return self.lower <= self.claimed


@dataclass(frozen=True, slots=True)
class Event:
    """A side of a threshold on one number seen."""

    low_bits: bool
    above: bool
    threshold: float

    def holds(self, seen: FloatArray) -> BoolArray:
        """Return in which runs it happened."""
        score = low_bit(seen) if self.low_bits else seen
        return score >= self.threshold if self.above else score < self.threshold

    def __str__(self) -> str:
        what = "lowest set bit" if self.low_bits else "output"
        return f"{what} {'>=' if self.above else '<'} {self.threshold:.6g}"


def audit(
    mechanism: Mechanism, epsilon: Epsilon, noise: Noise, *, runs: int = 20_000, error: float = 0.05,
    low_bits: bool | None = None,
) -> Audit:  # fmt: skip
    """Attack ``mechanism`` with ``runs`` releases of each input; the bound holds with confidence 1 - ``error``.

    ``low_bits`` also looks at the last bits of the floats, where noise from plain floats gives its input away; left
    out, it does so for sources that claim to be private.

    >>> from pausefl.privacy import Laplace, SimulatedNoise
    >>> noise = SimulatedNoise(np.random.default_rng(0))
    >>> found = audit(Laplace(unit="coordinate", width=0.003), 1.5, noise)
    >>> found.passed, found.lower > 1.3
    (True, True)
    """
    require(runs >= 100, "runs", runs, "100 or more", "fewer show nothing")
    require(0.0 < error < 0.5, "error", error, "between 0 and 0.5", "0.05 is common")
    bits = noise.private if low_bits is None else low_bits
    seen = {x: mechanism.trials(x, runs, epsilon, noise) for x in sorted({x for pair in _LEVELS for x in pair})}
    delta, half = mechanism.guarantee.delta, runs // 2
    candidates = [
        (*_best_event(seen[a][:half], seen[b][:half], delta, with_bits), a, b)
        for pair in _LEVELS
        for a, b in (pair, pair[::-1])
        for with_bits in ((False, True) if bits else (False,))
    ]
    _, event, a, b = max(candidates, key=lambda candidate: candidate[0])
    hits = int(event.holds(seen[a][half:]).sum()), int(event.holds(seen[b][half:]).sum())
    lower = epsilon_bound(*hits, runs - half, delta, error)
    said = f"{event}, inputs {a:g} and {b:g} times the clip"
    return Audit(repr(mechanism), noise.name, noise.private, epsilon, delta, lower, said, runs, error)


def epsilon_bound(hits_a: int, hits_b: int, runs: int, delta: float, error: float) -> Epsilon:
    """Return the largest epsilon that these counts rule out, with confidence 1 - ``error``; at least 0.

    >>> round(epsilon_bound(900, 100, 1000, 0.0, 0.05), 2)
    1.99
    """
    # Clopper and Pearson (1934): the limits are quantiles of beta distributions.
    low = float(betaincinv(hits_a, runs - hits_a + 1, error / 2.0)) if hits_a else 0.0
    high = float(betaincinv(hits_b + 1, runs - hits_b, 1.0 - error / 2.0)) if hits_b < runs else 1.0
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


def low_bit(seen: FloatArray) -> FloatArray:
    """Return the exponent of the lowest set bit of each float, 1074 for a zero, which has none."""
    mantissa, exponent = np.frexp(seen)
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 54 + exponent
    return np.where(whole == 0, 1074.0, lowest).astype(np.float64)


def _best_event(first: FloatArray, second: FloatArray, delta: float, bits: bool) -> tuple[float, Event]:
    """Return the event that accuses most on these runs, by an estimate that rare events cannot win by luck."""
    x, y = (low_bit(first), low_bit(second)) if bits else (first, second)
    cuts = np.unique(np.quantile(np.concatenate([x, y]), np.linspace(0.0, 1.0, 401)))
    below_x = np.searchsorted(np.sort(x), cuts) / len(x)
    below_y = np.searchsorted(np.sort(y), cuts) / len(y)
    best = (-math.inf, Event(bits, True, 0.0))
    for above in (True, False):
        p, q = (1.0 - below_x, 1.0 - below_y) if above else (below_x, below_y)
        spread = 3.0 * np.sqrt(np.maximum(p, 1.0 / len(x)) / len(x))
        rough = np.log(np.maximum(p - spread - delta, 1e-300) / (q + 3.0 * np.sqrt(q / len(y)) + 4.0 / len(y)))
        place = int(np.argmax(rough))
        best = max(best, (float(rough[place]), Event(bits, above, float(cuts[place]))), key=lambda found: found[0])
    return best
