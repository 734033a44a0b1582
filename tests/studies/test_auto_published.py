"""The published setting with other seeds: its settings, when a mean curve gets to a target, and that it goes on."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pausefl.cli import main
from pausefl.studies.load import load_study
from pausefl.studies.measured.auto_published import AutoPublished, by_entry, reached
from pausefl.studies.measured.study import FILE, PARTIAL, read_rows, write_rows
from pausefl.studies.study import Order

SMALL = AutoPublished(
    entries=[("pause-auto", "fixed-horizon")], first_seed=7, seeds=2, data="digits", train_size=300, rounds=3
)


def rows(seed: int, seconds: list[float], accuracy: list[float], leakage: list[float]) -> list[dict[str, Any]]:
    told = {"policy": "pause-auto", "schedule": "geometric", "target": 80.0, "seed": seed}
    return [
        told | {"round": number, "seconds": clock, "accuracy": score, "leakage": leaked}
        for number, (clock, score, leaked) in enumerate(zip(seconds, accuracy, leakage, strict=True), 1)
    ]


# Means of all rounds so far are 60, 75, 80 and 80, 85, 90; so both together are 80 after 4 seconds, when one is at 75.
SLOW = rows(0, [2.0, 4.0, 6.0], [60.0, 90.0, 90.0], [2.0, 4.0, 6.0])
FAST = rows(1, [1.0, 3.0, 7.0], [80.0, 90.0, 100.0], [1.0, 3.0, 9.0])


def test_the_mean_curve_is_taken_at_equal_seconds_and_leakage_at_that_moment() -> None:
    [runs] = by_entry(SLOW + FAST).values()
    [found] = reached(runs, 80.0)
    assert (found.seconds, found.leakage) == (4.0, pytest.approx((4.0 + 3.0) / 2))


def test_the_mean_curve_ends_with_the_shortest_run() -> None:
    [runs] = by_entry(SLOW + FAST).values()
    assert reached(runs, 82.5)[0].seconds == 6.0
    [never] = reached(runs, 84.0)  # after 7 seconds it would be there, but one of them has ended
    assert never.seconds == np.inf
    assert np.isnan(never.leakage)


def test_draws_with_replacement_have_both_runs_or_one_of_them_twice() -> None:
    [runs] = by_entry(SLOW + FAST).values()
    assert {one.seconds for one in reached(runs, 80.0, draws=50)} == {1.0, 4.0, 6.0}


def test_the_table_says_never_where_a_curve_never_gets_there() -> None:
    table = AutoPublished.report([row | {"target": 84.0} for row in SLOW + FAST], "").sections[0].table
    assert table is not None
    assert table.rows == [["pause-auto, geometric", "never", "never", "1 of 2"]]
    table = AutoPublished.report(SLOW + FAST, "").sections[0].table
    assert table is not None
    assert table.rows == [["pause-auto, geometric", "4.0 (1.0 to 6.0)", "3.5 (1.0 to 6.0)", "2 of 2"]]


@pytest.mark.parametrize("policy", ["pause", "pause-auto"])
def test_the_setting_is_that_of_the_published_runs(policy: str) -> None:
    whole = load_study("auto-published").measurement("full")
    published = load_study("published-mnist").with_all_options("pause", 5, "full", [])
    ours = whole.config(policy, "geometric", 5)
    selection = published.selection.model_copy(update={"policy": policy})
    assert ours == published.model_copy(update={"selection": selection})
    flat = whole.config(policy, "fixed-horizon", 5)
    assert flat.privacy.schedule == "fixed-horizon"
    assert flat.model_copy(update={"privacy": ours.privacy}) == ours


def test_it_has_the_seeds_that_it_is_told_and_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    whole = write_rows(SMALL, tmp_path / "whole")
    assert [(row["seed"], row["round"]) for row in whole] == [(seed, n) for seed in (7, 8) for n in (1, 2, 3)]
    assert read_rows(tmp_path / "whole" / FILE).kind is AutoPublished
    for kept in (2, 4):
        folder = tmp_path / str(kept)
        folder.mkdir()
        (folder / PARTIAL).write_text("".join(json.dumps(row) + "\n" for row in whole[:kept]))
        assert write_rows(SMALL, folder) == whole


def test_the_report_has_a_table_and_two_charts(tmp_path: Path) -> None:
    [section] = load_study("auto-published").play(Order(out=tmp_path, scale="smoke"), lambda _: []).report.sections
    assert len(section.figures) == 2
    assert section.table is not None
    assert len(section.table.rows) == 4


def test_the_command_says_when_each_got_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command = ["study", "auto-published", "--scale", "smoke", "--out", str(tmp_path)]
    few = ["--seeds", "1", "--set", 'entries=[["pause-auto", "geometric"]]']
    with pytest.raises(SystemExit):
        main([*command, *few])
    _, fact, page = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"pause-auto, geometric: 5 % after [\d.]+ s, at leakage 7\.8", fact)  # one seed has no interval
    assert page.startswith("report: ")
