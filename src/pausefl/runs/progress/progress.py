"""Where a run stands, in bounded memory: a few numbers per client, and its rounds in a fixed number of points."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable

import numpy as np

from pausefl.runs.progress.round_facts import LATE, NO_ANSWER, RoundFacts, RunHead
from pausefl.runs.progress.round_points import RoundPoints
from pausefl.runs.run_data import SMOOTH
from pausefl.types import FloatArray, IntArray

POINTS, LINES = 120, 40
"""Into how many points rounds are merged at most, and up to how many clients have numbers of their own in each."""
QUANTILES = {"least": 0.0, "middle": 0.5, "most": 1.0}
"""The clients whose budgets are followed where there are too many for a line each."""
_NEW = 0.3  # how much of a client's latest answer goes into its recent latency


class Clients:
    """Columns of numbers, a row per client, in the order in which their names came up.

    ``recent`` is the latency of late, in which older answers count less; ``silent``, how often in a row a client has
    not answered; ``left``, the share of its budget.  NaN: nothing is known.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names: list[str] = []
        self._row: dict[str, int] = {}
        self.asked, self.answered, self.silent, self.last_asked = (np.zeros(0, dtype=np.int64) for _ in range(4))
        self.total, self.recent, self.fastest, self.slowest, self.left = (np.full(0, np.nan) for _ in range(5))
        for name in names:
            self.row(name)

    def __len__(self) -> int:
        return len(self.names)

    def row(self, name: str) -> int:
        """Return the row of a client; a new name gets the next one."""
        if name not in self._row:
            self._row[name] = len(self.names)
            self.names.append(name)
            if len(self.names) > len(self.asked):
                for column, values in vars(self).items():
                    if isinstance(values, np.ndarray):
                        nothing = np.nan if values.dtype == np.float64 else 0
                        more = np.full(max(16, len(values)), nothing, dtype=values.dtype)
                        setattr(self, column, np.concatenate([values, more]))
        return self._row[name]

    def ordered(self) -> IntArray:
        """Return the rows in the order of the names, in which 10 comes after 9."""
        return np.array(sorted(range(len(self)), key=lambda row: _natural(self.names[row])), dtype=np.int64)


class Progress:
    """What a page shows of a run, finished or not.

    Law: its size depends on the number of clients and not on the number of rounds.
    """

    def __init__(self, head: RunHead) -> None:
        self.head = head
        self.clients = Clients(head.names)
        self.lines = head.clients <= LINES
        """Whether there are few enough clients for a line each."""
        self.last: RoundFacts | None = None
        self.clock = 0.0
        self.best_accuracy = math.nan
        self._scores: deque[float] = deque(maxlen=SMOOTH)
        each = range(LINES)
        self.points = RoundPoints(
            POINTS,
            added=("rounds", "took", "scores", "scored", "no answer", "late", "refused",
                   *(f"picks {row}" for row in each)),
            newest=("seen", *QUANTILES, *(f"left {row}" for row in each)),
            largest=("longest",),
        )  # fmt: skip

    @property
    def rounds(self) -> int:
        """How many rounds were played."""
        return 0 if self.last is None else self.last.number

    @property
    def accuracy(self) -> float:
        """The mean of the latest scores in percent; NaN without one."""
        return sum(self._scores) / len(self._scores) if self._scores else math.nan

    def renew(self, head: RunHead) -> None:
        """Take over what is newly known of the run beside its rounds."""
        self.head = head
        for name in head.names:
            self.clients.row(name)
        for name, share in head.left.items():
            row = self.clients.row(name)  # which may make the columns longer
            self.clients.left[row] = share
        for name in head.exhausted:
            row = self.clients.row(name)
            self.clients.left[row] = 0.0
        self.points.settle(self._budgets())

    def add(self, facts: RoundFacts) -> None:
        """Take up the next round."""
        clients, rows = self.clients, [self.clients.row(name) for name in facts.members]
        for name, row in zip(facts.members, rows, strict=True):
            clients.asked[row] += 1
            clients.last_asked[row] = facts.number
            if (taken := facts.seconds.get(name)) is not None:
                self._answered(row, taken)
            clients.silent[row] = clients.silent[row] + 1 if facts.faults.get(name) == NO_ANSWER else 0
        for name, share in facts.left.items():
            row = clients.row(name)
            clients.left[row] = share
        self.last = facts
        self.clock += facts.took or 0.0
        added = {"rounds": 1.0, "took": facts.took or 0.0, **_counted(facts)}
        if facts.accuracy is not None:
            added |= {"scores": facts.accuracy, "scored": 1.0}
            self._scores.append(facts.accuracy)
            self.best_accuracy = np.fmax(self.best_accuracy, self.accuracy)
        newest: dict[str, float] = {}
        if self.lines:
            added |= {f"picks {row}": 1.0 for row in rows if row < LINES}
            newest = {f"left {row}": float(clients.left[row]) for row in range(min(LINES, len(clients)))}
        self.points.add(added, newest, {"longest": facts.took or 0.0})
        if self.points.full:  # with many clients this takes longer than the rest
            self.points.settle(self._budgets())

    def settle(self) -> None:
        """Bring the numbers of the last point up to date."""
        self.points.settle(self._budgets())

    def _answered(self, row: int, taken: float) -> None:
        clients = self.clients
        if not clients.answered[row]:
            for column in (clients.total, clients.recent, clients.fastest, clients.slowest):
                column[row] = taken
        else:
            clients.total[row] += taken
            clients.recent[row] += _NEW * (taken - clients.recent[row])
            clients.fastest[row] = min(clients.fastest[row], taken)
            clients.slowest[row] = max(clients.slowest[row], taken)
        clients.answered[row] += 1

    def _budgets(self) -> dict[str, float]:
        seen = 100.0 * int((self.clients.asked > 0).sum()) / max(1, self.head.clients)
        left = self.left()
        found = {name: float(np.quantile(left, at)) for name, at in QUANTILES.items()} if len(left) else {}
        each = range(min(LINES, len(self.clients))) if self.lines else ()
        return {"seen": seen, **found, **{f"left {row}": float(self.clients.left[row]) for row in each}}

    def left(self) -> FloatArray:
        """Return the share of its budget that each client has, as far as it is known; unnamed ones have spent none."""
        if not self.head.bounded:
            return np.empty(0)
        known = self.clients.left[: len(self.clients)]
        if self.head.kind == "simulator":  # whoever has not taken part has spent nothing
            known = np.where(np.isnan(known), 1.0, known)
            known = np.concatenate([known, np.ones(self.head.clients - len(known))])
        return np.asarray(known[~np.isnan(known)])


def _counted(facts: RoundFacts) -> dict[str, float]:
    said = list(facts.faults.values())
    silent, late = float(said.count(NO_ANSWER)), float(said.count(LATE))
    return {"no answer": silent, "late": late, "refused": len(said) - silent - late}


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a key by which names are sorted as people count; clients choose their names, so nothing is worked out.

    >>> sorted(["a10", "²", "a9"], key=_natural)
    ['a9', 'a10', '²']
    """
    parts = [(part.isdecimal(), part.lstrip("0") if part.isdecimal() else part) for part in re.split(r"(\d+)", name)]
    return [(number, len(part) if number else 0, part) for number, part in parts]
