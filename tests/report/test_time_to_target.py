"""The time to a target over seeds: a harder target never looks faster."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pausefl.report.time_to_target import time_to_target

CURVES = st.lists(st.lists(st.floats(0, 100), min_size=1, max_size=8), min_size=1, max_size=7)


def reached(curve: list[float], target: float) -> float | None:
    at = [second for second, accuracy in enumerate(curve, 1) if accuracy >= target]
    return float(at[0]) if at else None


@given(CURVES, st.floats(0, 100), st.floats(0, 100))
def test_a_harder_target_never_looks_faster(curves: list[list[float]], one: float, two: float) -> None:
    easy, hard = (time_to_target(reached(curve, target) for curve in curves) for target in sorted((one, two)))
    assert hard.count <= easy.count
    for name in ("median", "earliest", "latest"):
        before, after = getattr(easy, name), getattr(hard, name)
        assert (math.inf if before is None else before) <= (math.inf if after is None else after)


def test_a_mean_over_those_that_got_there_would_be_fooled() -> None:
    easy, hard = [10.0, 20.0, 90.0], [11.0, None, None]
    assert np.mean([time for time in hard if time is not None]) < np.mean(easy)
    assert (time_to_target(easy).median, time_to_target(hard).median) == (20.0, None)


@pytest.mark.parametrize(
    ("times", "median", "earliest", "latest", "count", "words"),
    [
        ([4.0], 4.0, 4.0, 4.0, 1, "4.0"),
        ([None], None, None, None, 0, "never"),
        ([4.0, 6.0], 5.0, 4.0, 6.0, 2, "5.0 (2/2)"),
        ([4.0, None], None, 4.0, None, 1, "never (1/2)"),
        ([None, 4.0, 6.0], 6.0, 4.0, None, 2, "6.0 (2/3)"),
        ([math.inf, 4.0, 6.0], 6.0, 4.0, None, 2, "6.0 (2/3)"),
        ([], None, None, None, 0, "never"),
    ],
)  # fmt: skip
def test_never_counts_as_later_than_any_time(
    times: list[float | None], median: float, earliest: float, latest: float, count: int, words: str
) -> None:
    found = time_to_target(times)
    assert (found.median, found.earliest, found.latest, found.count, found.seeds) == (
        median, earliest, latest, count, len(times),
    )  # fmt: skip
    assert str(found) == words
