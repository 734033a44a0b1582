"""One row of a ledger, and whether it may be written: the subject's past, its terms, and what comes next."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from types import UnionType
from typing import Protocol

from pausefl.errors import AlreadyReservedError, BudgetExceededError, ScheduleChangedError, is_finite, require
from pausefl.privacy.ledger.price import IN_RHO, in_rho, release_price
from pausefl.privacy.mechanisms.base import PROTECTED, Mechanism
from pausefl.privacy.mechanisms.noise import Noise
from pausefl.privacy.schedule import Schedule, schedule_text
from pausefl.privacy.zcdp import zcdp_epsilon, zcdp_within
from pausefl.types import Epsilon

UNSTATED = "unstated"

RETIRED = "retired"
"""The name of the last release of a subject that spent what it had left, for ever; nobody else may use it."""

MOST_COORDINATES = 2**53
"""The largest dimension of a row: counts up to here are exact as floats, and fit any database."""

_EXAMPLES = {"subject": "for example 'clinic-7'", "release": "for example 'run/round'"}


@dataclass(frozen=True, slots=True)
class Charge:
    """One row: this release of a subject's data was its ``play``-th, and adds ``epsilon`` and ``delta`` to the account.

    Attributes:
        subject: Whose data it is.
        release: The name of the release.  A release called "retired" only spends what is left.
        play: Which release of the subject this is: 1, 2, 3, ….
        epsilon: What it adds to the account.  Where releases are paid in rho, it is the amount by which the epsilon of
            the account rises, at the delta that the first release brings for all of them.
        delta: What it adds to the delta of the account.
        rho: What it costs in rho; 0 where epsilon itself is added up.
        budget: The budget, fixed at the first reservation.
        schedule: The schedule, fixed at the first reservation.
        unit: What is protected, fixed at the first reservation.
        dimension: How many coordinates leave; 0 if that was not stated.
        loss: The shape of the privacy loss.
        least: The smallest epsilon that the mechanism can do.
        mechanism: The mechanism.  If no mechanism was named, then the mechanism, the unit, the loss and the noise are
            unstated, and delta counts as 0.
        noise: Where the noise came from.
        time: What the ledger's clock said, for the auditor only: nothing is decided by it.

    >>> import tempfile
    >>> from pausefl.privacy import Geometric, Laplace, SqliteLedger
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = SqliteLedger.create(f"{folder}/ledger.db", clock=lambda: 0.0)
    ...     laplace = Laplace(unit="coordinate", width=1.0)
    ...     charge = ledger.reserve("clinic-7", "trial/1", Geometric(budget=40.0, decay=0.04), mechanism=laplace)
    >>> charge.play, round(charge.epsilon, 4), charge.protects, charge.when
    (1, 1.5684, 'one number of the update, any two inputs', '1970-01-01T00:00:00.000Z')
    """

    subject: str
    release: str
    play: int
    epsilon: Epsilon
    delta: float
    rho: float
    budget: Epsilon
    schedule: str
    unit: str
    dimension: int
    loss: str
    least: Epsilon
    mechanism: str
    noise: str
    time: float

    @property
    def protects(self) -> str:
        """Which two inputs nobody can tell apart, up to epsilon and delta, in words."""
        return PROTECTED.get(self.unit, UNSTATED)

    @property
    def when(self) -> str:
        """The time as a date of ISO 8601, in UTC; as seconds if the clock told of a year that has none."""
        try:
            return datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        except (ValueError, OverflowError, OSError):
            return f"{self.time!r} s"


@dataclass(frozen=True, slots=True)
class Reservation:
    """What is asked for: the next epsilon of this subject, for this release, to be made by this mechanism."""

    subject: str
    release: str
    schedule: Schedule
    mechanism: Mechanism | None = None
    noise: Noise | None = None
    dimension: int | None = None

    def __post_init__(self) -> None:
        check_names(subject=self.subject, release=self.release)
        fine = self.release != RETIRED
        require(fine, "release", self.release, "another name", "this name marks a subject that was retired")
        _require_kind(
            "schedule", self.schedule, Schedule, "a Schedule", "for example Geometric(budget=40.0, decay=0.04)"
        )
        _require_kind("mechanism", self.mechanism, Mechanism | None, "a Mechanism, or left out", "pass the object")
        _require_kind("noise", self.noise, Noise | None, "a Noise, or left out", "pass the source itself")
        count = self.dimension
        fine = count is None or (type(count) is int and 1 <= count <= MOST_COORDINATES)
        require(fine, "dimension", count, "a whole number above 0, or left out", "count the coordinates that leave")
        budget = self.schedule.budget
        fine = is_finite(budget) and budget > 0.0
        require(fine, "budget", budget, "a finite number above 0", "set a finite budget")
        # A default repr holds an address: the next process would not recognise its own schedule.
        text = schedule_text(self.schedule)
        require(" at 0x" not in text, "schedule", text, "printed by its values", "give the schedule a __repr__")
        check_names(schedule=text)
        if self.mechanism is not None:
            check_names(mechanism=repr(self.mechanism))


class Names(Protocol):
    """How many releases there were, and whether one of them had this name."""

    def __len__(self) -> int: ...

    def __contains__(self, name: object, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class Past:
    """What a decision needs of a subject's past: its first and last row, and what all releases were charged.

    Of ``epsilons``, ``deltas`` and ``rhos`` only the exact sum counts, and whether there are any.
    """

    first: Charge | None
    last: Charge | None
    releases: Names
    epsilons: Sequence[Epsilon]
    deltas: Sequence[float]
    rhos: Sequence[float]

    @classmethod
    def of(cls, charges: Sequence[Charge]) -> Past:
        """Return the past that these charges of one subject are."""
        columns = ([getattr(one, name) for one in charges] for name in ("release", "epsilon", "delta", "rho"))
        return cls(charges[0] if charges else None, charges[-1] if charges else None, *columns)

    @property
    def retired(self) -> str | None:
        """When the subject was retired; None if it was not."""
        return self.last.when if self.last is not None and self.last.release == RETIRED else None


def alone_epsilon(charge: Charge, mechanism: Mechanism) -> Epsilon:
    """Return the epsilon with which the mechanism makes this release: that of the release by itself."""
    return zcdp_epsilon(charge.rho, mechanism.guarantee.delta) if charge.rho > 0.0 else charge.epsilon


def next_charge(past: Past, wanted: Reservation, time: float) -> Charge:
    """Return the charge that follows the subject's ``past``, or refuse."""
    subject, schedule, mechanism = wanted.subject, wanted.schedule, wanted.mechanism
    require(math.isfinite(time), "time", time, "a finite number of seconds", "let the ledger's clock return seconds")
    text = schedule_text(schedule)
    unit: str = mechanism.guarantee.unit if mechanism is not None else UNSTATED
    if past.retired is not None:
        raise BudgetExceededError(f"{subject!r} was retired at {past.retired}, for ever; stop taking part")
    if past.first is not None:
        _check_terms(past.first, schedule, unit, mechanism)
    if wanted.release in past.releases:
        raise AlreadyReservedError(
            f"release {wanted.release!r} of {subject!r} was reserved before; "
            "send the stored bytes again, or use a new name"
        )
    play = len(past.releases) + 1
    price = release_price(schedule, play, mechanism, past.deltas, math.fsum(past.rhos), subject)
    # The schedules keep within their budget by law; this guards against one that does not.
    total = math.fsum([*past.epsilons, price.epsilon])
    if not total <= schedule.budget:
        raise BudgetExceededError(
            f"release {play} of {subject!r} would bring it to {total!r}, but the budget is {schedule.budget!r}; "
            "stop taking part"
        )
    loss, least, label = UNSTATED, 0.0, UNSTATED
    if mechanism is not None:
        loss = IN_RHO if mechanism.composition == IN_RHO else str(mechanism.loss)
        least, label = float(mechanism.least_epsilon), repr(mechanism)
    source = wanted.noise.name if wanted.noise is not None else UNSTATED
    return Charge(
        subject, wanted.release, play, price.epsilon, price.delta, price.rho, float(schedule.budget), text,
        unit, wanted.dimension or 0, loss, least, label, source, float(time),
    )  # fmt: skip


