"""The ledger: who has leaked how much, written down before anything leaves; append-only, without refunds.

:func:`~pausefl.privacy.ledger.charge.next_charge` is the one place that decides; the ledgers differ only in
where they keep the rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import Lock

from pausefl.privacy.ledger.charge import DELTA_LIMIT, UNSTATED, Charge, History, Request, check_names, next_charge
from pausefl.privacy.mechanisms.base import Mechanism
from pausefl.privacy.mechanisms.noise import Noise
from pausefl.privacy.schedule import Schedule
from pausefl.types import Epsilon

__all__ = ["DELTA_LIMIT", "UNSTATED", "Charge", "Ledger", "MemoryLedger"]


class Ledger(ABC):
    """Charges of any number of subjects; a subject is the identity of a data set, not of a run.

    Law, for every implementation: ``reserve`` returns only when the charge is kept for good.  The plays of a subject
    are 1, 2, 3, … without gaps; no release name is charged twice; ``spent`` never falls and never exceeds the budget,
    nor ``spent_delta`` the limit; budget and schedule of a subject never change.  A call that raises has charged
    nothing.  There is no way to take a charge back: a release that failed after its reservation stays charged.
    """

    __slots__ = ()

    @abstractmethod
    def reserve(
        self, subject: str, release: str, schedule: Schedule, *,
        mechanism: Mechanism | None = None, noise: Noise | None = None,
    ) -> Charge:  # fmt: skip
        """Charge the subject's next epsilon to ``release``; only then may anything leave under that name.

        Name the ``mechanism`` and its ``noise``: unit and delta are taken from them, and an epsilon that the
        mechanism could not use is refused instead of charged.  Left out, they are recorded as unstated.
        """

    @abstractmethod
    def charges(self, subject: str) -> tuple[Charge, ...]:
        """Return the subject's rows in order; none if it was never charged."""

    @abstractmethod
    def subjects(self) -> tuple[str, ...]:
        """Return all subjects, in order of their first charge."""

    def spent(self, subject: str) -> Epsilon:
        """Return what the subject has leaked in all, by plain addition (PAUSE, Theorem 3)."""
        return math.fsum(charge.epsilon for charge in self.charges(subject))

    def spent_delta(self, subject: str) -> float:
        """Return the delta that goes with ``spent``, by plain addition too."""
        return math.fsum(charge.delta for charge in self.charges(subject))


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
        self, subject: str, release: str, schedule: Schedule, *,
        mechanism: Mechanism | None = None, noise: Noise | None = None,
    ) -> Charge:  # fmt: skip
        """Charge the subject's next epsilon to ``release``."""
        request = Request(subject, release, schedule, mechanism, noise)
        with self._lock:
            rows = self._rows.get(subject, [])
            first = (rows[0].budget, rows[0].schedule) if rows else None
            names, epsilons, deltas = ([getattr(row, name) for row in rows] for name in ("release", "epsilon", "delta"))
            charge = next_charge(History(first, names, epsilons, deltas), request, self._clock())
            self._rows.setdefault(subject, rows).append(charge)
        return charge

    def charges(self, subject: str) -> tuple[Charge, ...]:
        """Return the subject's rows in order."""
        check_names(subject=subject)
        return tuple(self._rows.get(subject, ()))

    def subjects(self) -> tuple[str, ...]:
        """Return all subjects, in order of their first charge."""
        return tuple(self._rows)
