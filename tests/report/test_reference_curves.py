"""Curves of others stand beside our own where they have something to say."""

from pathlib import Path

import pytest

from pausefl.errors import ConfigError
from pausefl.report.reference_curves import read_references
from pausefl.report.report_files import write_page
from pausefl.report.run_report import run_report
from pausefl.runs.config import make_config
from pausefl.runs.play import run
from pausefl.runs.read_folder import read_runs


def test_a_reference_is_read_under_either_name_of_its_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "round,time_s,val_acc,val_loss,max_privacy_leakage\n1,0.5,10,2.3,\n2,1.5,20,2.0,7.5\n"
    )
    (tmp_path / "b.csv").write_text("round,seconds\n1,0.5\n")
    found = read_references([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert list(found) == ["a (reference)", "b (reference)"]
    (curve,) = found["a (reference)"]
    assert curve.column("accuracy").tolist() == [10.0, 20.0]
    assert curve.column("max_leakage")[1] == 7.5


def test_it_appears_in_the_report(tmp_path: Path) -> None:
    run(make_config({"run": {"rounds": 3}}), tmp_path / "run")
    (tmp_path / "theirs.csv").write_text("round,time_s,val_acc,max_privacy_leakage\n1,0.5,10,1\n2,1.5,20,2\n")
    report = run_report(read_runs([tmp_path / "run"]), "ours", read_references([tmp_path / "theirs.csv"]))
    page = write_page(report, tmp_path / "r.html").read_text()
    assert "data-run='theirs (reference)'" in page
    assert page.count("theirs (reference),") > 2  # rows of charts


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "lacks a column"), ("round,val_acc\n1,2\n", "lacks a column"), ("round,seconds\n1,x\n", "cannot be read")],
)
def test_bad_references_are_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_references([tmp_path / "x.csv"])
    with pytest.raises(ConfigError, match="cannot be read"):
        read_references([tmp_path / "none.csv"])
