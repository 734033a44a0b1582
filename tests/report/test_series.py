"""Runs as rows of charts: what is averaged over what, and what is left out."""

from collections.abc import Callable

import numpy as np
import pytest

from pausefl.report.series import curve, latency_histogram, lines_by, participation, ranked, staggered
from pausefl.runs.run_data import RunData

Made = Callable[..., RunData]


def test_curves_are_means_with_the_range_of_the_seeds_where_all_of_them_are(made: Made) -> None:
    short = made([{"max_leakage": v} for v in (1.0, 2.0, 3.0)])
    long = made([{"max_leakage": v} for v in (3.0, 6.0, 9.0, 12.0)])
    rows = curve([short, long], "round", "max_leakage")
    assert [(r["x"], r["y"], r["low"], r["high"]) for r in rows] == [(1, 2, 1, 3), (2, 4, 2, 6), (3, 6, 3, 9)]
    assert curve([made([{"max_leakage": None}])], "round", "max_leakage") == []


def test_long_runs_are_thinned_and_keep_their_ends(made: Made) -> None:
    rows = curve([made([{"max_leakage": float(i)} for i in range(3000)])], "seconds", "max_leakage", points=90)
    assert len(rows) == 90
    assert (rows[0]["x"], rows[-1]["x"], rows[-1]["y"]) == (1.0, 3000.0, 2999.0)


def test_terms_are_smoothed_over_ten_rounds_and_skip_what_is_not_finite(made: Made) -> None:
    values = [None, *map(float, range(1, 20))]
    smooth = made([{"terms": {"speed": v}} for v in values]).series("terms.speed")
    assert np.isnan(smooth[0])
    assert smooth[3] == 2.0
    assert smooth[-1] == np.mean(range(10, 20))


def test_clients_are_ranked_and_few_points_suffice_for_a_million(made: Made) -> None:
    rows = ranked([made([{}])], lambda _: np.arange(1_000_000.0)[::-1], points=50)
    assert len(rows) == 50
    assert (rows[0]["x"], rows[0]["y"], rows[-1]["x"], rows[-1]["y"]) == (0.0, 0.0, 100.0, 999_999.0)
    one = ranked([made([{}])], lambda _: np.array([3.0]))
    assert {row["y"] for row in one} == {3.0}
    assert ranked([made([{}])], lambda _: None) == []


def test_participation_is_ordered_by_speed_or_size(made: Made) -> None:
    one = made([{"members": [0, 1]}, {"members": [0, 3]}], latency=[0.9, 0.2, 0.5, 0.1], size=[4, 3, 2, 1])
    rows = participation([one], RunData.expected_latency)
    assert [row["y"] for row in rows] == [50.0, 50.0, 0.0, 100.0]
    assert [row["x2"] for row in rows] == [25.0, 50.0, 75.0, 100.0]
    assert {row["level"] for row in rows} == {50.0}
    assert [row["y"] for row in participation([one], RunData.sizes, bars=2)] == [25.0, 75.0]
    assert participation([one], lambda _: np.ones(4)) == []  # nothing to order by


def test_budgets_are_what_the_schedule_leaves(made: Made) -> None:
    one = made([{"members": [0, 1]}] * 2, ["privacy.schedule=fixed-horizon", "privacy.releases=4", "privacy.budget=8"])
    assert one.budget_left() == pytest.approx([4.0, 4.0, 8.0, 8.0])
    assert made([{}], ["privacy.enabled=false"]).budget_left() is None


def test_latencies_count_every_round_once(made: Made) -> None:
    rows = latency_histogram({"pause": [made([{"latency": v} for v in (0.1, 0.1, 0.9, 5.0)])]}, bars=10)
    assert sum(row["y"] for row in rows) == pytest.approx(100.0)
    assert {row["level"] for row in rows} == {0.5}
    assert latency_histogram({"pause": [made([{"latency": 0.0, "members": []}])]}) == []


def test_markers_of_different_curves_stand_at_different_places() -> None:
    parts = [[{"run": name, "x": i} for i in range(70)] for name in "abc"]
    places = [{r["x"] for r in staggered(parts) if r["run"] == name and r["mark"] == 2} for name in "abc"]
    assert all(5 <= len(found) <= 10 for found in places)
    assert not places[0] & places[1]
    assert not places[1] & places[2]
    assert [row["mark"] for row in staggered([[{"run": "a", "x": 1}]])] == [2]


def test_measured_rows_become_a_curve_per_group_with_the_range_of_the_seeds() -> None:
    rows = [{"method": m, "seed": s, "clients": k, "seconds": k + s} for m in "ab" for k in (10, 5) for s in (0, 2)]
    lines = lines_by(rows, "method", "clients", "seconds")
    assert list(lines) == ["a", "b"]
    assert lines["a"] == [
        {"run": "a", "x": 5.0, "y": 6.0, "low": 5.0, "high": 7.0},
        {"run": "a", "x": 10.0, "y": 11.0, "low": 10.0, "high": 12.0},
    ]
