"""Speed of the privacy layer, each figure beside its bound; ratios are measured in one run, alternating."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pausefl.privacy import Geometric, Laplace, PrivUnit, SecureNoise, SimulatedNoise, SqliteLedger
from pausefl.privacy.composition import Event, compose


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def laplace_ratio(coordinates: int = 10**6, rounds: int = 15) -> float:
    """A simulated release over ``Generator.laplace`` alone: the median of alternating pairs."""
    update = np.random.default_rng(0).normal(0.0, 0.002, coordinates)
    generator, noise = np.random.default_rng(1), SimulatedNoise(np.random.default_rng(1))
    mechanism = Laplace(unit="coordinate", width=0.003)
    mechanism.release(update, 1.5, noise)
    pairs = [
        (
            seconds(lambda: mechanism.release(update, 1.5, noise)),
            seconds(lambda: generator.laplace(0.0, 0.002, coordinates)),
        )
        for _ in range(rounds)
    ]
    return float(np.median([release / alone for release, alone in pairs]))


def reservations_per_second(count: int = 500) -> float:
    """Durable reservations of one subject, on the disk that holds the temporary folder."""
    schedule = Geometric(budget=40.0, decay=0.004)
    with tempfile.TemporaryDirectory() as folder:
        ledger = SqliteLedger.create(Path(folder) / "ledger.db")
        return count / seconds(lambda: [ledger.reserve("data", f"run/{i}", schedule) for i in range(count)])


def pld_seconds(releases: int = 500) -> float:
    """Tight composition of as many different Laplace releases, without the import."""
    schedule = Geometric(budget=40.0, decay=0.04)
    compose([Event(1.0)] * 2)
    return seconds(lambda: compose([Event(schedule.epsilon(i)) for i in range(1, releases + 1)]))


def secure_microseconds(coordinates: int = 20_000) -> float:
    """Secure Laplace noise, per coordinate."""
    update, mechanism = np.zeros(coordinates), Laplace(unit="coordinate", width=0.003)
    mechanism.release(update, 1.5, SecureNoise())
    return 1e6 * seconds(lambda: mechanism.release(update, 1.5, SecureNoise())) / coordinates


def privunit_seconds(coordinates: int = 10**6) -> float:
    """One secure PrivUnit release."""
    update, mechanism = np.ones(coordinates), PrivUnit(l2=1.0)
    mechanism.release(update, 1.5, SecureNoise())
    return seconds(lambda: mechanism.release(update, 1.5, SecureNoise()))


def main() -> bool:
    """Print every figure with its bound; return whether all bounds were met."""
    ratio, rate, tight = laplace_ratio(), reservations_per_second(), pld_seconds()
    rows = [
        ("simulated Laplace, 1e6 coordinates, over Generator.laplace alone", ratio, "<= 1.5 x", ratio <= 1.5),
        ("reserve + commit, synchronous, per second", rate, ">= 200 /s", rate >= 200.0),
        ("tight composition of 500 releases, seconds", tight, "< 2 s", tight < 2.0),
        ("secure Laplace, microseconds per coordinate", secure_microseconds(), "no bound", True),
        ("secure PrivUnit, 1e6 coordinates, seconds", privunit_seconds(), "no bound", True),
    ]
    for name, figure, bound, met in rows:
        print(f"{name:<66} {figure:>9.3f}   {bound:<10} {'met' if met else 'MISSED'}")
    return all(met for *_, met in rows)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
