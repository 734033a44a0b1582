"""The audit: attack a mechanism on the inputs that differ most, and bound from below what it must have leaked.

Reference: Jagielski, Ullman and Oprea (2020) and Nasr et al. (2021) for the bound; Mironov (2012) for the low bits.

If a mechanism is (epsilon, delta)-DP, every event has P(event | a) <= e^epsilon P(event | b) + delta.  The event is
chosen on one half of the runs, as the one with the largest bound there, and measured on the other, so choosing costs no
confidence; each of the two probabilities gets a one-sided Clopper-Pearson bound at half of the error, so that both hold
together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaincinv

from pausefl.errors import require
from pausefl.privacy.mechanisms.base import Mechanism
from pausefl.privacy.mechanisms.noise import Noise
from pausefl.types import BoolArray, Epsilon, FloatArray, IntArray

_LEVELS = ((4.0, -4.0), (0.0, 4.0))
"""Pairs of inputs in units of the clip, beyond it on purpose: a clip that comes too late then shows."""
_CHOOSING = 1e-6
"""The error of the bound by which the event is chosen: among thousands of events, a rare one must not win by luck."""
_NEVER = 1e-300


@dataclass(frozen=True, slots=True)
class Audit:
    """What the attack achieved.  A correct mechanism is accused in at most ``error`` of all audits."""

    mechanism: str
    source: str
    private: bool
    claimed: Epsilon
    delta: float
    lower: Epsilon
    attainable: Epsilon
    """What as many runs show of a mechanism without any noise: an epsilon above it cannot be refuted."""
    event: str
    runs: int
    error: float

    @property
    def passed(self) -> bool:
        """Whether the claim survived; never a proof of it."""
        return self.lower <= self.claimed

    @property
    def verdict(self) -> str:
        """What the attack says of the claim."""
        if not self.passed:
            return "BROKEN"
        if self.attainable <= self.claimed:
            return f"inconclusive: at most {self.attainable:.3f} could be shown with {self.runs} runs; raise --runs"
        return "not refuted"


@dataclass(frozen=True, slots=True)
class Event:
    """A side of a threshold on one number seen: a coordinate, or the norm of all."""

    view: int | None
    low_bits: bool
    above: bool
    threshold: float

    def holds(self, seen: FloatArray) -> BoolArray:
        """Return in which runs it happened."""
        score = self.score(seen)
        return score >= self.threshold if self.above else score < self.threshold

    def score(self, seen: FloatArray) -> FloatArray:
        """Return the number seen in each run."""
        # A norm that is constant up to rounding tells nothing but its rounding, which only low bits may speak of.
        norms = np.linalg.norm(seen, axis=1).astype(np.float32).astype(np.float64)
        values: FloatArray = norms if self.view is None else seen[:, self.view]
        return low_bit(values) if self.low_bits else values

    def __str__(self) -> str:
        what = "norm" if self.view is None else f"coordinate {self.view}"
        bits = "lowest set bit of " if self.low_bits else ""
        return f"{bits}{what} {'>=' if self.above else '<'} {self.threshold:.6g}"


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
    # The first coordinate is where the inputs differ; noise that leaks into its neighbour or the norm shows there.
    views: list[tuple[int | None, bool]] = [(0, False), (1, False), (None, False), *([(0, True)] if bits else [])]
    candidates = [
        (*_best_event(seen[a][:half], seen[b][:half], delta, Event(view, with_bits, True, 0.0)), a, b)
        for pair in _LEVELS
        for a, b in (pair, pair[::-1])
        for view, with_bits in views
    ]
    _, event, a, b = max(candidates, key=lambda candidate: candidate[0])
    hits = int(event.holds(seen[a][half:]).sum()), int(event.holds(seen[b][half:]).sum())
    lower = epsilon_bound(*hits, runs - half, delta, error)
    most = epsilon_bound(runs - half, 0, runs - half, delta, error)
    said = f"{event}, inputs {a:g} and {b:g} times the clip"
    return Audit(repr(mechanism), noise.name, noise.private, epsilon, delta, lower, most, said, runs, error)


def epsilon_bound(hits_a: int, hits_b: int, runs: int, delta: float, error: float) -> Epsilon:
    """Return the largest epsilon that these counts rule out, with confidence 1 - ``error``; at least 0.

    >>> round(epsilon_bound(900, 100, 1000, 0.0, 0.05), 2)
    1.99
    """
    return max(0.0, float(_bounds(np.array(hits_a), np.array(hits_b), runs, delta, error)))


def low_bit(seen: FloatArray) -> FloatArray:
    """Return the exponent of the lowest set bit of each float, 1074 for a zero, which has none."""
    mantissa, exponent = np.frexp(seen)
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 54 + exponent
    return np.where(whole == 0, 1074.0, lowest).astype(np.float64)


def _bounds(hits_a: IntArray, hits_b: IntArray, runs: int, delta: float, error: float) -> FloatArray:
    # Clopper and Pearson (1934): the limits are quantiles of beta distributions.
    some, most = np.maximum(hits_a, 1), np.minimum(hits_b, runs - 1)
    low = np.where(hits_a > 0, betaincinv(some, runs - some + 1, error / 2.0), 0.0)
    high = np.where(hits_b < runs, betaincinv(most + 1, runs - most, 1.0 - error / 2.0), 1.0)
    bounds: FloatArray = np.log(np.maximum(low - delta, _NEVER) / high)
    return bounds


def _best_event(first: FloatArray, second: FloatArray, delta: float, kind: Event) -> tuple[float, Event]:
    """Return the event of this kind that accuses most, by the bound that will be taken of it."""
    x, y = np.sort(kind.score(first)), np.sort(kind.score(second))
    cuts = np.unique(np.quantile(np.concatenate([x, y]), np.linspace(0.0, 1.0, 401)))
    below = np.searchsorted(x, cuts), np.searchsorted(y, cuts)
    best = (-math.inf, kind)
    for above in (True, False):
        p, q = (len(x) - below[0], len(y) - below[1]) if above else below
        bounds = _bounds(p, q, len(x), delta, _CHOOSING)
        place = int(np.argmax(bounds))
        found = replace(kind, above=above, threshold=float(cuts[place]))
        best = max(best, (float(bounds[place]), found), key=lambda one: one[0])
    return best
