"""The page, the pictures and the terminal's table, for runs of every kind."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pausefl.cli import main
from pausefl.errors import ConfigError
from pausefl.report.report_files import write_images, write_page
from pausefl.report.run_report import run_report
from pausefl.runs.config import make_config
from pausefl.runs.play import run
from pausefl.runs.read_folder import read_runs

SMALL = {"network": {"clients": 6}, "selection": {"per_round": 2}}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a study writes it: a policy per folder, a seed per folder within."""
    out = tmp_path_factory.mktemp("study")
    for policy in ("pause", "random"):
        for seed in (0, 1):
            content = SMALL | {"selection": {"per_round": 2, "policy": policy}, "run": {"rounds": 6, "seed": seed}}
            run(make_config(content), out / policy / f"seed-{seed}")
    return out


def page_of(folder: Path, name: str = "report.html") -> tuple[str, dict]:
    return charts_of(write_page(run_report(read_runs([folder])), folder / name).read_text(encoding="utf-8"))


def charts_of(text: str) -> tuple[str, dict]:
    found = re.search(r"<script type='application/json' id='charts'>(.*?)</script>", text, re.S)
    assert found
    return text, json.loads(found[1])


def test_every_chart_is_valid_vega_lite(study: Path) -> None:
    for figure in run_report(read_runs([study])).figures().values():
        chart = figure.draw(width="container", legend=False) if figure.fluid else figure.draw()
        chart.to_dict()  # validates, unlike the way to the page


def test_a_policy_has_its_colour_in_every_chart(study: Path) -> None:
    _, charts = page_of(study)
    assert len(charts) >= 14
    for name, chart in charts.items():
        (scale,) = [scale for scale in chart["scales"] if scale["name"].endswith("color")]
        assert dict(zip(scale["domain"], scale["range"], strict=True)) == {"pause": "#0072B2", "random": "#E69F00"}, (
            name
        )


def test_no_name_becomes_markup(study: Path, tmp_path: Path) -> None:
    odd = "</script><script>alert(1)</script>'\"&x:Y"
    runs = [replace(run, name=odd) for run in read_runs([study / "pause"])]
    report = run_report(runs, f"<b>{odd}")
    text = write_page(report, tmp_path / "r.html").read_text(encoding="utf-8")
    escaped = "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&#39;&#34;&amp;x:Y"
    assert f"<title>&lt;b&gt;{escaped}</title>" in text
    assert f"data-run='{escaped}'" in text
    assert f"<b>{escaped}</b>: " in text  # whom the guarantee covers
    assert "alert(1)</script>" not in text
    assert text.count("<script") == text.count("</script>") == 2
    _, charts = charts_of(text)
    assert all(
        odd in scale["domain"] for chart in charts.values() for scale in chart["scales"] if "color" in scale["name"]
    )


def test_the_page_tells_its_configuration_and_its_date(study: Path) -> None:
    text, _ = page_of(study)
    assert re.search(r"Written by pausefl [\d.]+ on 20\d\d-\d\d-\d\d\.</footer>", text)
    shared, *own = re.findall(r"<h3>([^<]*)</h3><pre>([^<]*)</pre>", text.split("<details")[1])
    assert shared[0] == "All runs"
    assert "network.clients = 6" in shared[1].splitlines()
    assert "selection.policy" not in shared[1]
    assert own == [
        ("pause", "selection.policy = &#34;pause&#34;\nrun.seed = 0, 1"),
        ("random", "selection.policy = &#34;random&#34;\nrun.seed = 0, 1"),
    ]


def test_every_section_says_how_to_read_it(study: Path) -> None:
    text, _ = page_of(study)
    for section in run_report(read_runs([study])).sections:
        assert f"<h2>{section.title}</h2><p class='reading'>" in text
    assert text.index("class='guarantee'") < text.index("At a glance")


@pytest.mark.parametrize(
    ("changes", "gone", "words"),
    [
        (["privacy.enabled=false"], {"leakage-max-round", "budget"}, "No run here bounds what it leaks."),
        (["learning.enabled=false"], {"accuracy-round", "fairness", "leakage-p90-round"}, "These runs train no model."),
        (["network.clients=1", "selection.per_round=1", "network.latency=normal"], {"picks-speed"},
         "These runs do not say how fast"),
        (["run.rounds=1"], set(), "Written by pausefl"),
        (["network.availability=bernoulli", "network.probability=0"], {"latency"}, "No round has been played."),
    ],
)  # fmt: skip
def test_what_a_run_lacks_is_said_and_left_out(changes: list[str], gone: set[str], words: str, tmp_path: Path) -> None:
    run(make_config(SMALL | {"run": {"rounds": 3}}, changes), tmp_path / "run")
    text, charts = page_of(tmp_path)
    assert not gone & set(charts)
    assert words in text


