"""The study of weights: what it searches, what it judges by, and that it goes on where it was stopped."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from pausefl.studies.load import load_study
from pausefl.studies.measured.study import FILE, PARTIAL, read_rows, write_rows
from pausefl.studies.measured.weights import PUBLISHED, WeightSearch, best, judged
from pausefl.studies.study import Order

SMALL = WeightSearch(
    settings=[("digits", "iid", "stable", "record")], alphas=[1.0, 100.0], gammas=[5.0], zetas=[1.0], finer=1.0,
    search_seeds=1, seeds=1, scale=0.02,
)  # fmt: skip


def row(step: str, weights: tuple[float, float, float], seconds: float, seed: int = 100) -> dict[str, Any]:
    alpha, gamma, zeta = weights
    named = {"alpha": alpha, "gamma": gamma, "zeta": zeta}
    return {"step": step, **named, "seconds": seconds, "accuracy": 50.0, "seed": seed}


def test_the_best_weights_are_those_of_the_search_that_all_seeds_get_there_with() -> None:
    lucky, steady = (1.0, 5.0, 1.0), (100.0, 5.0, 1.0)
    rows = [
        row("grid", lucky, 1.0), row("grid", lucky, np.inf, 101),
        row("grid", steady, 9.0), row("finer", steady, 8.0, 101),
        row("pause-auto", (0.0, 0.0, 0.0), 0.1), row("tuned", (7.0, 7.0, 7.0), 0.1, 0),
    ]  # fmt: skip
    assert best(rows) == steady


def test_the_seeds_of_the_search_are_counted_apart() -> None:
    steps = (("grid", 100), ("grid", 101), ("pause-auto", 100), ("tuned", 0), ("tuned", 1), ("pause-auto", 2))
    rows = [row(step, PUBLISHED, 1.0, seed) for step, seed in steps]
    assert WeightSearch.seeds_played(rows) == "3 seeds, and 2 others for the search"


def test_what_was_found_is_judged_by_other_seeds_than_those_it_was_found_with(tmp_path: Path) -> None:
    rows = write_rows(SMALL, tmp_path)
    assert [(one["step"], one["seed"]) for one in rows] == [
        ("grid", 100), ("grid", 100), ("pause-auto", 100), ("tuned", 0), ("published", 0), ("pause-auto", 0),
    ]  # fmt: skip
    [tuned], [published], [auto] = (judged(rows, name) for name in ("tuned", "published", "pause-auto"))
    assert (tuned["alpha"], tuned["gamma"], tuned["zeta"]) == best(rows)
    assert (published["alpha"], published["gamma"], published["zeta"]) == PUBLISHED
    assert auto["seed"] == 0
    assert read_rows(tmp_path / FILE).kind is WeightSearch


def test_a_search_that_was_stopped_goes_on_with_what_it_had_found(tmp_path: Path) -> None:
    whole = write_rows(SMALL, tmp_path / "whole")
    other = [one | {"seconds": 1.0 if one["alpha"] == 100.0 else np.inf} for one in whole[:3]]
    (tmp_path / "stopped").mkdir()
    (tmp_path / "stopped" / PARTIAL).write_text("".join(json.dumps(one) + "\n" for one in other))
    rows = write_rows(SMALL, tmp_path / "stopped")
    assert rows[:3] == other
    assert judged(rows, "tuned")[0]["alpha"] == 100.0


def test_the_finer_grid_goes_around_the_best_point_and_repeats_nothing() -> None:
    search = SMALL.model_copy(update={"finer": 2.0})
    rows = [row("grid", (1.0, 5.0, 1.0), 9.0), row("grid", (100.0, 5.0, 1.0), 3.0)]
    points = [weights for _, weights, _ in search._cells("finer", rows)]
    assert len(points) == len(set(points)) == 26
    assert {alpha for alpha, _, _ in points} == {50.0, 100.0, 200.0}
    assert (100.0, 5.0, 1.0) not in points


def test_the_whole_study_has_four_settings_and_its_report_a_table_and_three_charts(tmp_path: Path) -> None:
    assert len(load_study("weights").measurement("full").settings) == 4
    report = load_study("weights").play(Order(out=tmp_path, scale="smoke"), lambda _: []).report
    assert [section.name for section in report.sections] == [
        "judged", "weight-alpha", "weight-gamma", "weight-zeta",
    ]  # fmt: skip
    assert report.sections[0].table is not None
    assert len(report.sections[0].table.rows) == 1
    assert sum(len(section.figures) for section in report.sections) == 3
