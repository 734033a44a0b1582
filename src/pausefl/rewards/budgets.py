"""What is left of each client's budget: by its schedule and its releases, or by what it says itself.

Reference: PAUSE, eq. (privacy reward function).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pausefl.errors import InvalidValueError
from pausefl.rewards.schedule_table import ScheduleTable
from pausefl.types import BoolArray, BudgetSchedule, FloatArray, IntArray


def budget_left(schedule: BudgetSchedule, releases: IntArray) -> FloatArray:
    """Return p_k = 1 - spent/budget, which is 1 for a client that released nothing.

    Args:
        schedule: How a budget is spread over releases.
        releases: How many releases each client has made.

    >>> from pausefl.privacy import Geometric
    >>> budget_left(Geometric(budget=40.0, decay=0.04), np.array([0, 50])).round(4).tolist()
    [1.0, 0.1353]
    """
    most = int(releases.max())
    if most < len(releases):  # few distinct counts: one table instead of K evaluations
        return (1.0 - schedule.spent(np.arange(most + 1)) / schedule.budget)[releases]
    return 1.0 - schedule.spent(releases) / schedule.budget


class Budgets:
    """The server's estimate of every client's budget.

    Of a client that has said nothing, the estimate is p(n): what its schedule leaves after n releases.  A client that
    said after n releases that the fraction f is left has f.  After further releases, n' in all, it has f·p(n')/p(n):
    the estimate falls in proportion, until the client speaks again.  A client that said 0 has no budget.  One that
    said more may be picked once more whatever its schedule's limit is; after a further release the limit counts again.

    >>> from pausefl.privacy import FixedHorizon
    >>> budgets = Budgets(ScheduleTable((FixedHorizon(budget=8.0, releases=4),)))
    >>> budgets.tell(np.array([0]), np.array([0.5]), releases=np.array([1, 1]))
    >>> budgets.left(np.array([1, 1])).round(3).tolist(), budgets.left(np.array([2, 2])).round(3).tolist()
    ([0.5, 0.75], [0.333, 0.5])
    """

    __slots__ = ("_at", "_rows", "_told", "table")

    def __init__(self, table: ScheduleTable) -> None:
        self.table = table
        self._told: FloatArray = np.empty(0)  # NaN, or beyond the end: the client has said nothing
        self._at: IntArray = np.empty(0, dtype=np.int64)
        self._rows: IntArray = np.empty(0, dtype=np.int64)  # of those that have said something

    @property
    def schedule(self) -> BudgetSchedule:
        """The schedule of all clients; several are refused."""
        only = self.table.only
        if only is None:
            raise InvalidValueError(
                f"schedules are {len(self.table.schedules)} different ones, but must be one for all clients here; pass "
                "a single schedule to the Selector"
            )
        return only

    def left(self, releases: IntArray, rows: IntArray | slice | None = None) -> FloatArray:
        """Return the fraction that clients have left after these numbers of releases; ``rows`` says who, if not all."""
        left = self.table.look_up(budget_left, releases, rows)
        if len(self._rows):
            at, told = self._tellers(len(releases), rows)
            if len(at):
                left[at] = self._by_word(told, left[at])
        return left

    def next_release(self, releases: IntArray) -> FloatArray:
        """Return what each client's next release costs after these numbers of releases, as a share of its first."""
        return self.table.look_up(_next_release, releases)

    def spent(self, releases: IntArray) -> FloatArray:
        """Return the epsilon that each client has leaked after these numbers of releases."""
        spent = self.table.look_up(lambda schedule, counts: schedule.spent(counts), releases)
        rows = self._rows
        if len(rows):
            spent = np.array(spent)  # a schedule of the user's own may hand out an array that it keeps
            now = self.table.look_up(budget_left, releases[rows], rows)
            budget = self.table.look_up(_budget, np.zeros(len(rows), dtype=np.int64), rows)
            spent[rows] = budget * (1.0 - self._by_word(rows, now))
        return spent

    def solvent(self, releases: IntArray) -> BoolArray | None:
        """Return who may release once more after these numbers of releases; None if everybody may."""
        within, rows = self.table.within_limits(releases), self._rows
        if not len(rows):
            return within
        solvent = np.ones(len(releases), dtype=np.bool_) if within is None else within
        fresh = releases[rows] == self._at[rows]
        solvent[rows] = (self._told[rows] > 0.0) & (fresh | solvent[rows])
        return solvent

    def tell(self, rows: IntArray, left: FloatArray, *, releases: IntArray) -> None:
        """Take over what these clients say is left; NaN withdraws it.  ``releases`` counts those of all clients."""
        if len(self._told) < len(releases):
            missing = len(releases) - len(self._told)
            self._told = np.concatenate([self._told, np.full(missing, np.nan)])
            self._at = np.concatenate([self._at, np.zeros(missing, dtype=np.int64)])
        self._told[rows] = left
        self._at[rows] = releases[rows]
        self._rows = np.flatnonzero(~np.isnan(self._told))

    def recount(self, rows: IntArray, releases: IntArray) -> None:
        """Take note that the count of releases of these clients was corrected: a word is not older than its count."""
        inside = rows < len(self._at)
        known = rows[inside]
        self._at[known] = np.minimum(self._at[known], releases[known])

    def state(self) -> dict[str, Any]:
        """Return what clients have said, as arrays; nothing if none has."""
        unknown = np.isnan(self._told)
        return {} if unknown.all() else {"told_left": self._told, "told_at": np.where(unknown, 0, self._at)}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Continue from what ``state`` returned."""
        self._told = np.array(arrays.get("told_left", ()), dtype=np.float64)
        self._at = np.array(arrays.get("told_at", ()), dtype=np.int64)
        self._rows = np.flatnonzero(~np.isnan(self._told))

    def _tellers(self, count: int, rows: IntArray | slice | None) -> tuple[IntArray, IntArray]:
        """Return who of these clients has said something: its place among them, and its row."""
        if rows is None:
            return self._rows, self._rows
        some = np.arange(count) + rows.start if isinstance(rows, slice) else rows
        at = np.flatnonzero(some < len(self._told))
        at = at[~np.isnan(self._told[some[at]])]
        return at, some[at]

    def _by_word(self, rows: IntArray, now: FloatArray) -> FloatArray:
        then = self.table.look_up(budget_left, self._at[rows], rows)
        # Where the schedule had left nothing there is no proportion to go on in: the word stands.
        return self._told[rows] * np.divide(now, then, out=np.ones(len(rows)), where=then > 0.0)


def _next_release(schedule: BudgetSchedule, counts: IntArray) -> FloatArray:
    most = int(counts.max(initial=0))
    known = np.arange(most + 1) if most < len(counts) else counts  # few distinct counts: one table
    price = schedule.spent(known + 1) - schedule.spent(known)
    share: FloatArray = price / (
        schedule.spent(np.ones(1, dtype=np.int64)) - schedule.spent(np.zeros(1, dtype=np.int64))
    )
    return share[counts] if most < len(counts) else share


def _budget(schedule: BudgetSchedule, counts: IntArray) -> FloatArray:
    return np.full(len(counts), schedule.budget, dtype=np.float64)
