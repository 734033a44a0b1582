"""The ledger: who has leaked how much, written down before anything leaves; append-only, without refunds.

``next_charge`` is the one place that decides; the ledgers differ only in where they keep the rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock

from pausefl.errors import AlreadyReservedError, BudgetExceededError, ScheduleChangedError, require
from pausefl.privacy.schedule import Schedule
from pausefl.types import Epsilon

UNSTATED = "unstated"


@dataclass(frozen=True, slots=True)
class Charge:
    """One row: this release of this subject's data was its ``play``-th and may leak ``epsilon``.

    ``budget`` and ``schedule`` are those fixed at the subject's first reservation; ``time`` is what the ledger's clock
    said, for the auditor only: nothing is decided by it.
    """

    subject: str
    release: str
    play: int
    epsilon: Epsilon
    budget: Epsilon
    schedule: str
    unit: str
    mechanism: str
    time: float


@dataclass(frozen=True, slots=True)
class History:
    """What a decision needs to know of a subject: its charges so far, its first row, whether the name is taken."""

    epsilons: Sequence[Epsilon]
    first: tuple[Epsilon, str] | None
    taken: bool


class Ledger(ABC):
    """Charges of any number of subjects; a subject is the identity of a data set, not of a run.

    Law, for every implementation: ``reserve`` returns only when the charge is kept for good.  The plays of a subject
    are 1, 2, 3, … without gaps; no release name is charged twice; ``spent`` never falls and never exceeds the budget;
    budget and schedule of a subject never change.  A call that raises has charged nothing.  There is no way to take a
    charge back: a release that failed after its reservation stays charged.
    """

    __slots__ = ()

    @abstractmethod
    def reserve(
        self, subject: str, release: str, schedule: Schedule, *, unit: str = UNSTATED, mechanism: str = UNSTATED
    ) -> Charge:
        """Charge the subject's next epsilon to ``release``; only then may anything leave under that name."""

    @abstractmethod
    def charges(self, subject: str) -> tuple[Charge, ...]:
        """Return the subject's rows in order; none if it was never charged."""

    @abstractmethod
    def subjects(self) -> tuple[str, ...]:
        """Return all subjects, in order of their first charge."""

    def spent(self, subject: str) -> Epsilon:
        """Return what the subject has leaked in all, by plain addition (PAUSE, Theorem 3)."""
        return math.fsum(charge.epsilon for charge in self.charges(subject))


class MemoryLedger(Ledger):
    """A ledger for simulated clients: the same laws among threads, but gone with the process, so never for real data.

    >>> from pausefl.privacy import FixedHorizon
    >>> ledger = MemoryLedger()
    >>> ledger.reserve("clinic-7", "run-1/1", FixedHorizon(budget=8.0, releases=4)).play
    1
    >>> round(ledger.spent("clinic-7"), 6)
    2.0
    """

    __slots__ = ("_clock", "_lock", "_rows")

    def __init__(self, *, clock: Callable[[], float] = lambda: 0.0) -> None:
        self._rows: dict[str, list[Charge]] = {}
        self._clock = clock
        self._lock = Lock()

    def reserve(
        self, subject: str, release: str, schedule: Schedule, *, unit: str = UNSTATED, mechanism: str = UNSTATED
    ) -> Charge:
        """Charge the subject's next epsilon to ``release``."""
        with self._lock:
            rows = self._rows.get(subject, [])
            first = (rows[0].budget, rows[0].schedule) if rows else None
            past = History([row.epsilon for row in rows], first, any(row.release == release for row in rows))
            charge = next_charge(past, subject, release, schedule, unit, mechanism, self._clock())
            self._rows.setdefault(subject, rows).append(charge)
        return charge

    def charges(self, subject: str) -> tuple[Charge, ...]:
        """Return the subject's rows in order."""
        return tuple(self._rows.get(subject, ()))

    def subjects(self) -> tuple[str, ...]:
        """Return all subjects, in order of their first charge."""
        return tuple(self._rows)


def next_charge(
    past: History, subject: str, release: str, schedule: Schedule, unit: str, mechanism: str, time: float
) -> Charge:
    """Return the charge that follows, or refuse."""
    check_names(subject=subject, release=release, unit=unit, mechanism=mechanism)
    require(math.isfinite(time), "time", time, "a finite number of seconds", "mend the ledger's clock")
    text = repr(schedule)
    # A default repr holds an address: the next process would not recognise its own schedule.
    require(" at 0x" not in text, "schedule", text, "printed by its values", "give the schedule a __repr__")
    if past.first is not None and past.first != (schedule.budget, text):
        raise ScheduleChangedError(
            f"schedule is {text}, but {subject!r} was fixed to {past.first[1]} by its first release; use that one"
        )
    if past.taken:
        raise AlreadyReservedError(
            f"release {release!r} of {subject!r} is reserved already; resend the stored bytes, or take a new name"
        )
    play = len(past.epsilons) + 1
    epsilon = schedule.epsilon(play)
    require(
        math.isfinite(epsilon) and epsilon > 0.0, "epsilon", epsilon, "a finite number above 0", "mend the schedule"
    )
    # The schedules keep within their budget by law; this guards against one that does not.
    total = math.fsum([*past.epsilons, epsilon])
    if not total <= schedule.budget:
        raise BudgetExceededError(
            f"release {play} of {subject!r} would bring it to {total!r}, but the budget is {schedule.budget!r}; "
            "stop taking part"
        )
    return Charge(subject, release, play, epsilon, schedule.budget, text, unit, mechanism, time)


def check_names(**names: object) -> None:
    """Refuse a name that is no text, empty, or that no database could store as it is."""
    for what, name in names.items():
        fine = isinstance(name, str) and 0 < len(name) <= 1000 and name.isprintable()
        require(fine, what, name, "printable text of 1 to 1000 characters", "name it, e.g. 'run/round'")
