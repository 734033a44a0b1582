"""What a claim is, and the statistics by which it is judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from pausefl.report.seed_statistics import t_half_width
from pausefl.studies.evidence import Evidence

Verdict: TypeAlias = Literal[
    "does not hold", "one seed says no", "too early", "undecided", "one seed says yes", "holds"
]  # fmt: skip
"""From the worst to the best.  *Too early*: PAUSE has not yet tried every client."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one study says about a claim."""

    study: str
    verdict: Verdict
    figure: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the paper, how it is tested, and a possible explanation where it fails."""

    text: str
    test: str
    explanation: str
    judge: Callable[[Evidence], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds with its 95 % interval (Student's t); one seed has none, nor have two that agree exactly."""

    mean: float
    half_width: float
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Return the estimate from one value per seed."""
        return cls(float(np.mean(values)), t_half_width(values), len(values))

    def __str__(self) -> str:
        if self.seeds == 1:
            return f"{_round(self.mean)} (one seed)"
        if math.isinf(self.half_width):
            return f"{_round(self.mean)} (both seeds)"
        return f"{_round(self.mean)} ± {_round(self.half_width)} ({self.seeds} seeds)"

    def above(self, bound: float) -> Verdict:
        """Judge 'the mean is above the bound'; a single seed cannot decide, so it has verdicts of its own."""
        if self.seeds == 1:
            return "one seed says yes" if self.mean > bound else "one seed says no"
        if self.mean - self.half_width > bound:
            return "holds"
        known = self.half_width == 0.0 or self.mean + self.half_width < bound
        return "does not hold" if known else "undecided"

    def below(self, bound: float) -> Verdict:
        """Judge 'the mean is below the bound'."""
        return Estimate(-self.mean, self.half_width, self.seeds).above(-bound)

    def within(self, bound: float) -> Verdict:
        """Judge 'the mean is less than this far from 0', either way."""
        return Estimate(abs(self.mean), self.half_width, self.seeds).below(bound)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on all of several conditions together."""
    return min(verdicts, key=get_args(Verdict).index)


def _round(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
