"""What the rows of a ledger must be like: each chained by hash to the one before, and none that could not happen.

The chain starts from the ledger's id and purpose, so the rows of one ledger fit no other.  A row here is
``(seq, *fields of a Charge, hash)``, as a database returns it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeAlias

from pausefl.errors import PauseError
from pausefl.privacy.ledger.accounts import Account, exact_sum, past_of
from pausefl.privacy.ledger.charge import MOST_COORDINATES, RETIRED, Charge, retirement
from pausefl.privacy.ledger.price import DELTA_LIMIT, rho_share
from pausefl.privacy.schedule import Schedule, parse_schedule
from pausefl.privacy.zcdp import zcdp_epsilon, zcdp_within
from pausefl.types import Epsilon

Row: TypeAlias = tuple[Any, ...]

COLUMNS = ", ".join(field.name for field in fields(Charge))
values_of = attrgetter(*(field.name for field in fields(Charge)))
"""Returns what a charge says, in the order of the columns."""
_KINDS = {"str": str, "int": int, "float": float, "Epsilon": float}
_AT = {field.name: place for place, field in enumerate(fields(Charge), 1)}
_TYPES = (int, *(_KINDS[str(field.type)] for field in fields(Charge)), str)


class BrokenChain(Exception):  # noqa: N818 - never leaves the ledgers
    """Why a chain cannot be trusted, in a few words."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends.  Noted elsewhere, it later proves that a ledger still holds all it held then."""

    rows: int
    hash: str


def start_of(ledger_id: str, purpose: str) -> str:
    """Return the hash that the first row of this ledger follows."""
    return _digest("pausefl ledger", (ledger_id, purpose))


def row_of(previous: str, seq: int, charge: Charge) -> Row:
    """Return the row that chains this charge to what came before."""
    values = (seq, *values_of(charge))
    return (*values, _digest(previous, values))


def charge_of(row: Row) -> Charge:
    """Return what a row says, without its place and hash."""
    return Charge(*row[1:-1])


def check_rows(start: str, rows: Sequence[Row]) -> dict[str, Account]:
    """Return all accounts, by their first rows; raise unless every row follows from the ``start`` of the chain."""
    previous = start
    by_subject: dict[str, list[Row]] = {}
    for place, row in enumerate(rows, 1):
        if tuple(map(type, row)) != _TYPES:
            raise BrokenChain(f"row {place} holds a value of another kind than pausefl writes")
        if row[0] != place or _digest(previous, row[:-1]) != row[-1]:
            raise BrokenChain(f"row {place} was edited, moved or removed")
        previous = row[-1]
        by_subject.setdefault(row[_AT["subject"]], []).append(row)
    return {subject: _checked_account(repr(subject), mine) for subject, mine in by_subject.items()}


def _checked_account(subject: str, rows: Sequence[Row]) -> Account:
    """Return the account of one subject; raise if its charges could not have been made, whatever their hashes say."""
    budget, text, unit = (rows[0][_AT[name]] for name in ("budget", "schedule", "unit"))
    schedule, rho = known_schedule(text), 0.0
    for number, row in enumerate(rows, 1):
        play, epsilon, delta = row[_AT["play"]], row[_AT["epsilon"]], row[_AT["delta"]]
        if not math.isfinite(row[_AT["time"]]):
            raise BrokenChain(f"play {number} of {subject} has an impossible time")
        if play != number:
            raise BrokenChain(f"the plays of {subject} have a gap at {number}")
        if (row[_AT["budget"]], row[_AT["schedule"]]) != (budget, text):
            raise BrokenChain(f"the schedule of {subject} changes at play {number}")
        if row[_AT["unit"]] != unit:
            raise BrokenChain(f"the unit of {subject} changes at play {number}")
        if row[_AT["release"]] == RETIRED:
            _check_retirement(subject, rows, number)
            continue
        if not (0.0 < epsilon < math.inf and 0.0 <= delta <= 1.0 and 0 <= row[_AT["dimension"]] <= MOST_COORDINATES):
            raise BrokenChain(f"play {number} of {subject} has an impossible epsilon, delta or dimension")
        paid = row[_AT["rho"]]
        if not 0.0 <= paid < math.inf or (paid > 0.0) != (rows[0][_AT["rho"]] > 0.0):
            raise BrokenChain(f"play {number} of {subject} is paid in another way than its first")
        if schedule is not None and not _is_due(row, schedule, rho, rows[0][_AT["delta"]]):
            raise BrokenChain(f"play {number} of {subject} was not charged what its schedule says")
        rho += paid
    if len({row[_AT["release"]] for row in rows}) < len(rows):
        raise BrokenChain(f"{subject} has a release that was charged twice")
    if schedule is not None and schedule.budget != budget:
        raise BrokenChain(f"the budget of {subject} is not its schedule's")
    account = _account(rows)
    if not math.fsum(account.epsilons) <= budget < math.inf:
        raise BrokenChain(f"{subject} has spent more than its budget")
    if not math.fsum(account.deltas) <= DELTA_LIMIT:
        raise BrokenChain(f"{subject} has spent more than the limit of delta")
    return account


def _account(rows: Sequence[Row]) -> Account:
    """Return the account that these rows of one subject are, all of them from the first on."""
    sums = (exact_sum([row[_AT[name]] for row in rows]) for name in ("epsilon", "delta", "rho"))
    return Account(charge_of(rows[0]), charge_of(rows[-1]), *sums)


def _is_due(row: Row, schedule: Schedule, rho: float, delta: float) -> bool:
    """Whether a row was charged what its schedule says, after ``rho`` in all; ``delta`` is that of the first row."""
    play, epsilon, paid = (row[_AT[name]] for name in ("play", "epsilon", "rho"))
    # Another machine's exp may differ in its last bit: that is no tampering.
    if paid == 0.0:
        return math.isclose(epsilon, due_epsilon(schedule, play), rel_tol=1e-9)
    worth = zcdp_within(schedule.budget, delta)
    due = rho_share(schedule.budget, delta, due_epsilon(schedule, play))
    added = zcdp_epsilon(rho + paid, delta) - zcdp_epsilon(rho, delta)
    close = math.isclose(epsilon, added, rel_tol=1e-9, abs_tol=1e-12 * schedule.budget)
    return close and math.isclose(paid, due, rel_tol=1e-9) and rho + paid <= worth


def _check_retirement(subject: str, rows: Sequence[Row], number: int) -> None:
    if number < len(rows):
        raise BrokenChain(f"{subject} has a release after it was retired")
    last = charge_of(rows[-1])
    before = past_of(_account(rows[:-1]) if number > 1 else None)
    if last != retirement(before, last.subject, last.time):
        raise BrokenChain(f"{subject} was retired with other values than pausefl writes")


def due_epsilon(schedule: Schedule, play: int) -> Epsilon:
    """Return what a schedule has for this release; 0 if it has nothing left."""
    try:
        return schedule.epsilon(play)
    except PauseError:
        return 0.0


@lru_cache(maxsize=256)
def known_schedule(text: str) -> Schedule | None:
    """Return the schedule that a row names; None if it is not one of the package's."""
    try:
        return parse_schedule(text)
    except PauseError:
        return None


def _digest(previous: str, values: Row) -> str:
    return hashlib.sha256(json.dumps([previous, *values]).encode()).hexdigest()
