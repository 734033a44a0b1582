"""Laws of every schedule: the charges never exceed the budget, in floating point, added in any order."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pausefl.errors import BudgetExceededError, InvalidValueError
from pausefl.privacy import FixedHorizon, Geometric, PowerLaw, Schedule
from pausefl.privacy.schedule import SCHEDULES, describe_schedule, described_schedule, parse_schedule, schedule_text

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
def test_a_schedule_comes_back_from_its_text_and_its_description(schedule):
    assert parse_schedule(schedule_text(schedule)) == schedule
    assert described_schedule(json.loads(json.dumps(describe_schedule(schedule)))) == schedule


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (Geometric(40, 0.04), "Geometric(budget=40.0, decay=0.04)"),
        (PowerLaw(10.0, 2), "PowerLaw(budget=10.0, exponent=2.0)"),
        (FixedHorizon(8.0, 4), "FixedHorizon(budget=8.0, releases=4)"),
        (Geometric(1e300, 1e-9), "Geometric(budget=1e+300, decay=1e-09)"),
    ],
)
def test_the_text_is_the_one_in_ledgers_on_disk(schedule, text):
    assert schedule_text(schedule) == text and parse_schedule(text) == schedule


def test_a_schedule_from_elsewhere_prints_itself_and_has_no_description():
    class Mine(Geometric):
        def __repr__(self):
            return "Mine()"

    assert schedule_text(Mine(1.0, 1.0)) == "Mine()"
    assert describe_schedule(Mine(1.0, 1.0)) is describe_schedule("geometric") is None


@pytest.mark.parametrize("schedule", [Geometric(7.0, 1e-6), PowerLaw(7.0, 1.0001), FixedHorizon(7.0, 10**6)], ids=repr)
def test_a_million_naive_additions(schedule):
    shares = np.fromiter((schedule.epsilon(i) for i in range(1, 1_000_001)), np.float64)
    assert float(np.cumsum(shares)[-1]) <= 7.0 and float(np.cumsum(shares[::-1])[-1]) <= 7.0


@pytest.mark.parametrize(
    ("one", "same"),
    [
        (Geometric(40, 1), Geometric(np.float64(40.0), np.int64(1))),
        (Geometric(40.0, 0.5), Geometric(np.float32(40.0), np.float32(0.5))),
        (PowerLaw(40, 2), PowerLaw(40.0, np.float64(2.0))),
        (FixedHorizon(40, 4), FixedHorizon(np.float32(40.0), np.uint8(4))),
    ],
)
def test_the_same_numbers_have_the_same_text(one, same):
    """A ledger knows a schedule by its text."""
    assert one == same and schedule_text(one) == schedule_text(same) and parse_schedule(schedule_text(same)) == one
    assert type(one.epsilon(1)) is type(same.epsilon(1)) is float
    assert one.epsilon(1) == same.epsilon(1)


@given(st.floats(0.015625, 2.0**100, width=32), st.floats(0.0009765625, 10.0, width=32), st.integers(1, 500))
def test_narrow_floats_keep_the_law(budget, decay, count):
    schedule = Geometric(np.float32(budget), np.float32(decay))
    assert math.fsum(charges(schedule, count)) <= budget


@pytest.mark.parametrize("value", ["40", None, 10**400, True, 1j, [40.0], math.nan])
def test_what_is_no_number_is_refused(value):
    for make in (lambda: Geometric(value, 0.04), lambda: Geometric(1.0, value), lambda: PowerLaw(1.0, value),
                 lambda: FixedHorizon(value, 4), lambda: FixedHorizon(1.0, value)):  # fmt: skip
        with pytest.raises(InvalidValueError):
            make()


@pytest.mark.parametrize("plays", [np.arange(-1, 200), [1.0, math.nan], -3, "7", ["a", "b"], [None], True])
def test_bad_plays_are_one_line(plays):
    with pytest.raises(InvalidValueError, match="plays") as caught:
        Geometric(40.0, 0.04).spent(plays)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 100


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


def test_schedules_have_names_in_configurations() -> None:
    numbers = {"budget": 8.0, "decay": 0.1, "exponent": 2.0, "releases": 4, "mechanism": "laplace"}
    made = {name: kind.from_settings(numbers) for name, kind in SCHEDULES.items()}
    assert made == {
        "geometric": Geometric(8.0, 0.1),
        "power-law": PowerLaw(8.0, 2.0),
        "fixed-horizon": FixedHorizon(8.0, 4),
    }
