"""The network: who is there when a round begins, and what it costs in time (latency, congestion, dropouts, deadline).

Reference: PAUSE, eq. (Commlatency); the congestion term of reward R2, Section V-A.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pausefl.errors import is_finite, require
from pausefl.rewards.set_rewards import collisions
from pausefl.rng import stream
from pausefl.sim.latency import LatencyModel
from pausefl.types import BoolArray, FloatArray, IntArray, Seconds


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


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """How a round went, a number per member."""

    latency: FloatArray  # what the server can observe: NaN without an answer, the deadline for the late
    arrived: BoolArray
    seconds: Seconds  # how long the round took


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """Latencies and what may go wrong; every round is a function of (seed, round).

    A dropped client is noticed at once and not waited for.  With a deadline the late are left out, their latency is
    observed as the deadline, and the round lasts until then.
    """

    latency: LatencyModel
    seed: int
    availability: Availability | None = None
    dropout: float = 0.0
    deadline: Seconds | None = None
    clusters: IntArray | None = None
    congestion: Seconds = 0.0  # delta_tau: added per collision within a cluster

    def __post_init__(self) -> None:
        require(
            0.0 <= self.dropout < 1.0, "dropout", self.dropout, "from 0 to below 1", "it is a probability per round"
        )
        if self.deadline is not None:
            require(
                is_finite(self.deadline) and self.deadline > 0, "deadline", self.deadline, "above 0", "leave it out"
            )
        require(
            is_finite(self.congestion) and self.congestion >= 0, "congestion", self.congestion, "0 or more", "try 0.05"
        )

    def online(self, before: BoolArray, number: int) -> BoolArray:
        """Return who is there in round ``number``."""
        if self.availability is None:
            return before
        return self.availability.step(before, stream(self.seed, "availability", number))

    def play(self, members: IntArray, number: int) -> Outcome:
        """Return how round ``number`` goes with these members; the rehearsal before the first round is number 0."""
        latency = self.latency.sample(stream(self.seed, "latency", number))[members]
        gone = stream(self.seed, "dropout", number).random(len(self.latency))[members] < self.dropout
        limit = np.inf if self.deadline is None else self.deadline
        waited_for = np.minimum(latency[~gone], limit)
        seconds = float(waited_for.max(initial=0.0))
        if self.clusters is not None:
            seconds += self.congestion * collisions(self.clusters[members])
        return Outcome(np.where(gone, np.nan, np.minimum(latency, limit)), ~gone & (latency <= limit), seconds)
