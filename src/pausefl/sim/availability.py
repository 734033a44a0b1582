"""Who is there when a round begins: by chance, in spells, by the time of day, or as it was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pausefl.errors import is_finite, require
from pausefl.types import BoolArray, FloatArray


class Availability(Protocol):
    """Decides who is online, from who was online the round before and from the number of the round."""

    def step(self, before: BoolArray, rng: np.random.Generator, number: int) -> BoolArray:
        """Return who is online in round ``number``."""
        ...


@dataclass(frozen=True, slots=True)
class Bernoulli:
    """Each client is there with the same probability, independently in every round."""

    probability: float

    def __post_init__(self) -> None:
        _require_probability("availability", self.probability)

    def step(self, before: BoolArray, rng: np.random.Generator, number: int) -> BoolArray:
        """Return who is online in round ``number``."""
        return rng.random(len(before)) < self.probability


@dataclass(frozen=True, slots=True)
class OnOff:
    """A Markov chain per client: who is there leaves with ``leave``, who is away returns with ``back``.

    Everybody is there at first; in the long run a client is there back / (leave + back) of the time.
    """

    leave: float
    back: float

    def __post_init__(self) -> None:
        _require_probability("leave", self.leave)
        _require_probability("back", self.back)

    def step(self, before: BoolArray, rng: np.random.Generator, number: int) -> BoolArray:
        """Return who is online in round ``number``."""
        luck = rng.random(len(before))
        return np.where(before, luck >= self.leave, luck < self.back)


@dataclass(frozen=True, slots=True, eq=False)
class Diurnal:
    """Day and night: the probability to be there rises and falls by ``swing``, once in ``period`` rounds.

    In round n, client k is there with probability + swing · sin(2π (n / period + zone_k)), independently of other
    rounds.  Over a whole period the mean is ``probability`` for every client.  ``zones`` are the clients' time zones,
    as parts of a day from 0 to 1.

    >>> Diurnal(0.5, swing=0.4, period=4, zones=np.array([0.0, 0.5])).chance(1).round(3).tolist()
    [0.9, 0.1]
    """

    probability: float
    swing: float
    period: int
    zones: FloatArray

    def __post_init__(self) -> None:
        _require_probability("probability", self.probability)
        room = most_swing(self.probability)
        fine = is_finite(self.swing) and 0.0 <= self.swing <= room
        require(
            fine, "swing", self.swing, f"from 0 to {room:g}", "lower it, so that the probability stays between 0 and 1"
        )
        require(self.period >= 2, "period", self.period, "2 rounds or more", "it is the length of a day")
        require(
            bool(np.isfinite(self.zones).all()),
            "zones",
            "NaN or infinite",
            "finite",
            "pass parts of a day, from 0 to 1",
        )

    def chance(self, number: int) -> FloatArray:
        """Return each client's probability to be there in round ``number``."""
        day = number % self.period / self.period  # exact for any round, however late
        wave: FloatArray = np.sin(2.0 * np.pi * (day + self.zones))
        return self.probability + self.swing * wave

    def step(self, before: BoolArray, rng: np.random.Generator, number: int) -> BoolArray:
        """Return who is online in round ``number``."""
        require(len(self.zones) == len(before), "zones", len(self.zones), str(len(before)), "pass one per client")
        return rng.random(len(before)) < self.chance(number)


@dataclass(frozen=True, slots=True, eq=False)
class AvailabilityTrace:
    """Recorded presence, a row per round and a column per client; each round draws one of the rows."""

    table: BoolArray

    def step(self, before: BoolArray, rng: np.random.Generator, number: int) -> BoolArray:
        """Return who is online in round ``number``."""
        require(
            self.table.shape[1] == len(before), "columns", self.table.shape[1], str(len(before)), "pass one per client"
        )
        row: BoolArray = self.table[int(rng.integers(len(self.table)))]
        return row.copy()


def most_swing(probability: float) -> float:
    """Return how far a probability can rise and fall without leaving the numbers from 0 to 1."""
    return round(min(probability, 1.0 - probability), 12)  # 0.3 beside 0.7, in spite of binary fractions


def _require_probability(name: str, value: float) -> None:
    require(is_finite(value) and 0.0 <= value <= 1.0, name, value, "from 0 to 1", "it is a probability per round")
