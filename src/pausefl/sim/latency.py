"""How long clients take: latency models with known expectations.

Reference: PAUSE, Section V-A; the two groups with the values behind its published runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from scipy.special import ndtr, ndtri

from pausefl.errors import is_finite, require
from pausefl.types import FloatArray, Seconds

_BLOCK = 1024


class LatencyModel(Protocol):
    """Independent latencies per client and round."""

    def __len__(self) -> int:
        """Return the number of clients."""
        ...

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Draw one round's latency of every client."""
        ...

    def expected(self) -> FloatArray:
        """Return each client's expected latency."""
        ...

    def mean_speed(self, tau_min: Seconds) -> FloatArray:
        """Return each client's expectation of tau_min / latency."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FlooredNormal:
    """Normal latencies, floored: max(floor, Normal(mean_k, std²)).

    >>> FlooredNormal(np.array([0.5]), std=0.1, floor=0.05).mean_speed(0.05).round(4).tolist()
    [0.1046]
    """

    means: FloatArray
    std: Seconds
    floor: Seconds

    def __post_init__(self) -> None:
        for name, value in (("std", self.std), ("floor", self.floor)):
            require(math.isfinite(value) and value > 0.0, name, value, "a finite number of seconds above 0", "raise it")
        require(
            bool(np.isfinite(self.means).all()),
            "means",
            "NaN or infinite",
            "finite",
            "pass finite seconds for every client",
        )

    def __len__(self) -> int:
        return len(self.means)

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Draw one round's latency of every client."""
        drawn = rng.normal(self.means, self.std)
        return np.maximum(self.floor, drawn, out=drawn)

    def expected(self) -> FloatArray:
        """Return each client's expected latency."""
        z = (self.means - self.floor) / self.std
        density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        expected: FloatArray = self.floor + (self.means - self.floor) * ndtr(z) + self.std * density
        return expected

    def mean_speed(self, tau_min: Seconds) -> FloatArray:
        """Return each client's expectation of tau_min / latency: the mass at the floor, and an integral above it."""
        nodes, weights = np.polynomial.legendre.leggauss(200)
        above = np.empty(len(self.means))
        for start in range(0, len(above), _BLOCK):  # a table of all clients and nodes would be large
            mean = self.means[start : start + _BLOCK, None]
            low = np.maximum(self.floor, mean - 10.0 * self.std)
            high = np.maximum(self.floor, mean + 10.0 * self.std)
            x = 0.5 * (high - low) * nodes + 0.5 * (high + low)
            z = (x - mean) / self.std
            density = np.exp(-0.5 * z * z) / (self.std * math.sqrt(2.0 * math.pi))
            above[start : start + _BLOCK] = (0.5 * (high - low) * weights * density / x).sum(axis=1)
        speed: FloatArray = tau_min * (ndtr((self.floor - self.means) / self.std) / self.floor + above)
        return speed


@dataclass(frozen=True, slots=True, eq=False)
class Quantile:
    """Latencies given by their quantiles: floor-bounded families with a mean per client and one spread.

    ``lognormal``: spread is the deviation of the logarithm.  ``exponential``: the floor plus an exponential part.
    ``pareto``: the floor is the scale of a heavy tail whose index follows from the mean.

    >>> Quantile("exponential", np.array([0.5]), spread=1.0, floor=0.1).expected().tolist()
    [0.5]
    """

    family: Literal["lognormal", "exponential", "pareto"]
    means: FloatArray
    spread: float
    floor: Seconds

    def __post_init__(self) -> None:
        require(
            is_finite(self.spread) and self.spread > 0.0,
            "spread",
            self.spread,
            "a finite number above 0",
            "for example 0.5",
        )
        require(
            bool((self.means > self.floor).all()),
            "means",
            float(self.means.min()),
            f"above the floor {self.floor}",
            "raise the means",
        )

    def __len__(self) -> int:
        return len(self.means)

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Draw one round's latency of every client."""
        return self._at(rng.random(len(self.means)))

    def expected(self) -> FloatArray:
        """Return each client's expected latency (of a log-normal one, before the floor)."""
        return self.means.copy()

    def mean_speed(self, tau_min: Seconds) -> FloatArray:
        """Return each client's expectation of tau_min / latency, averaged over 4,000 quantiles."""
        levels = (np.arange(4000) + 0.5) / 4000
        return np.array([tau_min * float((1.0 / self._at(levels, k)).mean()) for k in range(len(self.means))])

    def _at(self, level: FloatArray, client: int | slice = slice(None)) -> FloatArray:
        mean = self.means[client]
        if self.family == "exponential":
            waiting: FloatArray = self.floor - (mean - self.floor) * np.log1p(-level)
            return waiting
        if self.family == "pareto":
            index = mean / (mean - self.floor)
            tail: FloatArray = self.floor * (1.0 - level) ** (-1.0 / index)
            return tail
        plain: FloatArray = np.exp(np.log(mean) - 0.5 * self.spread**2 + self.spread * ndtri(level))
        return np.maximum(self.floor, plain)


