"""The demo's report, opened by a real browser: what a reader sees, not what we believe to have written."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pausefl.cli import main
from pausefl.cli.demo import WHOLE_UPDATE
from pausefl.report.report_files import write_page
from pausefl.report.run_report import run_report
from pausefl.runs.config import make_config
from pausefl.runs.play import run
from pausefl.runs.read_folder import read_runs

sys.path.insert(0, str(Path(__file__).parent))
from chromium import Page, find_browser

BROWSER = find_browser()
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium here; install one (apt-get install chromium) to open the report in it"
)
PAUSE, OTHER = "#0072B2", "#E69F00"
LINES = "[...document.querySelectorAll('.chart .mark-line path')].filter(p => p.getAttribute('stroke') === '{}')"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small real runs: two seeds, sizes that differ, one policy without privacy, and one with a hostile name."""
    out = tmp_path_factory.mktemp("runs")
    small = {
        "network": {"clients": 8},
        "selection": {"per_round": 2},
        "data": {"partition": "sizes", "train_size": 400},
    }
    for policy in ("pause", "random", "all"):
        for seed in (0, 1):
            changes = [f"selection.policy={policy}", f"privacy.enabled={str(policy != 'all').lower()}"]
            run(make_config(small | {"run": {"rounds": 12, "seed": seed}}, changes), out / policy / f"seed-{seed}")
    config = out / "random" / "seed-1" / "config.toml"
    (out / "odd").mkdir()
    for name in ("metrics.jsonl", "summary.json"):
        (out / "odd" / name).write_bytes(config.with_name(name).read_bytes())
    odd = json.dumps("</script><script>throw new Error('loose')</script>'\"&x:Y")
    (out / "odd" / "config.toml").write_text(config.read_text().replace('policy = "random"', f"policy = {odd}"))
    return out


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    made = Page(str(BROWSER), tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def report(folder: Path) -> Path:
    return write_page(run_report(read_runs([folder]), "A & B <in> Chromium"), folder / "report.html")


@pytest.fixture
def page(report: Path, tab: Page) -> Page:
    """The report, freshly opened."""
    return opened(tab, report)


def opened(tab: Page, report: Path) -> Page:
    tab.call("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
    tab.events.clear()
    tab.open(report.as_uri())
    tab.until("document.documentElement.dataset.drawn")
    return tab


def lines(page: Page, colour: str) -> int:
    return int(page.evaluate(f"{LINES.format(colour)}.length"))


def test_the_demos_report_opens_with_all_its_policies(tab: Page, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["demo", "--rounds", "4", "--jobs", "1", "--out", str(tmp_path)])
    assert not stop.value.code
    report = tmp_path / "whole-update" / "report.html"
    page = opened(tab, report)
    assert page.complaints() == []
    assert page.requests() == [report.as_uri()]
    names = page.evaluate("[...document.querySelectorAll('nav.legend button[data-run]')].map(b => b.innerText.trim())")
    assert names == list(WHOLE_UPDATE)
    assert page.evaluate("document.querySelectorAll('#accuracy-seconds .mark-line path').length") == len(WHOLE_UPDATE)


def test_the_report_of_a_search_draws_every_trial(tab: Page, tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="the tune extra is not installed")
    (tmp_path / "it.toml").write_text("learning.enabled = false\nrun.rounds = 5\n")
    with pytest.raises(SystemExit) as stop:
        main(["tune", str(tmp_path / "it.toml"), "--vary", "selection.per_round=1,9", "--vary", "selection.gamma=0,5",
              "--jobs", "1", "--out", str(tmp_path / "out")])  # fmt: skip
    assert not stop.value.code
    report = tmp_path / "out" / "report.html"
    page = opened(tab, report)
    assert page.complaints() == []
    assert page.requests() == [report.as_uri()]
    counts = page.evaluate(
        "[...document.querySelectorAll('.chart')].map(c => [c.id, c.querySelectorAll('.mark-symbol path').length,"
        "c.scrollWidth - c.clientWidth])"
    )
    assert counts == [["front-seconds-leakage", 4, 0], ["key-0", 4, 0], ["key-1", 4, 0], ["lines", 16, 0]]
    assert page.evaluate("document.querySelectorAll('tr[data-run=best]').length") == 1


def test_it_opens_quietly_and_asks_nobody(page: Page, report: Path) -> None:
    assert page.complaints() == []
    assert page.requests() == [report.as_uri()]
    assert page.evaluate("document.title") == "A & B <in> Chromium"
    assert "per coordinate" in page.evaluate("document.querySelector('.guarantee').innerText")


def test_every_chart_is_drawn_with_every_policy_and_fits(page: Page) -> None:
    charts = page.evaluate(
        "[...document.querySelectorAll('.chart')].map(c => [c.id,"
        "c.querySelectorAll('svg .mark-line path, svg .mark-rect path').length,"
        "c.scrollWidth - c.clientWidth, c.querySelector('svg')?.clientHeight ?? 0])"
    )
    assert {name for name, *_ in charts} == {
        "accuracy-seconds", "accuracy-round", "leakage-max-seconds", "leakage-p90-seconds", "leakage-median-seconds",
        "leakage-max-round", "leakage-p90-round", "leakage-median-round", "picks-speed", "picks-size", "latency",
        "budget", "fairness", "term-speed-round", "term-generalization-round", "term-privacy-round",
    }  # fmt: skip
    for name, marks, too_wide, height in charts:
        private_only = name.startswith(("leakage", "budget"))
        assert marks >= (3 if private_only else 4), name
        assert too_wide <= 0, name
        assert height > 100, name


def test_a_click_on_the_legend_hides_a_curve_everywhere_and_a_second_one_shows_it(page: Page) -> None:
    before = lines(page, PAUSE), lines(page, OTHER)
    assert before == (13, 13)
    bars = "document.querySelectorAll('#picks-speed .mark-rect path').length"
    panels = page.evaluate(bars)
    page.click("nav.legend button[data-run='pause']")
    page.until(f"{LINES.format(PAUSE)}.length === 0")
    assert lines(page, OTHER) == 13
    assert page.evaluate(bars) == panels - 8
    assert page.evaluate("document.querySelectorAll('tbody tr[data-run=pause]')[0].offsetParent === null")
    page.click("nav.legend button[data-run='pause']")
    page.until(f"{LINES.format(PAUSE)}.length === 13")
    assert page.complaints() == []


def test_a_mark_says_what_it_is_when_pointed_at(page: Page) -> None:
    page.evaluate("document.querySelector('#accuracy-round').scrollIntoView({block: 'center'})")
    x, y = page.evaluate(
        f"(r => [r.x + r.width / 2, r.y + r.height / 2])([...document.querySelectorAll("
        f"'#accuracy-round .mark-symbol path')].filter(p => p.getAttribute('fill') === '{PAUSE}')[0]"
        ".getBoundingClientRect())"
    )
    page.point(x, y)
    page.until("document.getElementById('tip').offsetParent !== null || "
               "getComputedStyle(document.getElementById('tip')).display === 'block'")  # fmt: skip
    said = page.evaluate("document.getElementById('tip').innerText")
    assert "test accuracy, %" in said
    assert "policy" in said


def test_a_narrow_window_is_filled_and_not_overrun(page: Page) -> None:
    page.call("Emulation.setDeviceMetricsOverride", width=420, height=900, deviceScaleFactor=1, mobile=False)
    widest = "Math.max(...[...document.querySelectorAll('.chart svg')].map(s => s.getBoundingClientRect().right))"
    page.until(f"{widest} <= 420 && {widest} > 380")
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
