"""Which schedule each client has: a small table of the different ones, and one small number per client."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pausefl.errors import InvalidValueError, shown
from pausefl.types import BoolArray, BudgetSchedule, FloatArray, IntArray

NEVER = np.iinfo(np.int64).max
"""The limit of a schedule that does not end."""


@dataclass(frozen=True, slots=True, eq=False)
class ScheduleTable:
    """A few different schedules, and for each client which of them it has; None if all have the only one.

    Everything is worked out once per schedule and number of releases, and then looked up per client.  So a million
    clients of a few schedules cost little more than with one.  Beyond about 1,000 different schedules it gets slower.

    Law: a client gets the numbers that it would get if all clients had its schedule, to the bit.
    """

    schedules: tuple[BudgetSchedule, ...]
    column: npt.NDArray[Any] | None = None

    @classmethod
    def of(cls, schedules: Iterable[BudgetSchedule]) -> Self:
        """Return the table for clients that have these schedules, in order; equal ones are stored once."""
        return cls((), np.empty(0, dtype=np.uint8)).grown(schedules, 0)

    @property
    def only(self) -> BudgetSchedule | None:
        """The schedule that all clients have; None if they differ."""
        return self.schedules[0] if self.column is None else None

    def grown(self, schedules: Iterable[BudgetSchedule], clients: int) -> Self:
        """Return the table with more clients after the first ``clients``."""
        different = list(self.schedules)
        number_of = {_key(schedule): number for number, schedule in enumerate(different)}
        new = list(schedules)  # held, so that no two of them can have one identity
        seen: dict[int, int] = {}  # by identity, which is quicker to find than an equal one
        more: list[int] = []
        for schedule in new:
            number = seen.get(id(schedule))
            if number is None:
                number = seen[id(schedule)] = number_of.setdefault(_key(schedule), len(different))
                if number == len(different):
                    different.append(schedule)
            more.append(number)
        if len(different) == 1:
            return type(self)(tuple(different))
        before = np.zeros(clients, dtype=np.uint8) if self.column is None else self.column
        small = np.min_scalar_type(len(different) - 1)
        return type(self)(tuple(different), np.concatenate([before, np.array(more, dtype=small)]).astype(small))

    def schedule_of(self, row: int) -> BudgetSchedule:
        """Return a client's schedule."""
        return self.schedules[0 if self.column is None else int(self.column[row])]

    def look_up(
        self, function: Callable[[BudgetSchedule, IntArray], FloatArray], counts: IntArray,
        rows: IntArray | slice | None = None,
    ) -> FloatArray:  # fmt: skip
        """Return a function of each client's schedule and its count; ``rows`` says which clients, if not all."""
        if self.column is None:
            return function(self.schedules[0], counts)
        column = self.column if rows is None else self.column[rows]
        width = int(counts.max(initial=0)) + 1
        if width * len(self.schedules) > max(len(counts), 1000):
            return self._by_group(function, counts, column)
        known = np.arange(width)
        table = np.concatenate([function(schedule, known) for schedule in self.schedules])
        at = column.astype(np.int64)
        at *= width
        at += counts
        return table[at]

    def limits(self, rows: IntArray) -> IntArray:
        """Return how many releases each of these clients can ever make, ``NEVER`` if its schedule does not end."""
        each = np.array([NEVER if one.limit is None else one.limit for one in self.schedules], dtype=np.int64)
        found: IntArray = np.repeat(each, len(rows)) if self.column is None else each[self.column[rows]]
        return found

    def within_limits(self, releases: IntArray) -> BoolArray | None:
        """Return which clients have made fewer releases than they can; None if all have."""
        ends = [schedule.limit for schedule in self.schedules if schedule.limit is not None]
        if not ends or int(releases.max(initial=0)) < min(ends):
            return None
        within: BoolArray = releases < min(ends)
        if self.column is not None:  # few have come so far, and only they are looked at closely
            rows = np.flatnonzero(~within)
            within[rows] = releases[rows] < self.limits(rows)
        return within

    def _by_group(
        self, function: Callable[[BudgetSchedule, IntArray], FloatArray], counts: IntArray, column: npt.NDArray[Any]
    ) -> FloatArray:
        """Return the same where a table would be larger than the number of clients."""
        found = np.empty(len(counts))
        order = np.argsort(column, kind="stable")
        starts = np.flatnonzero(np.diff(column[order], prepend=-1))
        for group in np.split(order, starts[1:]):
            if len(group):
                found[group] = function(self.schedules[int(column[group[0]])], counts[group])
        return found


def checked_schedule(schedule: object, whose: str = "schedule") -> None:
    """Refuse what is no schedule."""
    if not all(hasattr(schedule, name) for name in ("budget", "limit", "spent")):
        raise InvalidValueError(
            f"{whose} is {shown(schedule)}, but must be a schedule; for example Geometric(budget=40.0, decay=0.04)"
        )


def _key(schedule: BudgetSchedule) -> object:
    try:
        hash(schedule)
    except TypeError:
        return id(schedule)  # of a class that cannot be hashed: equal to itself alone
    return schedule