@dataclass(frozen=True, slots=True, eq=False)
class FlooredLognormal:
    """Log-normal latencies, floored: max(floor, X_k), where X_k has mean_k and a logarithm with deviation ``spread``.

    In contrast to ``Quantile`` means may lie below the floor, and what is expected is told after it.

    >>> FlooredLognormal(np.array([0.5, 0.01]), spread=0.5, floor=0.05).expected().round(4).tolist()
    [0.5, 0.05]
    """

    means: FloatArray
    spread: float
    floor: Seconds

    def __post_init__(self) -> None:
        for name, value in (("spread", self.spread), ("floor", self.floor)):
            require(is_finite(value) and value > 0.0, name, value, "a finite number above 0", "raise it")
        fine = bool((np.isfinite(self.means) & (self.means > 0.0)).all())
        require(fine, "means", "not positive, or not finite", "seconds above 0", "pass finite seconds for every client")

    def __len__(self) -> int:
        return len(self.means)

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Draw one round's latency of every client."""
        return np.maximum(self.floor, np.exp(rng.normal(self._location(), self.spread)))

    def expected(self) -> FloatArray:
        """Return each client's expected latency: the mass at the floor, and the part above it."""
        below = (math.log(self.floor) - self._location()) / self.spread
        expected: FloatArray = self.floor * ndtr(below) + self.means * ndtr(self.spread - below)
        return expected

    def mean_speed(self, tau_min: Seconds) -> FloatArray:
        """Return each client's expectation of tau_min / latency: the mass at the floor, and the part above it."""
        place = self._location()
        below = (math.log(self.floor) - place) / self.spread
        above = np.exp(0.5 * self.spread**2 - place) * ndtr(-self.spread - below)
        speed: FloatArray = tau_min * (ndtr(below) / self.floor + above)
        return speed

    def _location(self) -> FloatArray:
        """Return the mean of each client's logarithm."""
        place: FloatArray = np.log(self.means) - 0.5 * self.spread**2
        return place


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Recorded latencies, a row per round and a column per client; each round draws one of the rows."""

    table: FloatArray

    def __post_init__(self) -> None:
        fine = (
            self.table.ndim == 2
            and self.table.size > 0
            and bool(np.isfinite(self.table).all())
            and self.table.min() > 0
        )
        require(
            fine,
            "trace",
            self.table.shape,
            "a table of finite seconds above 0",
            "give it a row per round and a column per client",
        )

    def __len__(self) -> int:
        return int(self.table.shape[1])

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Draw one of the recorded rounds at random, for all clients together."""
        row: FloatArray = self.table[int(rng.integers(len(self.table)))]
        return row.copy()

    def expected(self) -> FloatArray:
        """Return each client's mean latency."""
        mean: FloatArray = self.table.mean(axis=0)
        return mean

    def mean_speed(self, tau_min: Seconds) -> FloatArray:
        """Return each client's mean of tau_min / latency."""
        mean: FloatArray = (tau_min / self.table).mean(axis=0)
        return mean


def two_groups(clients: int, tau_min: Seconds = 0.05) -> FlooredNormal:
    """Return the paper's network: a fast half with means from 0.05 to 0.2 s, a slow half from 0.7 to 0.9 s.

    >>> two_groups(4).means.round(3).tolist()
    [0.125, 0.2, 0.8, 0.9]
    """
    require(clients >= 2, "clients", clients, "2 or more", "raise it, because there are two groups")
    half = clients // 2
    number = np.arange(1, clients + 1)
    fast = 0.05 + 0.15 * number / half
    slow = 0.7 + 0.2 * (number - half) / (clients - half)
    return FlooredNormal(np.where(number <= half, fast, slow), std=0.05, floor=tau_min)
