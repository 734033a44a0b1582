"""The study of the field: its rows, its order, and that it goes on where it was stopped."""

import json
from pathlib import Path

import numpy as np

from pausefl.studies.load import load_study
from pausefl.studies.measured.field import FieldStudy, by_policy, by_setting
from pausefl.studies.measured.study import FILE, PARTIAL, read_rows, write_rows
from pausefl.studies.study import Order

SMALL = FieldStudy(
    settings=[("digits", "iid", "stable", "record"), ("digits", "labels", "rough", "record")],
    policies=["pause-auto", "oort"], scale=0.02, seeds=1,
)  # fmt: skip


def test_every_policy_is_played_in_every_setting_at_the_same_budget(tmp_path: Path) -> None:
    rows = write_rows(SMALL, tmp_path)
    assert [(row["split"], row["policy"]) for row in rows] == [
        ("iid", "pause-auto"), ("iid", "oort"), ("labels", "pause-auto"), ("labels", "oort"),
    ]  # fmt: skip
    assert all(0.0 < row["leakage"] <= 1.0 for row in rows)
    assert read_rows(tmp_path / FILE).kind is FieldStudy
    assert not (tmp_path / PARTIAL).exists()


def test_a_study_that_was_stopped_goes_on_after_its_last_row(tmp_path: Path) -> None:
    whole = write_rows(SMALL, tmp_path / "whole")
    stopped = tmp_path / "stopped"
    stopped.mkdir()
    marked = whole[0] | {"accuracy": -1.0}  # not measured again
    (stopped / PARTIAL).write_text(json.dumps(marked) + "\n" + json.dumps(whole[1])[:20])
    assert write_rows(SMALL, stopped) == [marked, *whole[1:]]


def test_who_gets_there_is_before_who_does_not() -> None:
    rows = [
        {"policy": policy, "seconds": seconds, "accuracy": accuracy}
        for policy, seconds, accuracy in [
            ("never", np.inf, 50.0), ("slow", 9.0, 80.0), ("never, but better", np.inf, 60.0), ("fast", 3.0, 70.0),
            ("once", 1.0, 90.0), ("once", np.inf, 90.0), ("slow", 9.0, 80.0),
        ]
    ]  # fmt: skip
    assert list(by_policy(rows)) == ["fast", "slow", "once", "never, but better", "never"]


def test_the_whole_study_has_all_peers_and_sixteen_settings(tmp_path: Path) -> None:
    measurement = load_study("field").measurement("full")
    assert len(measurement.settings) == 16
    assert len(measurement.policies) == 18
    report = load_study("field").play(Order(out=tmp_path, scale="smoke"), lambda _: []).report
    assert report.sections[0].table is not None
    assert len(report.sections[0].table.rows) == 4
    assert len(by_setting(read_rows(tmp_path / FILE).rows)) == 1
