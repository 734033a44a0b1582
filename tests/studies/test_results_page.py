"""The page of results says what was run, and what was not."""

from pathlib import Path

import pytest

from pausefl.cli import main
from pausefl.runs.parallel import run_many
from pausefl.studies.load import load_study
from pausefl.studies.results_page import write_results
from pausefl.studies.trained import TrainedStudy


def test_the_page_says_how_much_of_a_study_there_is_and_what_was_left_out(tmp_path: Path) -> None:
    study = load_study("small-noniid")
    assert isinstance(study, TrainedStudy)
    folder = tmp_path / "results"
    for policies, rounds in ((["pause", "fastest"], 4), (["all"], 3)):
        run_many(study.tasks(folder / "small-noniid", "smoke", 2, [f"run.rounds={rounds}"], policies))
    (folder / "small-noniid" / "fastest" / "seed-1" / "summary.json").unlink()
    run_many(study.tasks(folder / "mine", "smoke", 1, (), ["pause"]))
    page = write_results(folder, tmp_path / "page.md", "pausefl paper results").read_text()
    assert (
        "`small-noniid`: rounds: 3 to 4; seeds: 1 to 2; not run: `sa-pause`, `clustered`, `all (no privacy)` (" in page
    )
    assert "not finished, so they are left out: small-noniid/fastest/seed-1." in page
    assert "## mine\n\n`mine`: rounds: 4; seeds: 1.\n" in page  # a study of one's own, after those that are built in
    assert "README.md" not in page and "claims.md" not in page  # there is neither
    assert "| fastest | 1 | 4 |" in page
    assert page.count("What leaks: epsilon = 100 per coordinate") == 2  # one line for all policies of a study
    assert "; whole update (d = " in page
    assert {path.name for path in (tmp_path / "images").iterdir()} == {
        "small-noniid-accuracy-seconds.png", "small-noniid-leakage-max-seconds.png",
        "mine-accuracy-seconds.png", "mine-leakage-max-seconds.png",
    }  # fmt: skip


def test_the_page_names_the_pages_beside_it(tmp_path: Path) -> None:
    study = load_study("small-noniid")
    assert isinstance(study, TrainedStudy)
    run_many(study.tasks(tmp_path / "results" / "mine", "smoke", 1, (), ["pause"]))
    (tmp_path / "results" / "README.md").touch()
    (tmp_path / "claims.md").touch()
    page = write_results(tmp_path / "results", tmp_path / "page.md", "pausefl paper results").read_text()
    assert "results/README.md` has the command behind each run." in page
    assert "[Claims](claims.md)" in page


def test_measured_rows_have_a_report_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "g-function"
    out, images = tmp_path / "again.html", tmp_path / "images"
    for code, *arguments in (
        (0, "study", "g-function", "--scale", "smoke", "--out", rows),
        (0, "report", rows, "--out", out, "--images", images),
        (2, "report", rows, rows, "--out", out),
    ):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        assert (stop.value.code or 0) == code
    assert "g-function" in out.read_text()
    assert {path.name for path in images.iterdir()} == {"g-function.png", "g-function.svg"}
    assert "must be 1 for measured rows" in capsys.readouterr().err
