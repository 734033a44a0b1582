"""A measurement tells all of itself: settings, rows, columns and report; no other file knows its name."""

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import Field

from pausefl.errors import ConfigError, InvalidValueError
from pausefl.report.charts import Axes
from pausefl.report.report_files import Report, ReportSection, curve_figure, write_images, write_page
from pausefl.report.series import lines_by
from pausefl.studies.load import load_study
from pausefl.studies.measured import KINDS, Budgets, Measurement
from pausefl.studies.measured.budgets import verdicts
from pausefl.studies.measured.study import MeasuredStudy, read_rows, write_rows
from pausefl.studies.study import Order, Progress, Row, Rows


def measured(name: str) -> MeasuredStudy:
    study = load_study(name)
    assert isinstance(study, MeasuredStudy)
    return study


@pytest.mark.parametrize("name", KINDS)
def test_every_measured_study_runs_at_smoke_scale(name: str, tmp_path: Path) -> None:
    study = measured(name)
    rows = write_rows(study.measurement("smoke"), tmp_path)
    read = read_rows(tmp_path / "rows.csv")
    assert read.kind is KINDS[name]
    assert read.rows == rows
    assert len(rows) >= 4
    for scale in ("full", "half"):
        study.measurement(scale)


@pytest.mark.parametrize("name", KINDS)
def test_every_measurement_draws_valid_charts(name: str) -> None:
    measurement = measured(name).measurement("smoke")
    report = measurement.report(list(measurement.rows()), "title")
    assert report.names
    for figure in report.figures().values():
        figure.draw(width="container", legend=False).to_dict()


def test_columns_tell_which_measurement_it_was() -> None:
    for one, other in permutations(KINDS.values(), 2):
        assert not one.columns.keys() >= other.columns.keys(), (one, other)


class Squares(Measurement):
    """A measurement of somebody's own."""

    kind: ClassVar = "squares"
    columns: ClassVar = {"word": str, "number": float, "square": float}
    numbers: list[float] = Field(default=[1.0, 2.0, 3.0])

    def rows(self, progress: Progress = lambda _: None) -> Iterator[Row]:
        for number in self.numbers:
            yield {"word": f"w{number % 2:g}", "number": number, "square": number**2}

    @classmethod
    def report(cls, rows: Rows, title: str) -> Report:
        lines = lines_by(rows, "word", "number", "square")
        figures = [curve_figure("squares", "Squares", lines, Axes("number", "square"))]
        return Report(title, list(lines), [ReportSection("squares", "Squares", "Upwards.", figures)])


def test_a_new_measurement_needs_its_class_and_its_place_in_the_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[study]\ntitle = "mine"\nmeasures = "squares"\nhalf = ["numbers=[1, 2]"]\n')
    with pytest.raises(ConfigError, match=r"study\.measures is 'squares', but must be one of g-function, "):
        load_study(str(file))
    monkeypatch.setitem(KINDS, Squares.kind, Squares)
    outcome = load_study(str(file)).play(Order(out=tmp_path / "out", scale="half"), lambda _: [])
    assert outcome.report.title == "mine (half scale)"
    assert outcome.rows == [
        {"word": "w1", "number": "1.0", "square": "1.0"}, {"word": "w0", "number": "2.0", "square": "4.0"},
    ]  # fmt: skip
    read = read_rows(tmp_path / "out" / "rows.csv")
    assert read.kind is Squares
    again = read.kind.report(read.rows, "again")
    assert ">Upwards.<" in write_page(again, tmp_path / "again.html").read_text()
    assert [path.name for path in write_images(again, tmp_path, formats=("svg",))] == ["squares.svg"]


def test_rows_of_other_settings_are_not_overwritten(tmp_path: Path) -> None:
    write_rows(measured("g-function").measurement("full"), tmp_path)
    before = (tmp_path / "rows.csv").read_bytes()
    with pytest.raises(ConfigError, match="rows of other settings"):
        write_rows(measured("g-function").measurement("smoke"), tmp_path)
    assert (tmp_path / "rows.csv").read_bytes() == before


def test_measured_rows_depend_on_nothing_but_the_settings() -> None:
    for name in ("g-function", "regret", "annealing"):
        one, two = (list(measured(name).measurement("smoke").rows()) for _ in range(2))
        assert one == two


def test_ours_finds_the_optimum_where_the_papers_chain_does_not() -> None:
    settings = ["clients=60", "per_round=6", "clusters=6", "rounds=60", "every=10", "steps=[2000]", "seeds=1"]
    rows = list(measured("annealing").measurement("full", overrides=settings).rows())
    gap = {(row["reward"], row["method"]): row["median_gap"] for row in rows}
    for reward in ("R1", "R2"):
        assert gap[reward, "ours"] < 0.01 < gap[reward, "paper's C"]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["seeds=0"], "regret.seeds is 0"),
        (["sedes=1"], "regret.sedes is not a known key; did you mean 'regret.seeds'"),
        (["seeds"], "must look like key=value"),
    ],
)
def test_bad_settings_of_a_measurement_are_named(overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        measured("regret").measurement("smoke", overrides=overrides)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"policies": ["pause"]}, "g-function ends in a table, not in runs"),
        ({"references": [Path("x.csv")]}, "ends in a table, not in runs"),
    ],
)
def test_what_a_measured_study_cannot_do_is_refused(asked: dict, words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match=words):
        measured("g-function").play(Order(out=tmp_path / "out", **asked), lambda _: [])
    assert not (tmp_path / "out").exists()


def test_a_plan_learns_where_it_says_so_and_not_where_it_does_not() -> None:
    """Both settings are far from where the verdict turns, so a seed decides nothing."""
    settings = [("digits", "hog", 30, 5, 40.0), ("digits", "hog", 10, 5, 1.0)]
    rows = list(Budgets(settings=settings, seeds=1, without_noise_rounds=40).rows())
    assert verdicts(rows) == [True, True]
    assert rows[0]["accuracy"] > 88.0 > 40.0 > rows[1]["accuracy"]
    wrong = [row | {"bearable": 1e-9} for row in rows]
    assert verdicts(wrong) == [False, True]
