"""What a claim is, and the statistics by which it is judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from pausefl.report.seed_statistics import t_half_width, t_test
from pausefl.studies.evidence import Evidence

Verdict: TypeAlias = Literal[
    "does not hold", "one seed says no", "too early", "undecided", "one seed says yes", "holds"
]  # fmt: skip
"""From the worst to the best.  *Too early*: PAUSE was still trying out clients for the first time."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict on one mean beside one bound, and the p-value of the t test behind it; None with one seed."""

    verdict: Verdict
    p: float | None


@dataclass(frozen=True, slots=True)
class Finding:
    """What one study says about a claim.

    Attributes:
        comparisons: the comparisons that the verdict rests on; none where what was recorded is only checked.
        corrected: the verdict after Holm's correction; None if there is nothing to correct.
        p: the corrected p-value that decides it.
    """

    study: str
    verdict: Verdict
    figure: str
    comparisons: Sequence[Comparison] = ()
    corrected: Verdict | None = None
    p: float | None = None

    @classmethod
    def compared(cls, study: str, figure: str, *comparisons: Comparison) -> Finding:
        """Return the finding that rests on these comparisons: all of them must hold."""
        return cls(study, worst(one.verdict for one in comparisons), figure, comparisons)


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the paper or of ours, how it is tested, and a possible explanation where it fails.

    Attributes:
        before_runs: for a claim of ours, whether the history of the project has it before the runs that judge it.  A
            claim that came with or after them may have been suggested by them.  None for the paper's.
    """

    text: str
    test: str
    explanation: str
    judge: Callable[[Evidence], Iterable[Finding]]
    before_runs: bool | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds with its 95 % interval (Student's t); one seed has none, nor have two that agree exactly."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> Estimate:
        """Return the estimate from one value per seed."""
        return cls(tuple(map(float, values)))

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return float(np.mean(self.values))

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return t_half_width(self.values)

    @property
    def seeds(self) -> int:
        """How many seeds there are."""
        return len(self.values)

    def __str__(self) -> str:
        if self.seeds == 1:
            return f"{self.short} (one seed)"
        return f"{self.short} ({'both' if math.isinf(self.half_width) else self.seeds} seeds)"

    @property
    def short(self) -> str:
        """The mean and its interval, without the number of seeds."""
        known = self.seeds > 1 and math.isfinite(self.half_width)
        return f"{_round(self.mean)} ± {_round(self.half_width)}" if known else _round(self.mean)

    def above(self, bound: float) -> Comparison:
        """Judge 'the mean is above the bound'; a single seed cannot decide, so it has verdicts of its own."""
        if self.seeds == 1:
            return Comparison("one seed says yes" if self.mean > bound else "one seed says no", None)
        return Comparison(self._above(bound), self._p(bound))

    def below(self, bound: float) -> Comparison:
        """Judge 'the mean is below the bound'."""
        return Estimate.of(-value for value in self.values).above(-bound)

    def within(self, bound: float) -> Comparison:
        """Judge 'the mean is less than this far from 0', either way."""
        sign = math.copysign(1.0, self.mean)
        return Estimate.of(sign * value for value in self.values).below(bound)

    def _above(self, bound: float) -> Verdict:
        mean, half_width = self.mean, self.half_width
        if mean - half_width > bound:
            return "holds"
        return "does not hold" if half_width == 0.0 or mean + half_width < bound else "undecided"

    def _p(self, bound: float) -> float:
        """Return at which level the interval begins to include the bound: 0 without width, and 1 without an end."""
        if math.isinf(self.half_width):
            return 1.0
        p = t_test(self.values, about=bound)
        return 0.0 if p is None else p


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on all of several conditions together."""
    return min(verdicts, key=get_args(Verdict).index)


def _round(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
