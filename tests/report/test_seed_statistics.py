"""Statistics of a few seeds, against scipy's own, and their error rates where there is no difference."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from pausefl.report import seed_statistics
from pausefl.report.seed_statistics import holm, sign_flip_test, t_half_width, t_test

TENTHS = st.integers(-1000, 1000).map(lambda x: x / 10)  # numbers so close that nothing is left of them are no test
VALUES = st.lists(TENTHS, min_size=2, max_size=8, unique=True)


@given(VALUES)
def test_interval_and_t_test_are_those_of_scipy(values: list[float]) -> None:
    told = stats.ttest_1samp(values, 0.0)
    assert t_test(values) == pytest.approx(told.pvalue, rel=1e-6, abs=1e-12)
    about = stats.ttest_1samp(values, 3.5)
    assert t_test(values, about=3.5) == pytest.approx(about.pvalue, rel=1e-6, abs=1e-12)
    interval = told.confidence_interval(0.95)
    assert 2 * t_half_width(values) == pytest.approx(interval.high - interval.low, rel=1e-6)


@given(VALUES)
def test_the_sign_flip_test_counts_the_signs_that_are_as_extreme(values: list[float]) -> None:
    sums = [
        abs(sum(s * v for s, v in zip(signs, values, strict=True))) for signs in product((1, -1), repeat=len(values))
    ]
    expected = np.mean([found >= abs(sum(values)) * (1 - 1e-12) for found in sums])
    found = sign_flip_test(values)
    assert found is not None
    assert found == pytest.approx(expected, abs=2.0 / 2 ** len(values))  # a tie may round either way
    assert found >= 2 / 2 ** len(values)


def test_few_seeds_have_no_interval_and_no_test() -> None:
    assert t_half_width([3.0]) == t_half_width([3.0, 3.0]) == np.inf
    assert t_half_width([3.0, 3.0, 3.0]) == 0.0
    assert t_test([3.0]) is t_test([3.0, 3.0]) is sign_flip_test([]) is None


def test_five_seeds_cannot_say_less_than_a_sixteenth() -> None:
    assert sign_flip_test([1.0, 1.1, 0.9, 1.2, 5.0]) == 2 / 32
    assert sign_flip_test([1.0, -1.0]) == 1.0


def test_drawn_signs_agree_with_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).normal(0.4, 1.0, 14).tolist()
    exact = sign_flip_test(values)
    monkeypatch.setattr(seed_statistics, "EXACT_UP_TO", 10)
    drawn = sign_flip_test(values)
    assert exact is not None and drawn is not None
    assert drawn == pytest.approx(exact, abs=6 * np.sqrt(exact * (1 - exact) / 99_999))  # one false alarm in 10^9
    assert drawn == sign_flip_test(values)


def test_the_sign_flip_test_is_rarely_wrong_where_there_is_no_difference() -> None:
    rng = np.random.default_rng(2)
    wrong = sum((sign_flip_test(rng.standard_t(2, 6).tolist()) or 0) <= 0.05 for _ in range(2000))
    assert wrong / 2000 <= 0.05 + 5 * np.sqrt(0.05 * 0.95 / 2000)


@given(st.lists(st.floats(0, 1) | st.none(), max_size=8))
def test_holm_corrects_upwards_and_keeps_the_order(values: list[float | None]) -> None:
    told = holm(values)
    pairs = sorted((p, q) for p, q in zip(values, told, strict=True) if p is not None and q is not None)
    assert [p is None for p in values] == [q is None for q in told]
    assert all(p <= q <= min(1.0, p * len(pairs)) + 1e-12 or q == pairs[i - 1][1] for i, (p, q) in enumerate(pairs))
    assert [q for _, q in pairs] == sorted(q for _, q in pairs)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_is_its_definition(values: list[float]) -> None:
    """The i-th smallest of n is the largest of (n - j + 1) p_j for all j up to i, and 1 at most."""
    ordered, told = sorted(values), holm(values)
    wanted = [
        min(1.0, max((len(ordered) - j) * p for j, p in enumerate(ordered[: i + 1]))) for i in range(len(ordered))
    ]
    assert sorted(q for q in told if q is not None) == pytest.approx(wanted)
    assert all(q is not None and p <= q <= 1.0 for p, q in zip(values, told, strict=True))


def test_holm_is_right_in_the_textbook() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(st.integers(-1000, 1000), st.integers(3, 20))
def test_one_number_many_times_is_no_evidence(tenths: int, count: int) -> None:
    """The mean of 0.1, 0.1 and 0.1 is not 0.1 in binary, which must not look like a tiny spread."""
    assert t_test([tenths / 10] * count) is None
    assert t_half_width([tenths / 10] * count) == 0.0


@given(st.lists(st.integers(-30, 30), min_size=1, max_size=8))
@example([1, 1, 1, -3])
def test_the_sign_flip_test_does_not_depend_on_the_unit(values: list[int]) -> None:
    assert sign_flip_test([value / 10 for value in values]) == sign_flip_test(values)
