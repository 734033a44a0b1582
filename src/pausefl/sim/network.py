"""The network: who is there when a round begins, and what it costs in time (latency, what goes wrong, deadline).

Reference: PAUSE, eq. (Commlatency); the congestion term of reward R2, Section V-A.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from pausefl.errors import is_finite, require
from pausefl.rewards.set_rewards import collisions
from pausefl.rng import stream
from pausefl.sim.availability import Availability
from pausefl.sim.disturbances import Drift, Jams, LateJoiners
from pausefl.sim.latency import LatencyModel
from pausefl.types import BoolArray, FloatArray, IntArray, Seconds


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """How a round went, a number per member."""

    latency: FloatArray  # what the server can observe: NaN without an answer, the deadline for the late
    arrived: BoolArray
    seconds: Seconds  # how long the round took


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """Latencies and what may go wrong; every round is a function of (seed, round) and of who was there before it.

    A client that drops out is noticed at once and not waited for.  With a deadline the late are left out, their latency
    is observed as the deadline, and the round lasts until then.  A client that straggles trains, pays for its release
    and is never heard of.  Nobody can tell it from a slow one, so the round lasts until the deadline; no latency is
    observed.

    ``latency`` tells the latencies without drift and jams.  In round n its ``expected()`` must be multiplied by
    ``slowdown(n)``, and its ``mean_speed(…)`` divided by it.
    """

    latency: LatencyModel
    seed: int
    availability: Availability | None = None
    dropout: float = 0.0
    deadline: Seconds | None = None
    clusters: IntArray | None = None
    congestion: Seconds = 0.0  # delta_tau: added per collision within a cluster
    _: KW_ONLY
    straggle: float = 0.0
    drift: Drift | None = None
    jams: Jams | None = None
    late: LateJoiners | None = None

    def __post_init__(self) -> None:
        for name, value in (("dropout", self.dropout), ("straggle", self.straggle)):
            fine = is_finite(value) and 0.0 <= value < 1.0
            require(fine, name, value, "from 0 to below 1", "it is a probability per round")
        if self.deadline is not None:
            require(
                is_finite(self.deadline) and self.deadline > 0,
                "deadline",
                self.deadline,
                "above 0",
                "leave it out to wait for all",
            )
        require(
            self.straggle == 0.0 or self.deadline is not None, "straggle", self.straggle, "0 without a deadline",
            "set a deadline, or rounds would never end",
        )  # fmt: skip
        require(
            is_finite(self.congestion) and self.congestion >= 0,
            "congestion",
            self.congestion,
            "0 or more",
            "for example 0.05",
        )
        require(
            self.jams is None or self.clusters is not None,
            "clusters",
            None,
            "given where links jam",
            "pass a cluster for each client",
        )

    def online(self, before: BoolArray, number: int) -> BoolArray:
        """Return who is there in round ``number``; who joins late is away until then, and begins as others began."""
        clients, late = len(before), self.late
        if late is not None:
            before = before | ~late.joined(clients, self.seed, number - 1)
        there = before
        if self.availability is not None:
            there = self.availability.step(before, stream(self.seed, "availability", number), number)
        return there if late is None else there & late.joined(clients, self.seed, number)

    def slowdown(self, number: int) -> FloatArray:
        """Return how many times as long as ``latency`` says each client takes in round ``number``: drift and jams."""
        factor = np.ones(len(self.latency))
        if self.drift is not None:
            factor = factor * self.drift.slowdown(len(factor), self.seed, number)
        if self.jams is not None and self.clusters is not None:
            factor = factor * self.jams.slowdown(self.clusters, self.seed, number)
        return factor

    def play(self, members: IntArray, number: int) -> Outcome:
        """Return how round ``number`` goes with these members; the rehearsal before the first round is number 0."""
        latency = self.latency.sample(stream(self.seed, "latency", number))[members]
        if self.drift is not None or self.jams is not None:
            latency = latency * self.slowdown(number)[members]
        gone = self._by_chance("dropout", self.dropout, members, number)
        silent = self._by_chance("straggle", self.straggle, members, number) & ~gone
        limit = np.inf if self.deadline is None else self.deadline
        latency = np.where(silent, np.inf, latency)
        waited_for = np.minimum(latency[~gone], limit)
        seconds = float(waited_for.max(initial=0.0))
        if self.clusters is not None:
            seconds += self.congestion * collisions(self.clusters[members])
        observed = np.where(gone | silent, np.nan, np.minimum(latency, limit))
        return Outcome(observed, ~gone & (latency <= limit), seconds)

    def _by_chance(self, purpose: str, probability: float, members: IntArray, number: int) -> BoolArray:
        """Return to which members this happens in round ``number``."""
        if probability == 0.0:
            return np.zeros(len(members), dtype=np.bool_)
        return stream(self.seed, purpose, number).random(len(self.latency))[members] < probability
