"""``pausefl watch`` in a real browser, over a real run that goes on underneath."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pausefl.runs.config import make_config
from pausefl.runs.play import run

sys.path.insert(0, str(Path(__file__).parent))
from chromium import Page, find_browser

BROWSER = find_browser()
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium here; install one (apt-get install chromium) to open the page in it"
)
CONTENT = {
    "network": {"clients": 8, "dropout": 0.3},
    "selection": {"per_round": 3},
    "data": {"train_size": 400},
    "privacy": {"budget": 8.0, "schedule": "fixed-horizon", "releases": 6},
    "run": {"rounds": 12, "checkpoint_every": 4},
}
PATIENCE = 300.0
"""Seconds after which something is broken, however busy the machine is."""
ROUNDS = "document.documentElement.dataset.rounds"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """The page of a run that is not there yet."""
    made = Page(str(BROWSER), tmp_path / "profile")
    command = [sys.executable, "-m", "pausefl", "watch", str(tmp_path / "run"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        try:
            assert watch.stdout is not None
            made.call("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
            made.open(watch.stdout.readline().split(" at ")[1].split(" ")[0])
            yield made
        finally:
            made.close()
            watch.terminate()


def text(page: Page, selector: str) -> str:
    return str(page.evaluate(f"document.querySelector('{selector}').innerText"))


def test_the_page_follows_a_run_from_before_its_first_round_to_its_end(page: Page, tmp_path: Path) -> None:
    page.until("document.querySelector('.alarm.fault')", PATIENCE)
    assert text(page, "h1") == "Waiting for the run"
    config = make_config(CONTENT)
    run(config, tmp_path / "run", until=4)
    page.until(f"{ROUNDS} == 4", PATIENCE)
    assert text(page, "#progress").startswith("4 of 12 rounds")
    before = page.evaluate("document.querySelector('#run-seconds .mark-line path').getAttribute('d')")
    run(config, tmp_path / "run", until=8)
    page.until(f"{ROUNDS} == 8", PATIENCE)
    assert page.evaluate("document.querySelector('#run-seconds .mark-line path').getAttribute('d')") != before
    played = run(config, tmp_path / "run")
    page.until(f"{ROUNDS} == 12 && document.querySelector('#progress').innerText.includes('finished')", PATIENCE)

    silent = {}
    for record in played.records:
        silent |= {k: seconds is None for k, seconds in zip(record["members"], record["latencies"], strict=True)}
    expected = {str(k) for k, gone in silent.items() if gone}
    assert expected  # whoever did not answer when last asked
    assert set(page.evaluate("document.querySelector('.alarm.silent').dataset.clients").split()) == expected
    near = {str(k) for k, left in enumerate(played.budget_left()) if left < 0.8}
    alarm = page.evaluate("document.querySelector('.alarm.budget')?.dataset.clients ?? ''")
    assert set(alarm.split()) == near

    charts = page.evaluate(
        "[...document.querySelectorAll('.chart')].map(c => [c.id, c.querySelectorAll('svg path').length,"
        "c.scrollWidth - c.clientWidth])"
    )
    assert [name for name, *_ in charts] == [
        "run-accuracy", "run-seconds", "run-budgets", "run-latency", "run-faults", "run-picks",
    ]  # fmt: skip
    assert all(marks > 5 and too_wide <= 0 for _, marks, too_wide in charts), charts
    assert page.evaluate("document.querySelectorAll('#budgets tbody tr').length") == 8
    assert page.complaints() == []
    asked = {url.split("?")[0].rsplit("/", 1)[1] for url in page.requests()}
    assert asked == {"", "live.css", "live.js", "events", "charts"}
    assert all(url.startswith("http://127.0.0.1:") for url in page.requests())

    page.call("Emulation.setDeviceMetricsOverride", width=400, height=900, deviceScaleFactor=1, mobile=False)
    widest = "Math.max(...[...document.querySelectorAll('.chart svg')].map(s => s.getBoundingClientRect().right))"
    page.until(f"{widest} <= 400", PATIENCE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
