"""Rounds in a fixed number of points."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pausefl.runs.progress.round_points import RoundPoints


@given(st.lists(st.integers(0, 9), min_size=1, max_size=200), st.integers(2, 9))
def test_sums_largest_and_newest_survive_any_number_of_merges(values: list[int], capacity: int) -> None:
    points = RoundPoints(capacity, added=("rounds", "sum"), newest=("last",), largest=("top",))
    for value in values:
        points.add({"rounds": 1, "sum": value}, {"last": value}, {"top": value})
    assert len(points) <= capacity + 1
    assert points.ends[-1] == len(values) == points["rounds"].sum()
    assert points["sum"].sum() == sum(values)
    starts = [0, *points.ends[:-1]]
    for start, end, total, last, top in zip(
        starts, points.ends, points["sum"], points["last"], points["top"], strict=True
    ):
        part = values[start:end]
        assert (total, last, top) == (sum(part), part[-1], max(part))
    assert set(np.diff([0, *points.ends])[:-1]) <= {points.stride}
