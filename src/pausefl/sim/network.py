"""How long clients take: latency models with known expectations.

Reference: PAUSE, Section V-A; the two groups with the values behind its published runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtr

from pausefl.errors import require
from pausefl.types import FloatArray, Seconds


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
        require(bool(np.isfinite(self.means).all()), "means", "NaN or infinite", "finite", "check the clients' means")

    def __len__(self) -> int:
        return len(self.means)

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Draw one round's latency of every client."""
        return np.maximum(self.floor, rng.normal(self.means, self.std))

    def expected(self) -> FloatArray:
        """Return each client's expected latency."""
        z = (self.means - self.floor) / self.std
        density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        expected: FloatArray = self.floor + (self.means - self.floor) * ndtr(z) + self.std * density
        return expected

    def mean_speed(self, tau_min: Seconds) -> FloatArray:
        """Return each client's expectation of tau_min / latency: the mass at the floor, and an integral above it."""
        nodes, weights = np.polynomial.legendre.leggauss(200)
        low = np.maximum(self.floor, self.means - 10.0 * self.std)[:, None]
        high = np.maximum(self.floor, self.means + 10.0 * self.std)[:, None]
        x = 0.5 * (high - low) * nodes + 0.5 * (high + low)
        z = (x - self.means[:, None]) / self.std
        density = np.exp(-0.5 * z * z) / (self.std * math.sqrt(2.0 * math.pi))
        above = (0.5 * (high - low) * weights * density / x).sum(axis=1)
        speed: FloatArray = tau_min * (ndtr((self.floor - self.means) / self.std) / self.floor + above)
        return speed


def two_groups(clients: int, tau_min: Seconds = 0.05) -> FlooredNormal:
    """Return the paper's network: a fast half with means from 0.05 to 0.2 s, a slow half from 0.7 to 0.9 s.

    >>> two_groups(4).means.round(3).tolist()
    [0.125, 0.2, 0.8, 0.9]
    """
    require(clients >= 2, "clients", clients, "2 or more", "there are two groups")
    half = clients // 2
    number = np.arange(1, clients + 1)
    fast = 0.05 + 0.15 * number / half
    slow = 0.7 + 0.2 * (number - half) / (clients - half)
    return FlooredNormal(np.where(number <= half, fast, slow), std=0.05, floor=tau_min)
