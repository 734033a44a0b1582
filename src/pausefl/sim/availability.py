"""Who is there when a round begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pausefl.errors import is_finite, require
from pausefl.types import BoolArray


class Availability(Protocol):
    """Decides who is online, from who was online the round before."""

    def step(self, before: BoolArray, rng: np.random.Generator) -> BoolArray:
        """Return who is online in the next round."""
        ...


@dataclass(frozen=True, slots=True)
class Bernoulli:
    """Each client is there with the same probability, independently in every round."""

    probability: float

    def __post_init__(self) -> None:
        _require_probability("availability", self.probability)

    def step(self, before: BoolArray, rng: np.random.Generator) -> BoolArray:
        """Return who is online in the next round."""
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

    def step(self, before: BoolArray, rng: np.random.Generator) -> BoolArray:
        """Return who is online in the next round."""
        luck = rng.random(len(before))
        return np.where(before, luck >= self.leave, luck < self.back)


@dataclass(frozen=True, slots=True, eq=False)
class AvailabilityTrace:
    """Recorded presence, a row per round and a column per client; each round draws one of the rows."""

    table: BoolArray

    def step(self, before: BoolArray, rng: np.random.Generator) -> BoolArray:
        """Return who is online in the next round."""
        require(self.table.shape[1] == len(before), "columns", self.table.shape[1], str(len(before)), "one per client")
        row: BoolArray = self.table[int(rng.integers(len(self.table)))]
        return row.copy()


def _require_probability(name: str, value: float) -> None:
    require(is_finite(value) and 0.0 <= value <= 1.0, name, value, "from 0 to 1", "it is a probability per round")
