import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pausefl.errors import UnknownClientError
from pausefl.selector.cohort import Cohort


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0.01, 100.0)), max_size=60))
def test_the_recursive_mean_is_the_mean(seen: list[tuple[int, float]]) -> None:
    cohort = Cohort(np.ones(5))
    for row, latency in seen:
        cohort.observe(np.array([row]), np.array([latency]))
    for row in range(5):
        rates = [1.0 / latency for r, latency in seen if r == row]
        assert cohort.picks[row] == len(rates)
        assert cohort.rate[row] == pytest.approx(np.mean(rates) if rates else 0.0)


def test_latencies_below_the_floor_count_as_the_floor() -> None:
    cohort = Cohort(np.ones(1))
    cohort.observe(np.array([0]), np.array([0.01]), floor=0.05)
    assert 0.05 * cohort.rate[0] == pytest.approx(1.0)


def test_observing_touches_only_its_rows() -> None:
    cohort = Cohort(np.ones(1000))
    before = cohort.rate.copy(), cohort.picks.copy()
    cohort.observe(np.array([3, 500]), np.array([0.5, np.nan]))
    changed = np.flatnonzero((cohort.rate != before[0]) | (cohort.picks != before[1]))
    assert changed.tolist() == [3, 500]
    assert cohort.fastest_seen == 0.5


def test_ids_stay_numbers_until_a_name_joins() -> None:
    cohort = Cohort([1.0, 2.0])
    cohort.join({2: 3.0})
    assert isinstance(cohort.ids, range)
    keys = cohort.keys.copy()
    cohort.join({"late": 1.0, 9: 1.0})
    assert list(cohort.ids) == [0, 1, 2, "late", 9]
    assert cohort.rows(["late", 0, 9]).tolist() == [3, 0, 4]
    assert (cohort.keys[:3] == keys).all()
    with pytest.raises(UnknownClientError):
        cohort.rows([3])


def test_a_client_that_comes_back_may_bring_more_data() -> None:
    cohort = Cohort({"a": 1.0, "b": 1.0})
    cohort.leave(["a"])
    assert cohort.shares[1] == 1.0
    cohort.join({"a": 3.0})
    assert cohort.shares.tolist() == [0.75, 0.25]


@pytest.mark.parametrize("names", [range(3), ["a", "b", 2]], ids=["in order", "by name"])
@pytest.mark.parametrize("stranger", [True, 3, -1, "c", 1.0, None])
def test_a_stranger_among_known_ids_is_refused_by_name(names, stranger) -> None:
    cohort = Cohort(dict.fromkeys(names, 1.0))
    assert cohort.rows(names).tolist() == [0, 1, 2]
    with pytest.raises(UnknownClientError, match=re.escape(f"client id is {stranger!r},")):
        cohort.rows([*names, stranger])
