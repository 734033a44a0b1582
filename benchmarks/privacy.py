"""Speed of the privacy layer, each figure beside its physical limit; what is compared takes turns in one run."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks.measure import Figure, medians, show
from pausefl.owner.gate import Gate
from pausefl.owner.ledger_identity import make_ledger
from pausefl.owner.owner_file import Owner
from pausefl.owner.request_and_reply import TrainingRequest
from pausefl.privacy import FixedHorizon, Geometric, Laplace, PrivUnit, SecureNoise, SimulatedNoise, SqliteLedger
from pausefl.privacy.composition import Event, compose
from pausefl.privacy.ledger.charge import Past, Reservation, next_charge
from pausefl.privacy.ledger.hash_chain import row_of
from pausefl.privacy.ledger.sqlite_file import INSERT
from pausefl.privacy.mechanisms.noise import _grid, _sampler
from pausefl.system.threads import MOST_THREADS, core_count
from pausefl.types import FloatArray

LONG = FixedHorizon(budget=1000.0, releases=10**6)
MECHANISM = Laplace(unit="coordinate", width=0.003)


def simulated_figures(coordinates: int = 10**6) -> list[Figure]:
    """A simulated release over ``Generator.laplace`` alone."""
    update = np.random.default_rng(0).normal(0.0, 0.002, coordinates)
    generator, noise = np.random.default_rng(1), SimulatedNoise(np.random.default_rng(1))
    release, alone = medians(
        lambda: MECHANISM.release(update, 1.5, noise), lambda: generator.laplace(0.0, 0.002, coordinates), repeats=15
    )
    name = "simulated Laplace, 1,000,000 coordinates, over Generator.laplace alone"
    return [Figure(name, f"{release / alone:.2f} x", "<= 1.5 x", release / alone <= 1.5)]


def clocks() -> FloatArray:
    """Processor time of all threads, which other work on the machine does not change, and the clock on the wall."""
    return np.array([time.process_time(), time.perf_counter()])


def in_turns(*jobs: Callable[[], object], repeats: int) -> list[FloatArray]:
    """Return the least seconds of each job by both clocks, after one warm-up: what other work has disturbed least."""
    taken: list[list[FloatArray]] = [[] for _ in jobs]
    for turn in range(repeats + 1):
        for job, times in zip(jobs, taken, strict=True):
            before = clocks()
            job()
            if turn:
                times.append(clocks() - before)
    return [np.min(times, axis=0) for times in taken]


def secure_figures(kind: Literal["laplace", "gaussian"], coordinates: int = 20_000) -> list[Figure]:
    """Secure noise on all cores, beside one bare call of OpenDP, which works on one.

    What is asked of is the processor time, divided by the cores: so long it takes if they have nothing else to do.
    """
    vector, noise, cores = np.zeros(coordinates), SecureNoise(), min(core_count(), MOST_THREADS)
    add = noise.laplace if kind == "laplace" else noise.gaussian
    bare = _sampler(kind, coordinates, 1.0, _grid(1.0))
    ours, alone = in_turns(lambda: add(vector, 1.0, 1.0, coordinates=1), lambda: bare(vector), repeats=5)
    each, wall = 1e6 * ours / coordinates / (cores, 1)
    return [
        Figure(
            f"secure {kind.title()} noise, per coordinate, {cores} free cores", f"{each:.1f} us", "<= 4 us", each <= 4.0
        ),
        Figure("   one bare call of OpenDP, one free core", f"{1e6 * alone[0] / coordinates:.1f} us"),
        Figure("   by the clock on the wall, over the bare call", f"{wall:.1f} us, {ours[1] / alone[1]:.2f} x"),
    ]


def privunit_figures(coordinates: int = 10**6) -> list[Figure]:
    """One secure PrivUnit release."""
    update, mechanism = np.ones(coordinates), PrivUnit(l2=1.0)
    [taken] = medians(lambda: mechanism.release(update, 1.5, SecureNoise()), repeats=1)
    return [Figure("secure PrivUnit, 1,000,000 coordinates", f"{taken:.2f} s")]


def composition_figures(releases: int = 500) -> list[Figure]:
    """Tight composition of as many different Laplace releases, without the import."""
    schedule = Geometric(budget=40.0, decay=0.04)
    [taken] = medians(lambda: compose([Event(schedule.epsilon(i)) for i in range(1, releases + 1)]), repeats=3)
    return [Figure(f"tight composition of {releases} releases", f"{taken:.2f} s", "< 2 s", taken < 2.0)]


def fill(path: Path, rows: int, subject: str = "data") -> None:
    """Write so many rows into an empty ledger at once, as if they had been charged one by one."""
    first = next_charge(Past.of([]), Reservation(subject, "run/1", LONG, MECHANISM, SecureNoise(), 2410), 1.7e9)
    previous, made = SqliteLedger(path).head.hash, []
    for seq in range(1, rows + 1):
        charge = replace(first, release=f"run/{seq}", play=seq, epsilon=LONG.epsilon(seq), time=1.7e9 + seq)
        made.append(row_of(previous, seq, charge))
        previous = made[-1][-1]
    with closing(sqlite3.connect(path)) as connection:
        connection.executemany(INSERT, made)
        connection.execute("UPDATE head SET rows = ?, hash = ?", (rows, previous))
        connection.commit()


class SealedLedger:
    """A ledger with so many rows, and its seal, in a folder."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.path, self.seal, self.charged = folder / f"{rows}.db", folder / f"{rows}.seal", 0
        SqliteLedger.create(self.path)
        fill(self.path, rows)
        SqliteLedger(self.path, seal=self.seal)

    def reserve(self, ledger: SqliteLedger) -> None:
        self.charged += 1
        ledger.reserve("data", f"new/{self.charged}", LONG, mechanism=MECHANISM)

    def open_and_reserve(self) -> FloatArray:
        """Return the seconds of a fresh opening, a charge and its reading back, as in one message of a client."""
        time.sleep(0.15)  # a client does not come again within the step of the clock that stamps files
        start = clocks()
        ledger = SqliteLedger(self.path, seal=self.seal)
        with ledger.held_open():
            self.reserve(ledger)
            ledger.read_back()
        return clocks() - start


