"""What the audit looks at in a trial: coordinates, projections, likelihoods, norms, exact matches and low bits.

Each view makes one number of a trial.  Views may be fitted to some trials and used on others.  Whatever they compute is
a function of what was released, so no view can accuse a mechanism that keeps its promise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pausefl.privacy.audit.bounds import low_bit
from pausefl.privacy.audit.input_pairs import InputPair, bounded
from pausefl.privacy.mechanisms.base import Guarantee
from pausefl.types import BoolArray, FloatArray

_ENOUGH = 4
"""Trials per number that a fit of all correlations needs."""


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """All views of one pair, fitted."""

    pair: InputPair
    first: FloatArray
    second: FloatArray
    means: tuple[FloatArray, FloatArray]
    spreads: tuple[FloatArray, FloatArray]
    direction: FloatArray
    """That tells the two apart best if the noise were Gaussian, with all its correlations."""
    low_bits: bool

    @classmethod
    def fit(cls, pair: InputPair, guarantee: Guarantee, seen: FloatArray, coins: BoolArray, low_bits: bool) -> Views:
        """Fit them to trials, a row each; ``coins`` says which had the first input."""
        numbers = _without_echo(pair, seen)
        ours, theirs = numbers[coins], numbers[~coins]
        means, spreads = (ours.mean(axis=0), theirs.mean(axis=0)), (ours.var(axis=0), theirs.var(axis=0))
        gap = means[0] - means[1]
        # A coordinate without noise has no spread at all: it counts more than all others, but not infinitely.
        floor = 1e-9 * float(np.mean(spreads) + np.mean(gap * gap)) + 1e-100
        spreads = spreads[0] + floor, spreads[1] + floor
        direction = gap
        if len(numbers) >= _ENOUGH * pair.size:
            both = np.cov(ours - means[0], rowvar=False) + np.cov(theirs - means[1], rowvar=False)
            both[np.diag_indices(pair.size)] += 1e-6 * float(np.trace(both)) / pair.size + floor
            direction = np.linalg.solve(both, gap)
        first, second = (bounded(one, guarantee, pair.count) for one in (pair.first, pair.second))
        return cls(pair, first, second, means, spreads, direction, low_bits)

    @property
    def names(self) -> list[str]:
        """What each column of ``scores`` is."""
        plain = [
            "projection on the difference", "likelihood ratio under Laplace noise", "fitted likelihood ratio",
            "fitted projection", "L1 norm", "L2 norm", "largest number", "smallest number",
            "numbers equal to the first input", "numbers equal to the second input", "distance to the first input",
        ]  # fmt: skip
        bits = [
            f"{which} lowest set bit of {what}"
            for what in ("all numbers", "all numbers less the first input")
            for which in ("mean", "smallest", "largest")
        ]
        bits.append("lowest set bit where the inputs differ most")
        return [f"coordinate {i}" for i in range(self.pair.size)] + plain + (bits if self.low_bits else [])

    def scores(self, seen: FloatArray) -> FloatArray:
        """Return a row per trial and a column per view."""
        numbers = _without_echo(self.pair, seen)
        size, left = np.abs(numbers), np.abs(numbers - self.first)
        plain = [
            numbers @ (self.first - self.second),
            np.abs(numbers - self.second).sum(axis=1) - left.sum(axis=1),
            self._likelihood(numbers),
            numbers @ self.direction,
            size.sum(axis=1), np.linalg.norm(numbers, axis=1), size.max(axis=1), size.min(axis=1),
            (left == 0.0).sum(axis=1), (numbers == self.second).sum(axis=1), left.min(axis=1),
        ]  # fmt: skip
        # What is constant up to rounding tells nothing but its rounding, which only low bits may speak of.
        with np.errstate(over="ignore"):
            columns = np.column_stack([numbers, *plain]).astype(np.float32).astype(np.float64)
        if self.low_bits:
            parts = [low_bit(numbers), low_bit(numbers - self.first)]
            bits = [one for part in parts for one in (part.mean(axis=1), part.min(axis=1), part.max(axis=1))]
            bits.append(parts[0][:, int(np.argmax(np.abs(self.first - self.second)))])
            columns = np.column_stack([columns, *bits])
        return columns

    def _likelihood(self, numbers: FloatArray) -> FloatArray:
        ratio: FloatArray = np.zeros(len(numbers))
        for sign, mean, spread in zip((-0.5, 0.5), self.means, self.spreads, strict=True):
            ratio += sign * ((numbers - mean) ** 2 / spread + np.log(spread)).sum(axis=1)
        return ratio


def _without_echo(pair: InputPair, seen: FloatArray) -> FloatArray:
    """Return the last release of each trial, less what came ``lag`` numbers before each of its numbers."""
    flat = seen.reshape(len(seen), -1)
    if pair.lag == 0:
        return flat
    return flat[:, -pair.size :] - pair.echo * flat[:, -pair.size - pair.lag : -pair.lag]
