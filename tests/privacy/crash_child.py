"""Kill a reserving, releasing process at random instants and look at what is left; run by test_sqlite_ledger.py.

One warm process forks a fresh victim each time, so that 200 kills fall into the work and not into the imports.  A
victim tells of each release through a pipe.  It is killed after a number of releases that were seen, and a random part
of the time that the last one took, so that a slow machine is hit at the same places as a fast one.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from pausefl.privacy.ledger.sqlite import SqliteLedger
from pausefl.privacy.schedule import Geometric

SCHEDULE = Geometric(budget=40.0, decay=0.004)


def victim(ledger_path: str, released: str, run: int, told: int) -> None:
    """Reserve, release, and tell of it, for ever."""
    ledger = SqliteLedger(ledger_path)
    out = os.open(released, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    count = 0
    while True:
        count += 1
        charge = ledger.reserve("data", f"{run}/{count}", SCHEDULE)
        os.write(out, f"{charge.release} {charge.play}\n".encode())
        os.write(told, b".")


def main(folder: str, kills: int) -> None:
    """Print how many kills, hot journals, releases seen, released items and rows there were; exit 1 on a broken law."""
    draw = random.Random(20250)
    path, released = f"{folder}/ledger.db", f"{folder}/released.txt"
    SqliteLedger.create(path)
    Path(released).touch()
    in_flight = seen = 0
    took = 0.01
    for run in range(kills):
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                victim(path, released, run, writes)
            finally:
                os._exit(3)
        os.close(writes)
        for _ in range(draw.randrange(4)):
            begun = time.monotonic()
            seen += len(os.read(reads, 1))
            took = time.monotonic() - begun
        time.sleep(draw.random() * took)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(reads)
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            sys.exit(f"the victim ended by itself in run {run}")
        in_flight += Path(path + "-journal").exists()
        ledger = SqliteLedger(path)  # verifies the chain
        rows = {(row.release, row.play) for row in ledger.charges("data")}
        lines = Path(released).read_text().splitlines()
        items = [(name, int(play)) for name, play in (line.split() for line in lines)]
        if len(set(items)) != len(items) or not set(items) <= rows:
            sys.exit(f"run {run}: released without a row: {sorted(set(items) - rows)[:3]}")
        if sorted(play for _, play in rows) != list(range(1, len(rows) + 1)) or ledger.spent("data") > SCHEDULE.budget:
            sys.exit(f"run {run}: plays or budget are wrong")
    print(kills, in_flight, seen, len(items), len(rows))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
