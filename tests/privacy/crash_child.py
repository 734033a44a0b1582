"""Kill reserving, releasing processes at random instants and look at what is left; run by test_sqlite_ledger.py.

One warm process forks fresh victims each time, one or two, so that 200 kills fall into the work and not into the
imports.  A victim tells of each release through a pipe.  It is killed after a number of releases that were seen, and a
random part of the time that the last one took, so that a slow machine is hit at the same places as a fast one.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from pausefl.errors import BudgetExceededError
from pausefl.privacy.ledger.sqlite import SqliteLedger
from pausefl.privacy.mechanisms.gaussian import Gaussian
from pausefl.privacy.schedule import FixedHorizon, Geometric, Schedule
from pausefl.privacy.zcdp import zcdp_within

TERMS: dict[str, tuple[int, Schedule, Gaussian | None]] = {
    "sum": (1, Geometric(budget=40.0, decay=0.004), None),
    "zcdp": (2, FixedHorizon(budget=1.0, releases=100), Gaussian(l2=1.0, delta=1e-5, unit="record")),
}
"""How many victims at once, and the terms of the ledger; the second ones run out before the kills do."""


def victim(ledger_path: str, released: str, name: str, told: int, kind: str) -> None:
    """Reserve, release, and tell of it, for ever; when nothing is left, only tell."""
    _, schedule, mechanism = TERMS[kind]
    ledger = SqliteLedger(ledger_path)
    out = os.open(released, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    count = 0
    while True:
        count += 1
        try:
            charge = ledger.reserve("data", f"{name}/{count}", schedule, mechanism=mechanism)
            os.write(out, f"{charge.release} {charge.play}\n".encode())
        except BudgetExceededError:
            os.write(told, b"-")
            continue
        os.write(told, b".")


def main(folder: str, kills: int, kind: str) -> None:
    """Print how many kills, hot journals, releases seen, released items and rows there were; exit 1 on a broken law."""
    draw = random.Random(20250)
    path, released = f"{folder}/ledger.db", f"{folder}/released.txt"
    SqliteLedger.create(path)
    Path(released).touch()
    victims, schedule, mechanism = TERMS[kind]
    in_flight = seen = 0
    took = 0.01
    for run in range(0, kills, victims):
        reads, writes = os.pipe()
        children = []
        for number in range(victims):
            child = os.fork()
            if child == 0:
                try:
                    victim(path, released, f"{run + number}", writes, kind)
                finally:
                    os._exit(3)
            children.append(child)
        os.close(writes)
        for _ in range(draw.randrange(4)):
            begun = time.monotonic()
            seen += os.read(reads, 1) == b"."
            took = time.monotonic() - begun
        time.sleep(draw.random() * took)
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            _, status = os.waitpid(child, 0)
            if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
                sys.exit(f"the victim ended by itself in run {run}")
        os.close(reads)
        in_flight += Path(path + "-journal").exists()
        ledger = SqliteLedger(path)  # verifies the chain
        charges = ledger.charges("data")
        rows = {(row.release, row.play) for row in charges}
        lines = Path(released).read_text().splitlines()
        items = [(name, int(play)) for name, play in (line.split() for line in lines)]
        if len(set(items)) != len(items) or not set(items) <= rows:
            sys.exit(f"run {run}: released without a row: {sorted(set(items) - rows)[:3]}")
        if sorted(play for _, play in rows) != list(range(1, len(rows) + 1)) or ledger.spent("data") > schedule.budget:
            sys.exit(f"run {run}: plays or budget are wrong")
        if mechanism is not None and sum(row.rho for row in charges) > zcdp_within(schedule.budget, mechanism.delta):
            sys.exit(f"run {run}: more rho than the budget is worth")
    print(kills, in_flight, seen, len(items), len(rows))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