def open_and_reserve_seconds(rows: int, repeats: int = 5) -> float:
    """Return the least seconds of a fresh opening with one charge, for a ledger of so many rows."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = SealedLedger(Path(folder), rows)
        return min(float(ledger.open_and_reserve()[1]) for _ in range(repeats))


def ledger_figures(rows: int = 100_000, repeats: int = 9) -> list[Figure]:
    """A large ledger over an empty one, charged in turns: opened afresh, and kept open."""
    with tempfile.TemporaryDirectory() as folder:
        empty, _, large = ledgers = [SealedLedger(Path(folder), count) for count in (0, rows // 10, rows)]
        turns = [[ledger.open_and_reserve() for ledger in ledgers] for _ in range(repeats)]
        (work, fresh), (_, fresh_tenth), (work_large, fresh_large) = 1e3 * np.min(turns, axis=0)
        opened, opened_large = SqliteLedger(empty.path), SqliteLedger(large.path)
        kept, kept_large = medians(lambda: empty.reserve(opened), lambda: large.reserve(opened_large), repeats=repeats)
        content = large.path.read_bytes()
        hashing, checking = in_turns(
            lambda: hashlib.sha256(content).digest(), lambda: SqliteLedger(large.path), repeats=1
        )  # fmt: skip
        durable = fsync_seconds(Path(folder))
    ratio, open_ratio, rate = fresh_large / fresh, kept_large / kept, 1.0 / kept
    return [
        Figure(f"open + reserve, {rows:,} rows over none", f"{ratio:.2f} x", "<= 2 x", ratio <= 2.0),
        Figure(f"   {rows // 10:,} rows over none", f"{fresh_tenth / fresh:.2f} x"),
        Figure("   by the clock on the wall", f"{fresh_large:.0f} over {fresh:.0f} ms"),
        Figure("   processor time", f"{work_large:.0f} over {work:.0f} ms"),
        Figure(f"   SHA-256 of the same {len(content) / 2**20:.0f} MiB alone", f"{1e3 * hashing[0]:.0f} ms"),
        Figure("   opening without a seal: every hash of a row is computed", f"{1e3 * checking[0]:.0f} ms"),
        Figure(f"reserve on an open ledger, {rows:,} rows over none", f"{open_ratio:.2f} x", "<= 2 x", open_ratio <= 2),
        Figure("reserve on an open ledger, synchronous, per second", f"{rate:.0f} /s", ">= 200 /s", rate >= 200.0),
        Figure("   fsync of one page alone", f"{1e3 * durable:.1f} ms"),
    ]


def fsync_seconds(folder: Path, repeats: int = 15) -> float:
    """Return the median seconds that the disk takes to keep one page."""
    with (folder / "page").open("wb", buffering=0) as file:

        def keep() -> None:
            file.write(bytes(4096))
            os.fsync(file.fileno())

        return medians(keep, repeats=repeats)[0]


@contextmanager
def client() -> Iterator[Callable[[], None]]:
    """Yield what sends one training message through the gate of a deployment: 15 numbers, and no training."""
    before = os.environ.get("XDG_STATE_HOME")
    model, rounds = {"w": np.zeros(15, dtype=np.float32)}, iter(range(1, 10**6))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        ledger = make_ledger(Path(folder) / "ledger.db")
        owner = Owner(
            name="data", ledger=ledger.path, ledger_id=ledger.id, schedule=LONG, mechanism=MECHANISM, examples=7
        )  # fmt: skip

        def send() -> None:
            Gate(owner, "run").train(TrainingRequest("run", next(rounds)), model, lambda: (model, {}))

        try:
            yield send
        finally:
            os.environ.pop("XDG_STATE_HOME")
            if before is not None:
                os.environ["XDG_STATE_HOME"] = before


def gate_figures(repeats: int = 25) -> list[Figure]:
    """One message through the gate: processor time, so that the disk does not count; wall time stands beside it."""
    with client() as send:
        [(processor, wall)] = (1e3 * taken for taken in in_turns(send, repeats=repeats))
    return [
        Figure("one message through the gate, without training", f"{processor:.1f} ms", "<= 15 ms", processor <= 15.0),
        Figure("   by the clock on the wall, with all that is made durable", f"{wall:.0f} ms"),
    ]


def main() -> bool:
    """Print the figures; return whether all that were asked for are met."""
    figures = [
        *simulated_figures(),
        *secure_figures("laplace"),
        *secure_figures("gaussian"),
        *privunit_figures(),
        *composition_figures(),
        *ledger_figures(),
        *gate_figures(),
    ]
    return show("Privacy: noise, composition, ledger and gate", figures)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