def outlook(past: Past, wanted: Reservation) -> tuple[float, Charge | None]:
    """Return which share of its budget a subject has left, and what would be charged next; 0 and None at the end."""
    try:
        ahead = next_charge(past, wanted, 0.0)
    except BudgetExceededError:
        return 0.0, None
    worth, spent = wanted.schedule.budget, past.epsilons
    if ahead.rho > 0.0 and wanted.mechanism is not None:
        worth, spent = zcdp_within(worth, wanted.mechanism.guarantee.delta), past.rhos
    return max(0.0, 1.0 - math.fsum(spent) / worth), ahead


def _check_terms(first: Charge, schedule: Schedule, unit: str, mechanism: Mechanism | None) -> None:
    """Refuse other terms than those of the first release; epsilons of two units have no sum that means anything."""
    text = schedule_text(schedule)
    if (first.budget, first.schedule) != (schedule.budget, text):
        raise ScheduleChangedError(
            f"schedule is {text}, but {first.subject!r} was fixed to {first.schedule} by its first release; "
            "use that schedule"
        )
    if first.unit != unit:
        raise ScheduleChangedError(
            f"unit is {unit!r}, but {first.subject!r} was fixed to {first.unit!r} by its first release; "
            "use a mechanism of that unit"
        )
    was, now = (IN_RHO if paid else "sum" for paid in (first.rho > 0.0, in_rho(mechanism)))
    if was != now:
        raise ScheduleChangedError(
            f"account is {now!r}, but {first.subject!r} was fixed to {was!r} by its first release; use account={was!r}"
        )
    if mechanism is not None and in_rho(mechanism) and mechanism.guarantee.delta != first.delta:
        raise ScheduleChangedError(
            f"delta is {mechanism.guarantee.delta:g}, but that of {first.subject!r} was fixed to {first.delta:g} for "
            "life by its first release; use that delta"
        )


