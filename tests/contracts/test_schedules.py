"""Laws of every schedule: the charges never exceed the budget, in floating point, added in any order."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pausefl.errors import BudgetExceededError, InvalidValueError
from pausefl.privacy import FixedHorizon, Geometric, PowerLaw, Schedule
from pausefl.privacy.schedule import parse_schedule

budgets = st.floats(1e-100, 1e300)
anything = st.one_of(
    st.builds(Geometric, budgets, st.floats(1e-9, 1e4)),
    st.builds(PowerLaw, budgets, st.floats(1.0 + 1e-9, 60.0)),
    st.builds(FixedHorizon, budgets, st.integers(1, 3000)),
)
plain: list[Callable[[float], Schedule]] = [
    lambda budget: Geometric(budget, 0.04),
    lambda budget: PowerLaw(budget, 1.5),
    lambda budget: FixedHorizon(budget, 40),
]


def charges(schedule: Schedule, count: int) -> list[float]:
    found = []
    for release in range(1, count + 1):
        try:
            found.append(schedule.epsilon(release))
        except BudgetExceededError:
            break
    return found


@given(anything, st.integers(1, 3000), st.randoms(use_true_random=False))
def test_the_sum_never_exceeds_the_budget(schedule, count, random):
    found = charges(schedule, count)
    assert all(epsilon > 0.0 for epsilon in found)
    total = 0.0
    for epsilon in found:
        total += epsilon
    assert total <= schedule.budget
    random.shuffle(found)
    total = 0.0
    for epsilon in found:
        total += epsilon
    assert total <= schedule.budget
    assert math.fsum(found) <= schedule.budget
    assert float(np.sum(found)) <= schedule.budget


@given(anything, st.integers(1, 2000))
def test_spent_is_the_sum_of_the_charges(schedule, count):
    found = charges(schedule, count)
    assert float(schedule.spent(len(found))) == pytest.approx(math.fsum(found), rel=1e-9, abs=1e-12 * schedule.budget)


@given(anything, st.lists(st.integers(0, 10**9), min_size=2, max_size=20))
def test_spent_never_falls_nor_exceeds_the_budget(schedule, plays):
    spent = schedule.spent(sorted(plays))
    assert np.all(np.diff(spent) >= -1e-15 * schedule.budget)
    assert np.all((spent >= 0.0) & (spent <= schedule.budget))
    assert float(schedule.spent(0)) == 0.0


@given(anything)
def test_a_schedule_comes_back_from_its_print(schedule):
    assert parse_schedule(repr(schedule)) == schedule


@pytest.mark.parametrize("make", plain)
def test_a_million_naive_additions(make):
    schedule = make(7.0)
    shares = np.diff(schedule.spent(np.arange(0, 1_000_001, 1)))
    assert float(np.cumsum(shares)[-1]) <= 7.0


@pytest.mark.parametrize("make", plain)
@pytest.mark.parametrize("budget", [0.0, -1.0, math.nan, math.inf, 1e-320])
def test_bad_budgets_are_refused(make, budget):
    with pytest.raises(InvalidValueError, match="budget"):
        make(budget)


@pytest.mark.parametrize("make", plain)
@pytest.mark.parametrize("release", [0, -1, 1.5, True, math.nan, "1", 2**60])
def test_bad_release_numbers_are_refused(make, release):
    with pytest.raises(InvalidValueError, match="release"):
        make(1.0).epsilon(release)


@pytest.mark.parametrize(
    "text", ["", "Geometric", "Geometric(40.0, 0.04)", "open('x')", "Geometric(budget=-1)", "{}[0]"]
)
def test_what_is_no_schedule_is_not_read_as_one(text):
    with pytest.raises(InvalidValueError):
        parse_schedule(text)


def test_a_fixed_horizon_refuses_the_next():
    schedule = FixedHorizon(8.0, 4)
    assert len(charges(schedule, 10)) == 4 == schedule.limit
    with pytest.raises(InvalidValueError, match="releases"):
        FixedHorizon(8.0, 10**9)


def test_a_steep_decay_does_not_overflow():
    assert Geometric(1.0, 5000.0).epsilon(1) == pytest.approx(1.0)
    with pytest.raises(BudgetExceededError):
        Geometric(1.0, 5000.0).epsilon(2)
