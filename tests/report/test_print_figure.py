"""Figures for a paper: exactly as wide and with type as large as asked for, and never another format than named."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pausefl.cli import main
from pausefl.errors import ConfigError, PauseError
from pausefl.report.policy_summary import labelled
from pausefl.report.print_figure import PrintSize, points, write_figure
from pausefl.report.run_report import run_report
from pausefl.runs.config import make_config
from pausefl.runs.play import run
from pausefl.runs.run_data import RunData

Made = Callable[..., RunData]


@pytest.mark.parametrize(("width", "size"), [("3.5in", 8.0), ("178mm", 10.0)])
def test_a_figure_is_as_wide_as_asked_for_and_all_its_type_has_one_size(
    width: str, size: float, made: Made, tmp_path: Path
) -> None:
    report = run_report([made([{"accuracy": 10.0 * i} for i in range(8)], [f"selection.policy={name}"])
                         for name in ("pause", "random")])  # fmt: skip
    asked = PrintSize(points(width), size)
    for name in ("accuracy-seconds", "latency"):
        drawing = write_figure(report.figures()[name], tmp_path / "a.svg", asked).read_text()
        found = re.match(r'<svg [^>]*width="([\d.]+)pt" height="[\d.]+pt" viewBox="0 0 ([\d.]+) ', drawing)
        assert found is not None and found[1] == found[2]  # one unit is one point
        assert float(found[1]) == pytest.approx(points(width), abs=1.0)
        assert set(re.findall(r'font-size="([^"]+)"', drawing)) == {f"{size:g}px"}
    pdf = write_figure(report.figures()["accuracy-seconds"], tmp_path / "a.pdf", asked).read_bytes()
    assert pdf.startswith(b"%PDF")
    box = re.search(rb"/MediaBox\s*\[\s*0 0 ([\d.]+) ", pdf)
    assert box is not None and float(box[1]) == pytest.approx(points(width), abs=1.0)
    png = write_figure(report.figures()["accuracy-seconds"], tmp_path / "a.png", asked).read_bytes()
    assert int.from_bytes(png[16:20], "big") == pytest.approx(points(width) / 72 * 300, abs=5.0)


def test_what_does_not_fit_is_refused(made: Made, tmp_path: Path) -> None:
    report = run_report([replace(made([{"accuracy": 50.0}] * 3), name="a policy of a very long name indeed " * 2)])
    with pytest.raises(ConfigError, match=r"--width is 1\.00in, but accuracy-round does not fit .* shorten names with"):
        write_figure(report.figures()["accuracy-round"], tmp_path / "a.svg", PrintSize(72.0, 12.0))


@pytest.mark.parametrize(
    ("length", "expected"), [("3.5in", 252.0), ("25.4mm", 72.0), ("2.54 cm", 72.0), ("99pt", 99.0)]
)
def test_lengths_have_units(length: str, expected: float) -> None:
    assert points(length) == pytest.approx(expected)


@pytest.mark.parametrize("length", ["3.5", "in", "-1in", "1e3in", "3.5 px", "nan in"])
def test_a_length_without_a_unit_is_refused(length: str) -> None:
    with pytest.raises(PauseError, match=r"must be a length such as 3\.5in, 89mm or 252pt"):
        points(length)


def test_labels_are_found_by_the_name_of_the_table_and_by_that_of_the_run(made: Made) -> None:
    groups = {"mine": [made([{}], ["selection.policy=mypol:X"])], "pause (budget=2.0)": [made([{}])]}
    assert list(labelled(groups, ["mypol:X=Ours", "pause (budget=2.0)=a=b"])) == ["Ours", "a=b"]
    assert labelled(groups, ["mine=Ours"])["Ours"][0].name == "Ours"
    for wrong, words in (
        (["min=Ours"], "must be NAME=TEXT with one of the names mine, pause"),
        (["mine"], "must be NAME=TEXT"),
        (["mine=x", "pause=x"], "--label calls 2 policies 'x'; give each of them another name"),
        (["mine="], "--label calls 1 policies ''"),
    ):
        with pytest.raises(ConfigError, match=re.escape(words)):
            labelled(groups, wrong)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("played")
    run(make_config({"learning": {"enabled": False}, "network": {"clients": 6}, "selection": {"per_round": 2},
                     "run": {"rounds": 3}}), out / "one")  # fmt: skip
    return out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "x.pdf"], "a pdf file holds one chart; pass its name, for example --only accuracy-seconds"),
        (["--out", "x.pdf", "--format", "html"], "--format is 'html', but --out is 'x.pdf'; leave one of them out"),
        (["--out", "x.doc"], "--out is 'x.doc', but must end in .html, .pdf, .svg or .png; for example report.html"),
        (["--out", "x"], "--out is 'x', but must end in .html"),
        (["--out", "x.pdf", "--only", "latency", "--only", "budget"], "--out is one file, but --only names 2 charts"),
        (["--format", "pdf", "--only", "latncy"], "did you mean 'latency'?"),
        (["--width", "3in"], "--width has no effect on a page; pass --only CHART"),
        (["--font-size", "8"], "--font-size has no effect on a page"),
        (["--format", "svg", "--only", "latency", "--font-size", "0"], "--font-size is 0, but must be from 4 to 40"),
        (
            ["--format", "svg", "--only", "latency", "--width", "0.5in"],
            "--width is 0.5in, but must be from 1in to 20in",
        ),
    ],
)
def test_a_file_is_what_its_name_says_or_refused(
    played: Path, arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["report", str(played), *arguments])
    err = capsys.readouterr().err
    assert stop.value.code == 2
    assert err.count("\n") == 1 and words in err
    assert not list(tmp_path.iterdir())


def test_a_page_may_have_some_of_the_charts(played: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["report", str(played), "--only", "latency", "--out", str(tmp_path / "r.html")])
    text = (tmp_path / "r.html").read_text()
    assert re.findall(r"class='chart' id='(.*?)'", text) == ["latency"]
    assert "At a glance" not in text
