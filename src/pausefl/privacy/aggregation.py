"""How a server averages releases whose noise it knows: their weights, the step, and a mean of models to score.

The noise of a release follows from numbers that are public: its epsilon, its dimension and the mechanism's settings.
Nothing else of a client comes in here, so nothing else can be told by what comes out.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pausefl.errors import is_finite, require
from pausefl.privacy.mechanisms.base import NoiseLevel
from pausefl.types import FloatArray

Rule: TypeAlias = Literal["plain", "matched"]

_LOG = logging.getLogger("pausefl")
_WARM = 16
"""Early rounds learn fast, so the mean of models remembers 1 in 17 of the rounds so far, until it has all it may."""
_THREADS_FROM = 460_800
"""The size of a float32 matrix from which OpenBLAS multiplies it with a vector on several threads."""


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How a round's releases become a change of the model.

    ``plain`` weighs releases as it is told and takes the whole ``step``.  ``matched`` is for releases that get noisier:
    the noisier a release, the less it weighs, and the noisier a round, the shorter its step.  ``average`` is the share
    of the mean of models that stays from round to round; the mean is scored, but never trained from.
    """

    rule: Rule = "plain"
    step: float = 1.0
    average: float = 0.0

    def __post_init__(self) -> None:
        require(
            self.rule in ("plain", "matched"),
            "aggregation",
            self.rule,
            "'plain' or 'matched'",
            "'plain' is the default",
        )
        require(is_finite(self.step) and self.step > 0.0, "step", self.step, "a finite number above 0", "1 is common")
        fine = is_finite(self.average) and 0.0 <= self.average < 1.0
        require(fine, "average", self.average, "0 or more, and less than 1", "0 scores the model itself")

    @property
    def memory(self) -> float:
        """How many models the mean is made of."""
        return 1.0 / (1.0 - self.average)


def matched_weights(plain: FloatArray, noise: FloatArray, signal: float, memory: float) -> FloatArray:
    """Return the plain weights, each divided by how far its release may be from what all clients mean.

    That is its ``noise``, and the difference between clients, which is at most ``signal``, the largest that an update
    can be.  Who is left out is left out round after round: over ``memory`` rounds that adds up in length, and noise in
    square, so the difference counts ``memory`` times.  Where noise is small beside it, everybody's data counts.  Only
    ratios of weights matter.

    Laws: none is negative, and one is above 0.  Of two releases with the same plain weight, the louder never weighs
    more.  With equal noise they are the plain ones, to the bit.

    >>> matched_weights(np.ones(2), np.array([1.0, 13.0]), signal=0.5, memory=6.0).tolist()
    [1.0, 0.25]
    """
    apart = noise + memory * signal
    return np.asarray(plain * (apart.min() / apart))


def matched_step(noise: float, first: float, signal: float, memory: float) -> float:
    """Return which share of the step a round is worth: all of it while signal can outgrow noise, less beyond.

    All but ``memory`` are squared norms, of a round's mean update: its ``noise``, that of the ``first`` round, and the
    largest ``signal`` there can be.  Over as many rounds as the mean of models remembers, signal adds up in length and
    noise in square: memory^2 x signal against memory x noise.  While the first is larger, or the round no noisier than
    the first one, the step is whole.  Beyond, it falls as 1 / noise.  That is the matched filter over rounds, which
    weighs each by its signal over its noise; and a model that is pulled back by a bounded signal then wanders no
    further, however loud the rounds become.

    >>> matched_step(50.0, first=1.0, signal=0.5, memory=20.0)
    0.2
    """
    return min(1.0, max(first, memory * signal) / noise)


def weighted_sum(shares: npt.NDArray[np.float32], updates: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the sum of the updates (a row each), each times its share.

    OpenBLAS begins to use threads at a certain size.  They then spin for 12 ms, which is longer than a short round, and
    the last bits depend on how many there are.  Halves that are below this size are what two threads make of it.
    """
    count, length = updates.shape
    half = -(-length // 2)
    if count * length < _THREADS_FROM or count * half >= _THREADS_FROM:
        return shares @ updates
    return np.concatenate([shares @ updates[:, :half], shares @ updates[:, half:]])


class Aggregator:
    """A server's side of a run: the weights of releases and the steps, round by round, and the mean of the models.

    Law: it is told plain weights and public noise levels, and no update; its state is all that it knows of the past.
    """

    def __init__(self, settings: Aggregation) -> None:
        self.settings = settings
        self._first = math.nan
        self._mean: FloatArray = np.empty(0)
        self._rounds = 0
        self._told = False

    def weigh(self, plain: FloatArray, levels: Sequence[NoiseLevel | None]) -> tuple[FloatArray, float]:
        """Return the weights of a round's releases, up to a factor, and the step to take with their mean.

        A release that does not tell its noise is taken to be as loud as the loudest that does; where none does,
        the round is a plain one.
        """
        step = self.settings.step
        if self.settings.rule == "plain":
            return plain, step
        known = [level for level in levels if level is not None]
        if not known:
            if not self._told:
                _LOG.warning(
                    "pausefl: no release tells its noise, or too few do, so the server aggregates them as with "
                    "aggregation = 'plain'"
                )
            self._told = True
            return plain, step
        loudest = max(known, key=lambda level: level.noise)
        noise, signals = (np.array([getattr(x or loudest, name) for x in levels]) for name in ("noise", "signal"))
        weights = matched_weights(plain, noise, float(signals.mean()), self.settings.memory)
        shares = weights / weights.sum()
        total, signal = float(shares**2 @ noise), float(shares @ np.sqrt(signals)) ** 2
        if math.isnan(self._first):
            self._first = total
        return weights, step * matched_step(total, self._first, signal, self.settings.memory)

    def remember(self, model: npt.NDArray[Any]) -> None:
        """Take the model of a round, flat, into the mean."""
        if self.settings.average == 0.0:
            return
        self._rounds += 1
        new = np.asarray(model, dtype=np.float64)
        if self._rounds == 1:
            self._mean = new
        else:
            share = max(1.0 - self.settings.average, (1.0 + _WARM) / (self._rounds + _WARM))
            self._mean = self._mean + share * (new - self._mean)

    @property
    def mean(self) -> FloatArray | None:
        """The mean of the models so far; None if none is kept."""
        return self._mean if self._rounds else None

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return what a later process needs to continue."""
        if not self._rounds and math.isnan(self._first):
            return {}
        return {"first": np.array([self._first]), "mean": self._mean, "rounds": np.array([self._rounds])}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from what ``state`` returned; an empty one is the start."""
        self._first = float(state["first"][0]) if state else math.nan
        self._rounds = int(state["rounds"][0]) if state else 0
        self._mean = np.array(state["mean"]) if state else np.empty(0)
