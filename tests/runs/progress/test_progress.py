"""Where a run stands: numbers per client, points, and what a person should look at."""

from pathlib import Path

import numpy as np
import pytest

from pausefl.report.progress_report import (
    accuracy_rows,
    budget_rows,
    fault_rows,
    latency_rows,
    pick_rows,
    progress_charts,
    reach_rows,
    seconds_rows,
)
from pausefl.runs.config import make_config
from pausefl.runs.play import run
from pausefl.runs.progress.alarms import alarms
from pausefl.runs.progress.find import progress_of
from pausefl.runs.progress.progress import LINES, POINTS, Progress
from pausefl.runs.progress.round_facts import RoundFacts, RunHead

HEAD = RunHead(kind="Flower", title="pause", clients=3, names=("a2", "a10", "a1"), planned=9)


def facts(number: int, seconds: dict[str, float], **more) -> RoundFacts:
    faults = more.pop("faults", {})
    more = {"took": max(seconds.values(), default=5.0), **more}
    return RoundFacts(number=number, members=(*seconds, *faults), seconds=seconds, faults=faults, **more)


@pytest.fixture
def three() -> Progress:
    progress = Progress(HEAD)
    progress.add(facts(1, {"a1": 1.0, "a2": 3.0}, accuracy=50.0, left={"a1": 0.9, "a2": 0.8}))
    progress.add(facts(2, {"a1": 2.0}, faults={"a2": "no answer"}, left={"a1": 0.5, "a2": 0.6}))
    progress.add(facts(3, {"a10": 4.0}, faults={"a1": "exhausted", "a2": "late"}, accuracy=70.0, left={"a1": 0.05}))
    return progress


def test_every_number_of_three_rounds_reaches_its_chart(three: Progress) -> None:
    assert three.rounds == 3 and three.accuracy == 60.0 and three.clock == 9.0
    assert accuracy_rows(three) == [{"x": 1, "y": 50.0}, {"x": 3, "y": 70.0}]
    assert [row["y"] for row in seconds_rows(three)] == [3.0, 2.0, 4.0]
    budgets = {(row["client"], row["x"]): (row["y"], row["near"]) for row in budget_rows(three)}
    assert budgets == {
        ("a1", 1): (90.0, 0), ("a1", 2): (50.0, 0), ("a1", 3): (5.0, 1),
        ("a2", 1): (80.0, 0), ("a2", 2): (60.0, 0), ("a2", 3): (60.0, 0),
    }  # fmt: skip
    assert [(row["client"], row["low"], row["y"], row["high"]) for row in latency_rows(three)] == [
        ("a10", 4.0, 4.0, 4.0), ("a2", 3.0, 3.0, 3.0), ("a1", 1.0, 1.5, 2.0),
    ]  # fmt: skip
    wrong = {(row["kind"], row["x2"]) for row in fault_rows(three) if row["y"]}
    assert wrong == {("no answer", 2.5), ("late", 3.5), ("refused", 3.5)}
    picked = {(row["client"], row["x2"]) for row in pick_rows(three) if row["y"]}
    assert picked == {("a1", 1.5), ("a1", 2.5), ("a1", 3.5), ("a2", 1.5), ("a2", 2.5), ("a2", 3.5), ("a10", 3.5)}
    assert list(dict.fromkeys(row["client"] for row in pick_rows(three))) == ["a1", "a2", "a10"]  # as people count


def test_all_six_charts_are_valid_vega_lite_with_and_without_rows(three: Progress) -> None:
    many = Progress(RunHead(kind="simulator", title="pause", clients=LINES + 1))
    for progress in (three, Progress(HEAD), many):
        charts = progress_charts(progress)
        assert len(charts) == 6
        for chart in charts:
            chart.draw(chart.rows(progress)).to_dict()


def test_a_silent_client_is_an_alarm_until_it_answers(three: Progress) -> None:
    progress = Progress(HEAD)
    progress.add(facts(1, {}, faults={"a2": "no answer"}))
    progress.add(facts(2, {"a1": 1.0}, faults={"a2": "no answer"}))
    [alarm] = alarms(progress)
    assert (alarm.kind, alarm.clients) == ("silent", ("a2",))
    assert (
        alarm.text
        == "Client a2 did not answer in round 2, when it was last asked. It has now been silent 2 times in a row."
    )
    progress.add(facts(3, {"a1": 1.0}))
    assert [one.kind for one in alarms(progress)] == ["silent"]
    progress.add(facts(4, {"a2": 1.0}))
    assert alarms(progress) == []


def test_refusals_and_ends_of_budgets_are_alarms(three: Progress) -> None:
    assert [(one.kind, one.clients) for one in alarms(three)] == [("refused", ("a1",)), ("budget", ("a1",))]
    assert "a1 (exhausted)" in alarms(three)[0].text and "a1 (5 %)" in alarms(three)[1].text


def test_falling_accuracy_is_an_alarm_only_while_budgets_end() -> None:
    rich, poor = Progress(HEAD), Progress(HEAD)
    for number in range(1, 31):
        score = 80.0 - max(0, number - 10)
        rich.add(facts(number, {"a1": 1.0}, accuracy=score, left={"a1": 0.5}))
        poor.add(facts(number, {"a1": 1.0}, accuracy=score, left={"a1": 0.02}))
    assert alarms(rich) == []
    assert [one.kind for one in alarms(poor)] == ["budget", "falling"]
    assert "15.5 points below its best" in alarms(poor)[1].text  # the mean of the last ten scores is 64.5


def test_no_number_of_rounds_makes_it_larger() -> None:
    progress = Progress(HEAD)
    for number in range(1, 3001):
        progress.add(facts(number, {"a1": 1.0, "a2": 2.0}, accuracy=float(number % 7), left={"a1": 1.0 / number}))
    assert len(progress.points) <= POINTS and progress.points.ends[-1] == 3000
    assert all(len(chart.rows(progress)) <= POINTS * LINES for chart in progress_charts(progress))
    assert sum(row["y"] for row in pick_rows(progress) if row["client"] == "a1") == 100.0 * len(progress.points)


def test_a_simulated_run_says_what_its_data_say(tmp_path: Path) -> None:
    content = {"network": {"clients": 7, "dropout": 0.3}, "selection": {"per_round": 3}, "learning": {"enabled": False}}
    played = run(make_config(content | {"run": {"rounds": 25}}), tmp_path)
    progress = progress_of(played)
    assert progress.head.names == tuple("0123456") and progress.head.finished
    assert progress.clients.asked[:7].tolist() == played.picks().tolist()
    budget = played.settings.privacy.budget
    assert np.allclose(budget * progress.left(), played.budget_left())
    silent = sum(latency is None for record in played.records for latency in record["latencies"])
    assert progress.points["no answer"].sum() == silent > 0
    assert progress.clock == pytest.approx(played.records[-1]["seconds"])


def test_many_clients_share_three_lines_of_budgets(tmp_path: Path) -> None:
    content = {"network": {"clients": LINES + 5}, "learning": {"enabled": False}, "run": {"rounds": 3}}
    progress = progress_of(run(make_config(content), tmp_path))
    assert len({row["client"] for row in budget_rows(progress)}) == 3
    assert reach_rows(progress)[-1]["y"] == 100.0 * (progress.clients.asked > 0).sum() / (LINES + 5)
