"""What an auditor is told of one subject: what it has leaked, by which bound, what is left, and for how long."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pausefl.errors import MissingExtraError, require
from pausefl.privacy.composition import Leakage, compose, events_of
from pausefl.privacy.ledger.charge import RETIRED, UNSTATED, Charge
from pausefl.privacy.ledger.hash_chain import due_epsilon, known_schedule
from pausefl.privacy.ledger.price import DELTA_LIMIT, IN_RHO, releases_within_limit, rho_share
from pausefl.privacy.zcdp import zcdp_epsilon
from pausefl.types import Epsilon

if TYPE_CHECKING:
    from pausefl.privacy.ledger.sqlite import SqliteLedger

_FAR = 10**9


@dataclass(frozen=True, slots=True)
class Statement:
    """One subject's account.  None means unknown; every epsilon stands beside its own delta.

    Attributes:
        subject: Whose account it is.
        schedule: The schedule, fixed at the first release.
        releases: How many releases there were.
        spent: The sum of all epsilons.
        spent_delta: The sum of all deltas.
        budget: The budget, fixed at the first release.
        delta_limit: The largest delta that an account may spend.
        left: The epsilon that is left of the budget.
        unstated: How many releases named no mechanism: their delta is not known, and counts as 0.
        unit: What is protected.
        protects: What the unit protects, in words.
        tight: The tight bound on what was leaked.
        tight_delta: The delta of the tight bound.
        bound: The smallest bound on what was leaked.  If it is the tight one, it holds for releases whose number was
            settled beforehand; the sum (``spent``) holds in any case.
        bound_delta: The delta of this bound.
        method: What gives ``bound``: the smaller of sum and tight bound (``pld``) at ``tight_delta``, or ``zcdp`` for
            an account that is paid in rho: what it adds up to is the promise itself.
        whole_update: The sum of epsilon times dimension for a per-coordinate unit; None if a release did not state its
            dimension.
        whole_delta: The delta of ``whole_update``.
        releases_left: How many releases are left, until the schedule ends, its epsilons fall below what the mechanism
            can do, or delta is used up.
        ended_by: What ends them.
        releases_until_99_percent: How many releases are left until 99 % of the budget is gone.
        mechanisms: The mechanisms of the releases, each with the source of its noise.
        retired: When the rest was spent for ever; the bounds, and the count of releases, are of what left before.

    :func:`statement` returns it, and has an example.
    """

    subject: str
    schedule: str
    releases: int
    spent: Epsilon
    spent_delta: float
    budget: Epsilon
    delta_limit: float
    left: Epsilon
    unstated: int
    """How many releases named no mechanism; their delta is unknown and counts as 0."""
    unit: str
    protects: str
    tight: Epsilon | None
    tight_delta: float
    bound: Epsilon
    bound_delta: float
    method: str
    """How ``bound`` was computed: ``sum`` or the tight bound ``pld``, whichever is smaller at ``tight_delta``, or
    ``zcdp`` for an account that is paid in rho."""
    whole_update: Epsilon | None
    whole_delta: float | None
    releases_left: int | None
    """How many releases are possible until the schedule ends, its epsilons are too small for the mechanism, or delta is
    used up."""
    ended_by: str
    releases_until_99_percent: int | None
    mechanisms: list[str]
    retired: str | None
    """When the rest was spent for ever; the bounds and the count of releases cover what left before."""


def statement(ledger: SqliteLedger, subject: str, *, delta: float = 1e-6) -> Statement:
    """Return the account of a subject that has been charged at least once.

    Args:
        ledger: The ledger.
        subject: Whose account it is.
        delta: The delta of the tight bound.

    >>> import tempfile
    >>> from pausefl.privacy import FixedHorizon, Laplace, SqliteLedger
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = SqliteLedger.create(f"{folder}/ledger.db")
    ...     laplace = Laplace(unit="coordinate", width=1.0)
    ...     made = ledger.reserve("a", "run/1", FixedHorizon(8.0, 4), mechanism=laplace, dimension=10)
    ...     found = statement(ledger, "a")
    >>> found.releases_left, found.ended_by, round(found.whole_update, 3)
    (3, 'schedule', 20.0)
    """
    require(0.0 < delta < 1.0, "delta", delta, "between 0 and 1", "1e-6 is common")
    rows = ledger.charges(subject)
    require(bool(rows), "subject", subject, "one that was charged", "ledger.subjects() lists them")
    retired = rows[-1].when if rows[-1].release == RETIRED else None
    releases = rows if retired is None else rows[:-1]
    leaked, slack = math.fsum(row.epsilon for row in releases), math.fsum(row.delta for row in releases)
    spent, unit = math.fsum(row.epsilon for row in rows), rows[0].unit
    found = _composed(releases, delta)
    whole, whole_delta = None, None
    if unit == "update":
        whole, whole_delta = leaked, slack
    elif unit == "coordinate" and all(row.dimension for row in releases):
        # Tight bounds would need as many times their delta, which soon says nothing; the sum's delta is mostly 0.
        whole = math.fsum(row.epsilon * row.dimension for row in releases)
        whole_delta = min(1.0, math.fsum(row.delta * row.dimension for row in releases))
    left, ended_by, until = _ahead(rows, slack) if retired is None else (0, "retirement", 0)
    return Statement(
        subject, rows[0].schedule, len(releases), spent, slack, rows[0].budget, DELTA_LIMIT,
        max(0.0, rows[0].budget - spent), sum(row.mechanism == UNSTATED for row in releases), unit, rows[0].protects,
        found.tight_epsilon if found else None, delta, found.epsilon if found else leaked,
        found.delta if found else slack, found.method if found else IN_RHO if rows[0].rho else "sum",
        whole, whole_delta, left, ended_by, until,
        sorted({f"{row.mechanism}, noise: {row.noise}" for row in releases}), retired,
    )  # fmt: skip


def _composed(rows: Sequence[Charge], delta: float) -> Leakage | None:
    try:
        events = events_of(rows)
        return compose(events, delta=delta) if events else None
    except MissingExtraError:
        return None


def _ahead(rows: Sequence[Charge], slack: float) -> tuple[int | None, str, int | None]:
    """Return how many releases are left, what ends them, and how many until 99 % of the budget is gone."""
    plays, last, delta = len(rows), rows[-1], rows[0].delta
    ends = []
    if last.delta > 0.0 and last.rho == 0.0:
        ends.append((releases_within_limit(last.delta, slack), "delta"))
    until, schedule = None, known_schedule(last.schedule)
    if schedule is not None:  # of one from elsewhere it is known what is left, but not how fast it goes
        until = _first(lambda count: float(schedule.spent(count)) >= 0.99 * last.budget, plays)

        def alone(count: int) -> Epsilon:
            due = due_epsilon(schedule, count + 1)
            return zcdp_epsilon(rho_share(last.budget, delta, due), delta) if last.rho else due

        over = _first(lambda count: alone(count) <= max(0.0, last.least * (1.0 - 1e-12)), plays)
        if schedule.limit is not None and schedule.limit - plays <= (over if over is not None else _FAR):
            ends.append((schedule.limit - plays, "schedule"))
        elif over is not None:
            ends.append((over, "least epsilon"))
    return *min(ends, default=(None, "nothing")), until


def _first(reached: Callable[[int], bool], plays: int) -> int | None:
    """Return how many more releases until ``reached``, by doubling and halving; None if not within a billion."""
    low, high = plays, max(1, plays)
    while not reached(high):
        low, high = high, high * 2
        if high > _FAR:
            return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle + 1, high)
    return low - plays
