"""Runs by policy: what counts as seeds of one, and what is said of them together."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pausefl.cli.compare import show_runs
from pausefl.errors import ConfigError
from pausefl.report.policy_summary import by_policy, summarise
from pausefl.report.run_report import run_report
from pausefl.report.time_to_target import time_to_target
from pausefl.runs.config import make_config
from pausefl.runs.play import run
from pausefl.runs.read_folder import read_runs
from pausefl.runs.run_data import RunData

Made = Callable[..., RunData]


def test_summaries_are_means_and_deviations_over_seeds(made: Made) -> None:
    seeds = [made([{"accuracy": a, "max_leakage": a / 10}] * 3) for a in (80.0, 90.0)]
    (line,) = summarise({"pause": seeds}, [70.0, 85.0, 95.0])
    assert (line.seeds, line.rounds, line.max_leakage) == (2, 3, 9.0)
    assert str(line.accuracy) == "85.0 ± 7.1"
    assert line.time_to == {
        70.0: time_to_target([1.0, 1.0]), 85.0: time_to_target([1.0, None]), 95.0: time_to_target([None, None]),
    }  # fmt: skip
    assert line.accuracy is not None and line.accuracy.half_width == pytest.approx(63.53, abs=0.01)


def test_times_are_told_to_the_highest_multiples_of_five_percent(made: Made) -> None:
    (line,) = summarise({"pause": [made([{"accuracy": a}] * 3) for a in (80.0, 90.0)]})
    assert list(line.time_to) == [65.0, 70.0, 75.0, 80.0, 85.0]
    (untrained,) = summarise({"pause": [made([{}])]})
    assert untrained.time_to == {}


def test_one_unbounded_seed_leaves_the_policy_without_a_bound(made: Made) -> None:
    (line,) = summarise({"pause": [made([{}]), made([{"max_leakage": None}])]}, [])
    assert line.max_leakage is None


def test_one_run_is_not_two_seeds(made: Made) -> None:
    with pytest.raises(ConfigError, match="are one run \\(pause, seed 0\\); leave one"):
        by_policy([made([{}]), made([{}])])


def test_different_experiments_are_not_seeds_of_one(tmp_path: Path) -> None:
    for budget in (40, 200):
        for seed in (0, 1):
            config = make_config({"privacy": {"budget": budget}, "run": {"rounds": 2, "seed": seed}})
            run(config, tmp_path / f"{budget}-{seed}")
    groups = by_policy(read_runs([tmp_path]))
    assert {name: len(runs) for name, runs in groups.items()} == {"pause (budget=40.0)": 2, "pause (budget=200.0)": 2}
    said = dict(run_report(read_runs([tmp_path])).guarantees)
    assert {name: text.partition(",")[0] for name, text in said.items()} == {
        "pause (budget=40.0)": "epsilon = 40 per coordinate", "pause (budget=200.0)": "epsilon = 200 per coordinate",
    }  # fmt: skip


def test_wasted_releases_have_a_column_only_where_there_are_any(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [made([{"wasted": lost}, {}]) for lost in (1, 0)]
    found = [policy.wasted for one in runs for policy in summarise(by_policy([one]))]
    assert found[0] is not None and found[0].mean == 25.0 and found[1] is None
    for one, there in zip(runs, (True, False), strict=True):
        glance = run_report([one]).sections[0]
        assert glance.table is not None
        assert ("wasted releases, %" in glance.table.head) == there == ("Wasted releases" in glance.reading)
        show_runs([one])
        assert ("wasted %" in capsys.readouterr().out) == there
