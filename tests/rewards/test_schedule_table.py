"""Clients of several schedules: everybody gets the numbers that its own schedule gives, to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pausefl.errors import InvalidValueError
from pausefl.privacy import FixedHorizon, Geometric, PowerLaw
from pausefl.rewards import budget_left
from pausefl.rewards.budgets import Budgets
from pausefl.rewards.schedule_table import ScheduleTable

DIFFERENT = [
    Geometric(40.0, 0.04),
    PowerLaw(10.0, 1.5),
    FixedHorizon(8.0, 4),
    FixedHorizon(8.0, 5),
    Geometric(1.0, 2.0),
]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3) | st.integers(0, 10**6)), min_size=1, max_size=60))
def test_a_client_has_what_its_own_schedule_leaves(clients: list[tuple[int, int]]) -> None:
    schedules = [DIFFERENT[kind] for kind, _ in clients]
    releases = np.array([count for _, count in clients])
    budgets = Budgets(ScheduleTable.of(schedules))
    left, spent, solvent = budgets.left(releases), budgets.spent(releases), budgets.solvent(releases)
    for row, (schedule, count) in enumerate(zip(schedules, releases, strict=True)):
        one = np.array([count])
        assert left[row] == budget_left(schedule, one)[0]
        assert spent[row] == schedule.spent(one)[0]
        assert (solvent is None or bool(solvent[row])) == (schedule.limit is None or bool(count < schedule.limit))


def test_a_table_and_groups_give_the_same() -> None:
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 5, 5000)
    releases = rng.integers(0, 50, 5000)
    table = ScheduleTable.of([DIFFERENT[kind] for kind in kinds])
    many = np.append(releases[:-1], 10**7)  # too many for a table
    assert np.array_equal(table.look_up(budget_left, releases)[:-1], table.look_up(budget_left, many)[:-1])


def test_equal_schedules_are_stored_once() -> None:
    table = ScheduleTable.of(Geometric(float(1 + row % 3), 0.04) for row in range(300))
    assert len(table.schedules) == 3
    assert table.column is not None and table.column.dtype == np.uint8
    assert table.column.tolist() == [row % 3 for row in range(300)]
    single = ScheduleTable.of(Geometric(40.0, 0.04) for _ in range(300))
    assert (single.schedules, single.column) == ((Geometric(40.0, 0.04),), None)
    assert single.grown([Geometric(40.0, 0.04)] * 2, 300).column is None
    grown = single.grown([FixedHorizon(8.0, 4)], 300)
    assert grown.column is not None and grown.column.tolist() == [0] * 300 + [1]


def test_more_schedules_than_a_byte_can_number() -> None:
    schedules = [Geometric(float(1 + row), 0.04) for row in range(1500)]
    table = ScheduleTable.of(schedules[:200]).grown(schedules[200:], 200)
    assert table.column is not None and table.column.tolist() == list(range(1500))
    releases = np.arange(1500) % 3
    wanted = [float(one.spent(count)) for one, count in zip(schedules, releases, strict=True)]
    assert Budgets(table).spent(releases).tolist() == wanted


class Unhashable:
    """A schedule that cannot be a key."""

    __hash__ = None  # type: ignore[assignment]
    budget, limit = 2.0, 2

    def spent(self, plays: np.ndarray) -> np.ndarray:
        return np.minimum(np.asarray(plays, dtype=float), 2.0)


def test_schedules_of_your_own_need_no_hash() -> None:
    mine, other = Unhashable(), Unhashable()
    table = ScheduleTable.of([mine, other, mine])
    assert table.schedules == (mine, other)
    assert Budgets(table).left(np.array([0, 1, 2])).tolist() == [1.0, 0.5, 0.0]


def test_several_schedules_are_no_single_one() -> None:
    assert Budgets(ScheduleTable.of([DIFFERENT[0]] * 2)).schedule == DIFFERENT[0]
    with pytest.raises(InvalidValueError, match="schedules are 2 different ones, but must be one for all clients here"):
        _ = Budgets(ScheduleTable.of(DIFFERENT[:2])).schedule