def test_a_million_clients_make_no_larger_page(tmp_path: Path) -> None:
    for clients in (100, 1_000_000):
        content = {"network": {"clients": clients}, "selection": {"per_round": 50}, "learning": {"enabled": False}}
        run(make_config(content | {"run": {"rounds": 4}}), tmp_path / str(clients) / "run")
    small, _ = page_of(tmp_path / "100")
    large, charts = page_of(tmp_path / "1000000")
    assert {"picks-speed", "latency", "leakage-max-round", "budget", "term-privacy-round"} <= set(charts)
    assert len(large) < 1.1 * len(small)


def test_an_unfinished_run_is_shown_as_far_as_it_is(study: Path, tmp_path: Path) -> None:
    for name in ("config.toml", "metrics.jsonl"):
        (tmp_path / name).write_bytes((study / "pause" / "seed-0" / name).read_bytes())
    text, charts = page_of(tmp_path)
    assert "not finished yet" in text
    assert "accuracy-round" in charts
    assert "fairness" not in charts


def test_pictures_are_written_by_name_and_unknown_names_are_refused(study: Path, tmp_path: Path) -> None:
    report = run_report(read_runs([study]))
    written = write_images(report, tmp_path, ["accuracy-seconds", "picks-speed"])
    assert [path.name for path in written] == [
        "accuracy-seconds.png", "accuracy-seconds.svg", "picks-speed.png", "picks-speed.svg",
    ]  # fmt: skip
    assert written[0].read_bytes().startswith(b"\x89PNG")
    drawing = written[1].read_text()
    assert "test accuracy, %" in drawing
    assert drawing.count(">random</text>") == 1  # its own legend
    with pytest.raises(ConfigError, match="chart is 'acuracy', but must be one of accuracy-seconds"):
        write_images(report, tmp_path, ["acuracy"])


def test_compare_takes_studies_seeds_and_runs(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str) -> str:
        with pytest.raises(SystemExit) as stop:
            main(["compare", *arguments])
        assert not stop.value.code
        return capsys.readouterr().out

    whole = json.loads(said(str(study), "--json", "--target", "5", "--target", "100"))
    assert [(line["name"], line["seeds"]) for line in whole] == [("pause", 2), ("random", 2)]
    assert whole[0]["time_to"]["5.0"]["count"] == 2
    assert whole[0]["time_to"]["100.0"] == {"median": None, "earliest": None, "latest": None, "count": 0, "seeds": 2}
    parts = json.loads(said(*(str(path) for path in sorted(study.glob("*/seed-*"))), "--json", "--target", "5"))
    assert [line["accuracy"] for line in parts] == [line["accuracy"] for line in whole]
    table = said(str(study / "random"), "--target", "5", "--target", "100")
    assert "±" in table
    assert "s to 100 %" in table


def test_impossible_targets_are_refused(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["compare", str(study), "--target", "0.0"])
    assert stop.value.code == 2
    assert "'--target': 0.0 is not in the range 0<x<=100." in capsys.readouterr().err


def test_report_writes_the_page_and_the_pictures(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(
            ["report", str(study / "pause"), "--out", str(tmp_path / "r.html"), "--images", str(tmp_path / "pictures")]
        )
    assert not stop.value.code
    assert "pictures" in capsys.readouterr().out
    names = {path.stem for path in (tmp_path / "pictures").glob("*.png")}
    assert names == {path.stem for path in (tmp_path / "pictures").glob("*.svg")}
    assert {"accuracy-seconds", "fairness", "budget", "latency"} <= names


def test_a_single_run_shows_its_clients_and_how_far_it_is(study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    run(make_config(SMALL | {"run": {"rounds": 6, "checkpoint_every": 2, "seed": 7}}), folder, until=4)
    report = run_report(read_runs([folder]))
    assert report.facts[0] == "not finished: 4 of 6 rounds"
    assert {"run-seconds", "run-budgets", "run-latency", "run-picks"} <= set(report.figures())
    several = run_report([*read_runs([study]), *read_runs([folder])])
    assert several.facts[0].startswith("not finished: 4 of 6 rounds of pause") and "seed 7" in several.facts[0]
    assert not {name for name in several.figures() if name.startswith("run-")}
    assert not [fact for fact in run_report(read_runs([study])).facts if "not finished" in fact]
