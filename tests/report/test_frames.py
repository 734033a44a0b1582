"""Runs as rows and numbers: what is averaged over what, and what is left out."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pausefl.report.series import curve, latency_histogram, participation, ranked, staggered
from pausefl.report.summary import default_targets, spread, summarise
from pausefl.runs.config import make_config
from pausefl.runs.data import RunData
from pausefl.runs.play import run


def made(
    rounds: Sequence[Mapping[str, Any]], overrides: Sequence[str] = (), name: str = "pause", **clients: Any
) -> RunData:
    """A run as it would be read, with the given records."""
    base = {"latency": 0.5, "members": [0, 1], "max_leakage": 1.0, "seconds": 1.0}
    records = [base | {"round": i, "seconds": float(i)} | dict(record) for i, record in enumerate(rounds, 1)]
    config = make_config({"network": {"clients": 4}, "selection": {"per_round": 2}}, overrides)
    return RunData("pause", config, records, {"clients": clients} if clients else None)


def test_curves_are_means_with_the_range_of_the_seeds_where_all_of_them_are() -> None:
    short = made([{"max_leakage": v} for v in (1.0, 2.0, 3.0)])
    long = made([{"max_leakage": v} for v in (3.0, 6.0, 9.0, 12.0)])
    rows = curve([short, long], "round", "max_leakage")
    assert [(r["x"], r["y"], r["low"], r["high"]) for r in rows] == [(1, 2, 1, 3), (2, 4, 2, 6), (3, 6, 3, 9)]
    assert curve([made([{"max_leakage": None}])], "round", "max_leakage") == []


def test_long_runs_are_thinned_and_keep_their_ends() -> None:
    rows = curve([made([{"max_leakage": float(i)} for i in range(3000)])], "seconds", "max_leakage", points=90)
    assert len(rows) == 90
    assert (rows[0]["x"], rows[-1]["x"], rows[-1]["y"]) == (1.0, 3000.0, 2999.0)


def test_terms_are_smoothed_over_ten_rounds_and_skip_what_is_not_finite() -> None:
    values = [None, *map(float, range(1, 20))]
    smooth = made([{"terms": {"speed": v}} for v in values]).series("terms.speed")
    assert np.isnan(smooth[0])
    assert smooth[3] == 2.0
    assert smooth[-1] == np.mean(range(10, 20))


def test_clients_are_ranked_and_few_points_suffice_for_a_million() -> None:
    rows = ranked([made([{}])], lambda _: np.arange(1_000_000.0)[::-1], points=50)
    assert len(rows) == 50
    assert (rows[0]["x"], rows[0]["y"], rows[-1]["x"], rows[-1]["y"]) == (0.0, 0.0, 100.0, 999_999.0)
    one = ranked([made([{}])], lambda _: np.array([3.0]))
    assert {row["y"] for row in one} == {3.0}
    assert ranked([made([{}])], lambda _: None) == []


def test_participation_is_ordered_by_speed_or_size() -> None:
    one = made([{"members": [0, 1]}, {"members": [0, 3]}], latency=[0.9, 0.2, 0.5, 0.1], size=[4, 3, 2, 1])
    rows = participation([one], RunData.expected_latency)
    assert [row["y"] for row in rows] == [50.0, 50.0, 0.0, 100.0]
    assert [row["x2"] for row in rows] == [25.0, 50.0, 75.0, 100.0]
    assert {row["level"] for row in rows} == {50.0}
    assert [row["y"] for row in participation([one], RunData.sizes, bars=2)] == [25.0, 75.0]
    assert participation([one], lambda _: np.ones(4)) == []  # nothing to order by


def test_budgets_are_what_the_schedule_leaves() -> None:
    one = made([{"members": [0, 1]}] * 2, ["privacy.schedule=fixed-horizon", "privacy.releases=4", "privacy.budget=8"])
    assert one.budget_left() == pytest.approx([4.0, 4.0, 8.0, 8.0])
    assert made([{}], ["privacy.enabled=false"]).budget_left() is None


def test_latencies_count_every_round_once() -> None:
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


def test_summaries_are_means_and_deviations_over_seeds() -> None:
    seeds = [made([{"accuracy": a, "max_leakage": a / 10}] * 3) for a in (80.0, 90.0)]
    (line,) = summarise({"pause": seeds}, [70.0, 85.0, 95.0])
    assert (line.seeds, line.rounds, line.max_leakage) == (2, 3, 9.0)
    assert str(line.accuracy) == "85.0 ± 7.1"
    assert line.time_to[70.0] == spread([1.0, 1.0])
    assert line.time_to[85.0] == spread([1.0])  # one seed of two
    assert line.time_to[95.0] is None
    assert default_targets({"pause": seeds}) == [65.0, 70.0, 75.0, 80.0, 85.0]
    assert default_targets({"pause": [made([{}])]}) == []


def test_one_unbounded_seed_leaves_the_policy_without_a_bound() -> None:
    (line,) = summarise({"pause": [made([{}]), made([{"max_leakage": None}])]}, [])
    assert line.max_leakage is None


def test_a_finished_run_lists_what_each_client_is_and_got(tmp_path: Path) -> None:
    content = {
        "network": {"clients": 6},
        "selection": {"per_round": 2},
        "data": {"partition": "sizes"},
        "run": {"rounds": 2},
    }
    run(make_config(content), tmp_path)
    clients = json.loads((tmp_path / "summary.json").read_text())["clients"]
    assert {name: len(values) for name, values in clients.items()} == {"latency": 6, "size": 6, "accuracy": 6}
    assert sum(clients["size"]) > 1000
    assert clients["latency"] == sorted(clients["latency"])