def retirement(past: Past, subject: str, time: float) -> Charge:
    """Return the last charge of a subject, which spends what it has left; or refuse, because it was made before."""
    require(math.isfinite(time), "time", time, "a finite number of seconds", "let the ledger's clock return seconds")
    if past.retired is not None:
        raise AlreadyReservedError(f"{subject!r} was retired at {past.retired}; nothing is left to spend")
    first = past.first
    budget, text, unit = (first.budget, first.schedule, first.unit) if first is not None else (0.0, RETIRED, UNSTATED)
    return Charge(
        subject, RETIRED, len(past.releases) + 1, epsilon_left(budget, past.epsilons), 0.0, 0.0, budget, text,
        unit, 0, UNSTATED, 0.0, UNSTATED, UNSTATED, float(time),
    )  # fmt: skip


def epsilon_left(budget: Epsilon, epsilons: Iterable[Epsilon]) -> Epsilon:
    """Return what brings the sum of all epsilons to the budget, and never above it.

    >>> epsilon_left(40.0, [8.0, 16.0])
    16.0
    """
    spent = list(epsilons)
    left = max(0.0, float(Fraction(budget) - sum(map(Fraction, spent))))
    return left if math.fsum([*spent, left]) <= budget else math.nextafter(left, 0.0)


def check_names(**names: object) -> None:
    """Refuse a name that is no text, empty, or that no database could store and no terminal show as it is."""
    for what, name in names.items():
        fine = isinstance(name, str) and 0 < len(name) <= 1000 and name.isprintable()
        require(fine, what, name, "printable text of 1 to 1000 characters", _EXAMPLES.get(what, "use such a name"))


def _require_kind(name: str, value: object, kind: type | UnionType, bound: str, remedy: str) -> None:
    require(isinstance(value, kind), name, value, bound, remedy)
