"""Signals: how well a model does on a client's data, told under noise that is paid from the client's one budget.

A signal is worked out from data, so to tell it is a release.  References: Warner (1965) for randomised response; Dwork,
McSherry, Nissim and Smith (2006) for Laplace noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from pausefl.errors import is_finite, require
from pausefl.privacy.mechanisms.base import Unit
from pausefl.privacy.mechanisms.noise import Noise
from pausefl.privacy.schedule import FixedHorizon, Schedule
from pausefl.types import Epsilon

SignalKind: TypeAlias = Literal["noised", "bit", "bare"]

_ODDS = 2**62
_MOST_EPSILON = 40.0
"""Beyond, a wrong bit is rarer than the odds can say; who paid for more gets this."""
_TELLINGS = 20
"""For how many tellings the share is by default: at the usual budget of 40 each has an epsilon of 0.4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """How clients tell their loss or their accuracy, and what they have for it.

    ``bit``: whether the loss is above ``threshold``, by randomised response.  ``noised``: the loss itself, clipped to
    0 … ``bound``, with Laplace noise.  ``bare``: the loss as it is, which nothing protects and nobody pays for.

    ``share`` of the budget for life is kept for signals and spread equally over ``releases`` tellings; updates have the
    rest.  Left out, ``releases`` is 20, or what a fixed horizon allows if that is fewer.  After the last telling a
    client tells nothing more.

    Law: what updates and signals spend together never exceeds the budget.

    >>> from pausefl.privacy import Geometric
    >>> Signals(share=0.25, releases=10).parts(Geometric(budget=40.0, decay=0.04))
    (Geometric(budget=30.0, decay=0.04), FixedHorizon(budget=10.0, releases=10))
    """

    kind: SignalKind = "bit"
    share: float = 0.2
    releases: int | None = None
    bound: float = 4.6
    threshold: float = 1.0

    def __post_init__(self) -> None:
        known = ("noised", "bit", "bare")
        require(self.kind in known, "signals.kind", self.kind, f"one of {', '.join(known)}", "'bit' is the default")
        fine = is_finite(self.share) and 0.0 < self.share < 1.0
        require(fine, "signals.share", self.share, "above 0 and below 1", "0.2 leaves most of the budget to updates")
        fine = self.releases is None or self.releases >= 1
        require(fine, "signals.releases", self.releases, "a whole number from 1", "leave it out for the default")
        fine = is_finite(self.bound) and self.bound > 0.0
        require(fine, "signals.bound", self.bound, "a finite number above 0", "twice the loss of a guess is enough")
        fine = is_finite(self.threshold) and (0.0 < self.threshold < self.bound or self.kind != "bit")
        most = f"above 0 and below signals.bound = {self.bound:g}"
        require(fine, "signals.threshold", self.threshold, most, "half of the losses should be above it")

    def parts(self, schedule: Schedule) -> tuple[Schedule, FixedHorizon]:
        """Return a schedule cut in two: for updates, and for signals.  Both are paid from the same budget."""
        updates = (1.0 - self.share) * schedule.budget
        tellings = _TELLINGS if schedule.limit is None else min(_TELLINGS, schedule.limit)
        signals = FixedHorizon(schedule.budget - updates, self.releases or tellings)
        return cast(Schedule, replace(cast(Any, schedule), budget=updates)), signals

    def release(
        self, name: str, value: float, epsilon: Epsilon, noise: Noise, *, unit: Unit, records: int = 1
    ) -> float:  # fmt: skip
        """Return what may be told of a ``loss`` or an ``accuracy``, from 0 to the bound.

        ``value`` is the mean over so many ``records`` of numbers that were each clipped to 0 … bound.  With the unit
        ``record`` one of them may be replaced, which moves the mean by bound / records.  With any other unit all data
        may change, and the mean by the whole bound.

        A bit is all or nothing: one record can turn it, so it needs the same noise in every unit.  What is returned of
        it is a best guess at the value: the middle of the half that the bit names, drawn to the other half's by the
        chance that the bit is wrong.  So policies can rank it and reckon with it like a loss, and the less a bit can
        be trusted, the less it counts.

        >>> from pausefl.privacy import SimulatedNoise
        >>> noise = SimulatedNoise(np.random.default_rng(0))
        >>> [round(Signals().release("loss", loss, 3.0, noise, unit="update"), 2) for loss in (0.3, 2.7)]
        [0.61, 2.69]
        """
        bound = self.bound_of(name)
        value = bound if math.isnan(value) else min(max(value, 0.0), bound)  # a model that diverged has the worst loss
        if self.kind == "bare":
            return value
        if self.kind == "noised":
            told = np.array([value])
            noise.laplace(told, bound / records if unit == "record" else bound, epsilon, coordinates=1)
            return float(np.clip(told[0], 0.0, bound))  # policies take roots and logarithms of losses
        threshold = self.threshold if name == "loss" else bound / 2.0
        wrong = wrong_of(epsilon)
        said = (value > threshold) != (noise.integer(_ODDS) < wrong)
        high, low = (threshold + bound) / 2.0, threshold / 2.0
        doubt = wrong / _ODDS
        return (1.0 - doubt) * high + doubt * low if said else (1.0 - doubt) * low + doubt * high

    def bound_of(self, name: str) -> float:
        """Return the largest value of a signal."""
        return self.bound if name == "loss" else 1.0

    def sentence(self, tellings: int) -> str:
        """Say in a few words what is told and what pays for it."""
        if self.kind == "bare":
            return "un-noised losses are told besides, which it does not cover"
        how = "as one bit by randomised response" if self.kind == "bit" else "with Laplace noise"
        return f"signals are included: up to {tellings} tellings per client, {how}, for {self.share:g} of it"


def wrong_of(epsilon: Epsilon) -> int:
    """Return how many of 2^62 answers are wrong: 1 / (1 + e^epsilon), rounded to the private side.

    >>> wrong_of(math.log(3.0)) / 2**62
    0.25
    """
    odds = _ODDS / (1.0 + math.exp(min(epsilon, _MOST_EPSILON)))
    return min(math.ceil(odds * (1.0 + 2.0**-48)) + 1, _ODDS // 2)
