"""A search finds what is known to be best, keeps its bounds, and goes on after a kill as if nothing had happened."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("optuna", reason="the tune extra is not installed")

from pausefl.cli import main
from pausefl.errors import ConfigError, PauseError
from pausefl.runs.config import load_config
from pausefl.runs.play import run
from pausefl.runs.run_data import RunData
from pausefl.studies.search.aim import NEVER, Aim, Found, pareto_front
from pausefl.studies.search.search import Search, SearchResult, TrialResult
from pausefl.studies.search.search_report import search_report
from pausefl.studies.search.space import Listed, Range, read_choices, read_space
from pausefl.studies.search.subject import read_subject
from pausefl.studies.search.trial_journal import JOURNAL

CLOCK = """
learning.enabled = false
network = {clients = 12, tau_min = 0.01, latency = "exponential"}
selection = {policy = "random", per_round = 3}
run = {rounds = 16, checkpoint_every = 2}
"""
DIGITS = """
data.train_size = 200
network.clients = 6
selection = {policy = "random", per_round = 3}
privacy.width = 0.02
run = {rounds = 24, checkpoint_every = 3}
"""


def searched(folder: Path, text: str, *vary: str, jobs: int = 1, out: str = "out", **options: Any) -> SearchResult:
    (folder / "it.toml").write_text(text)
    aim = Aim(**{name: options.pop(name) for name in ("kind", "reach", "most_leakage") if name in options})
    search = Search(subject=read_subject(str(folder / "it.toml")), space=read_space(vary), aim=aim, **options)
    return search.play(folder / out, jobs=jobs)


def told(result: SearchResult) -> list[tuple[Any, ...]]:
    return [(t.number, t.values, t.state, t.found, t.why) for t in result.trials]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("selection.alpha", "--vary is 'selection.alpha', but must be SECTION.KEY=VALUES; e.g. --vary"),
        ("alpha=1,2", "--vary is 'alpha=1,2', but must be SECTION.KEY=VALUES"),
        ("selection.=1,2", "must be SECTION.KEY=VALUES"),
        ("selection.alpha=", "must be SECTION.KEY=VALUES"),
        ("selection.alpha=,", "--vary selection.alpha is ',', but must be one value or more; separate them"),
        ("selection.alpha=5..1", "is '5..1', but must be a range that begins below its end; swap"),
        ("selection.alpha=0..1:log", "is '0..1:log', but must be above 0 where it begins"),
        ("selection.alpha=1..2:lin", "is '1..2:lin', but must be LOW..HIGH or LOW..HIGH:log; leave"),
        ("selection.alpha=1,2:log", "is '1,2:log', but must be a range LOW..HIGH"),
        ("selection.alpha=a..b", "is 'a..b', but must be two finite numbers with .. between them; e.g."),
        ("selection.alpha=1..inf", "must be two finite numbers"),
        (f"selection.alpha=1..{10**400}", "must be two finite numbers"),
        ("selection.alpha=1..2..3", "must be two finite numbers"),
        ("run.seed=1,2", "must be another key than run.seed; use --seed and --seeds"),
        ("selection.alhpa=1,2", "selection.alhpa is not a known key; did you mean 'selection.alpha'?"),
        ("selection.beta=0.5..3", "selection.beta is 0.5, but must be greater than 1; change it"),
        ("selection.per_round=1..20", "selection.per_round is 20, but must be at most network.clients = 12;"),
        ("selection.policy=pause,nobody", "nobody"),
        ("privacy.mechanism=laplace,lapalce", "privacy.mechanism is 'lapalce', but must be"),
    ],
)  # fmt: skip
def test_a_wrong_text_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    (tmp_path / "it.toml").write_text(CLOCK)
    with pytest.raises(SystemExit) as stop:
        main(["tune", str(tmp_path / "it.toml"), "--vary", text, "--jobs", "1", "--out", str(tmp_path / "out")])
    err = capsys.readouterr().err
    assert (stop.value.code, err.count("\n")) == (2, 1), err
    assert err.startswith("pausefl: ")
    assert words in err
    assert not list(tmp_path.glob("out/trial-*"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "--vary is 'missing', but must be given for one key or more; e.g. --vary"),
        (["--vary", "selection.alpha=1", "--vary", "selection.alpha=2"], "'selection.alpha twice'"),
        (["--vary", "selection.alpha=1", "--reach", "80"], "learning.enabled is false, but must be true for --reach"),
        (["--vary", "selection.alpha=1", "--aim", "accuracy"], "must be true for --aim "
        "accuracy; set it to true, or pass --aim"),
        (["--vary", "selection.alpha=1", "--aim", "accuracy", "--reach", "9"], "has no effect on --aim accuracy"),
        (["--vary", "selection.alpha=1", "--most-leakage", "3", "--aim", "seconds", "--set", "privacy.enabled=false"],
         "privacy.enabled is false, but must be true for --most-leakage 3"),
        (["--vary", "selection.alpha=1", "--scale", "smoke"], "--scale is 'smoke', but"),
        (["--vary", "selection.alpha=" + ",".join(map(str, range(101))), "--vary",
          "selection.gamma=" + ",".join(map(str, range(101)))], "10,201 combinations', but must be at most 10,000"),
        (["selection.alpha", "1,2"], "has a new form; run 'pausefl tune STUDY --vary KEY=VALUES' instead"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    (tmp_path / "it.toml").write_text(CLOCK)
    with pytest.raises(SystemExit) as stop:
        main(["tune", str(tmp_path / "it.toml"), *options, "--out", str(tmp_path / "out")])
    err = capsys.readouterr().err
    assert (stop.value.code, err.count("\n")) == (2, 1), err
    assert words in err


def test_ends_decide_whether_a_range_has_whole_numbers() -> None:
    assert read_choices("a.b=1..9") == Range("a.b", "1..9", 1, 9, False)
    assert read_choices("a.b=1.0..9") == Range("a.b", "1.0..9", 1.0, 9.0, False)
    assert read_choices("a.b = -2 .. 1e3") == Range("a.b", "-2 .. 1e3", -2.0, 1000.0, False)
    assert read_choices("a.b=x, y,x") == Listed("a.b", "x,y", ("x", "y"))


def test_a_value_may_need_one_of_another_key(tmp_path: Path) -> None:
    """Momentum is refused beside adam alone, so it is possible where sgd is tried, too; the rest is told as refused."""
    vary = ("learning.optimizer=adam,sgd", "learning.momentum=0,0.9")
    result = searched(tmp_path, CLOCK, *vary, kind="seconds")
    assert [t.state for t in result.trials] == ["finished", "refused", "finished", "finished"]
    assert "learning.momentum has no effect here" in result.trials[1].why
    with pytest.raises(PauseError, match="momentum has no effect"):
        searched(tmp_path, CLOCK, "learning.momentum=0,0.9", kind="seconds", out="alone")


def test_the_least_clock_is_found(tmp_path: Path) -> None:
    """A round of one client is shorter than one of several, whoever they are."""
    vary = ("selection.per_round=1..12", "selection.gamma=0.5..9")
    result = searched(tmp_path, CLOCK, *vary, kind="seconds", trials=25, prune=True)
    assert result.best is not None
    assert result.best.values["selection.per_round"] == 1
    assert any(trial.state == "stopped early" and trial.why.startswith("clock") for trial in result.trials)
    assert len(list((tmp_path / "out").glob("trial-*/seed-100/metrics.jsonl"))) == len(result.trials)
    best = load_config(tmp_path / "out" / "best.toml")
    assert (best.selection.per_round, best.run.seed, best.run.rounds) == (1, 0, 16)
    seconds = {t.values["selection.per_round"]: t.found.seconds for t in result.finished if t.found}
    assert seconds[1] == min(seconds.values())


def test_stopping_hopeless_trials_loses_no_winner(tmp_path: Path) -> None:
    vary = ("selection.per_round=1,2,3,6,9,12",)
    every = searched(tmp_path, CLOCK, *vary, kind="seconds", seeds=2, out="every")
    some = searched(tmp_path, CLOCK, *vary, kind="seconds", seeds=2, prune=True, out="some")
    assert every.best is not None
    assert every.best == some.best
    assert len(every.finished) == 6 > len(some.finished)
    last = load_config(tmp_path / "some" / "trial-5" / "seed-101" / "config.toml")
    whole = run(last, tmp_path / "some" / "trial-5" / "seed-101")  # a stopped run goes on like one that was not
    again = run(last, tmp_path / "again")
    assert whole.records == again.records


def test_lists_are_tried_in_every_combination_once(tmp_path: Path) -> None:
    vary = ("selection.per_round=1,2", "selection.policy=random,fastest", "selection.gamma=1")
    first = searched(tmp_path, CLOCK, *vary, kind="front")
    assert [tuple(t.values.values()) for t in first.trials] == [
        ("1", "random", "1"), ("1", "fastest", "1"), ("2", "random", "1"), ("2", "fastest", "1"),
    ]  # fmt: skip
    again = searched(tmp_path, CLOCK, *vary, kind="front", trials=9)
    assert told(first) == told(again)
    side_by_side = searched(tmp_path, CLOCK, *vary, kind="front", jobs=2, out="two")
    assert told(first) == sorted(told(side_by_side), key=lambda row: row[0])


def test_fewer_trials_than_combinations_repeat_no_run_and_go_on_to_all_of_them(tmp_path: Path) -> None:
    vary = ("selection.per_round=1,2,3", "selection.gamma=1,2")
    few = searched(tmp_path, CLOCK, *vary, kind="seconds", trials=5)
    values = [tuple(trial.values.values()) for trial in few.trials]
    assert len(set(values)) == len(values) <= 5
    assert len(list((tmp_path / "out").glob("trial-*"))) == len(values)
    more = searched(tmp_path, CLOCK, *vary, kind="seconds")
    assert told(more)[: len(values)] == told(few)


def test_the_target_ends_a_run_and_the_bound_is_kept(tmp_path: Path) -> None:
    vary = ("privacy.width=0.0005,0.02,0.05",)
    free = searched(tmp_path, DIGITS, *vary, kind="seconds", reach=40.0, seeds=2)
    assert free.best is not None
    found = free.best.found
    assert found is not None
    assert found.leakage is not None
    assert found.seconds is not None
    assert found.rounds < 24  # it need not go on
    never = free.trials[0].found
    assert never is not None
    assert never.seconds is None
    assert free.aim.score(never) > NEVER

    file = tmp_path / "out" / "best.toml"
    config = load_config(file)
    assert config.run.rounds == found.rounds
    runs: list[RunData] = []
    for seed in (100, 101):
        seeded = config.model_copy(update={"run": config.run.model_copy(update={"seed": seed})})
        runs.append(run(seeded, tmp_path / f"check-{seed}"))
    assert [one.time_to(40.0) is not None for one in runs] == [True, True]
    assert max(one.records[-1]["max_leakage"] for one in runs) == found.leakage

    loose, tight = found.leakage, math.nextafter(found.leakage, 0.0)
    kept = searched(tmp_path, DIGITS, *vary, kind="seconds", reach=40.0, seeds=2, most_leakage=loose, out="loose")
    assert kept.best is not None
    assert kept.best.values == free.best.values
    bounded = searched(tmp_path, DIGITS, *vary, kind="seconds", reach=40.0, seeds=2, most_leakage=tight, out="tight")
    assert bounded.best is None or bounded.best.values != free.best.values
    for trial in bounded.front:
        assert trial.found is not None
        assert (trial.found.leakage or 0.0) <= tight
    nothing = searched(tmp_path, DIGITS, *vary, kind="seconds", reach=40.0, most_leakage=0.1, prune=True, out="none")
    assert (nothing.best, nothing.front) == (None, [])
    assert {trial.why.split(" after")[0] for trial in nothing.trials if trial.state == "stopped early"}
    assert not (tmp_path / "none" / "best.toml").exists()


def test_accuracy_is_sought_and_those_below_the_median_are_stopped(tmp_path: Path) -> None:
    widths = [0.02, 0.03, 0.04, 0.05, 0.06, 0.0001, 0.0002]
    vary = "privacy.width=" + ",".join(map(str, widths))
    result = searched(tmp_path, DIGITS, vary, kind="accuracy", prune=True)
    assert [t.state for t in result.trials[-2:]] == ["stopped early"] * 2
    assert result.trials[-1].why.startswith("accuracy below the median after 3 rounds")
    assert (tmp_path / "out" / "trial-6" / "seed-100" / "metrics.jsonl").exists()
    assert result.best is not None
    assert result.best.found is not None
    finals = [t.found.accuracy for t in result.finished if t.found and t.found.accuracy is not None]
    assert result.best.found.accuracy == max(finals)


def test_a_search_of_something_else_is_refused(tmp_path: Path) -> None:
    searched(tmp_path, CLOCK, "selection.gamma=1,2", kind="seconds")
    with pytest.raises(ConfigError, match=r"holds another search \(--vary selection.gamma = '1,2' there, '1,3' here\)"):
        searched(tmp_path, CLOCK, "selection.gamma=1,3", kind="seconds")
    with pytest.raises(ConfigError, match="aim = 'least seconds' there, 'Pareto front"):
        searched(tmp_path, CLOCK, "selection.gamma=1,2", kind="front")
    with pytest.raises(ConfigError, match=r"network.clients = 12 there, 13 here"):
        searched(tmp_path, CLOCK.replace("12", "13"), "selection.gamma=1,2", kind="seconds")
    (tmp_path / "out" / JOURNAL).write_text("nonsense\n" * 3)
    with pytest.raises(ConfigError, match="is damaged"):
        searched(tmp_path, CLOCK, "selection.gamma=1,2", kind="seconds")


VARY = ("selection.per_round=1..6", "selection.gamma=0.1..10:log", "selection.policy=random,pause")


@pytest.mark.parametrize("options", [{"kind": "seconds"}, {"kind": "front"}])
def test_a_journal_cut_anywhere_goes_on_to_the_same_end(tmp_path: Path, options: dict[str, Any]) -> None:
    """At every line, and in the middle of one: what was lost is drawn and played again, and comes out the same."""
    whole = searched(tmp_path, CLOCK, *VARY, trials=13, **options)
    lines = (tmp_path / "out" / JOURNAL).read_bytes().splitlines(keepends=True)
    assert len(lines) > 50
    for place in [1, 2, *range(len(lines) - 9, len(lines))]:  # the search's own lines, and all of the last trial
        cut = tmp_path / "cut"
        shutil.copytree(tmp_path / "out", cut)
        (cut / JOURNAL).write_bytes(b"".join(lines[:place]) + lines[place][:20])
        assert told(searched(tmp_path, CLOCK, *VARY, trials=13, out="cut", **options)) == told(whole), place
        shutil.rmtree(cut)


def test_a_killed_search_goes_on_to_the_same_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is killed is a process of its own; what is not killed is played in this one."""
    (tmp_path / "it.toml").write_text(CLOCK.replace("16", "100").replace("= 2}", "= 10}"))

    def words(out: str) -> list[str]:
        options = [word for one in VARY for word in ("--vary", one)]
        return ["tune", str(tmp_path / "it.toml"), *options, "--aim", "seconds", "--trials", "8", "--seeds", "2",
                "--jobs", "1", "--json", "--out", str(tmp_path / out)]  # fmt: skip

    def played(out: str) -> Any:
        with pytest.raises(SystemExit) as stop:
            main(words(out))
        assert not stop.value.code
        return json.loads(capsys.readouterr().out)

    whole = played("whole")
    for enough in (1, 3):
        started = subprocess.Popen([sys.executable, "-m", "pausefl", *words("killed")], stdout=subprocess.DEVNULL)
        while started.poll() is None and not (tmp_path / "killed" / f"trial-{enough}" / "seed-101").exists():
            time.sleep(0.01)
        os.kill(started.pid, signal.SIGKILL)
        assert started.wait() == -signal.SIGKILL
    assert played("killed") == whole
    for name in ("best.toml", *(f"trial-{n}/seed-101/metrics.jsonl" for n in range(8))):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_a_trial_that_never_reaches_the_target_loses_against_any_that_does() -> None:
    aim = Aim(kind="seconds", reach=80.0, most_leakage=10.0)

    def found(seconds: float | None, best: float, leakage: float = 5.0) -> Found:
        return Found(seconds=seconds, leakage=leakage, accuracy=best, best_accuracy=best, rounds=9)

    slow, near, far = found(1e8, 80.0), found(None, 79.0), found(None, 20.0)
    assert aim.score(slow) < aim.score(near) < aim.score(far)
    assert [aim.is_met(one) for one in (slow, near, found(1.0, 90.0, 10.1))] == [True, False, False]


def test_the_front_leaves_out_what_another_beats() -> None:
    assert pareto_front([]) == []
    assert pareto_front([[1.0, 1.0], [1.0, 1.0], [1.0, 2.0], [0.0, 3.0]]) == [0, 1, 3]


def test_the_report_draws_the_front_the_keys_and_all_trials() -> None:
    space = read_space(["selection.alpha=0.1..100:log", "selection.policy=pause,random"])
    trials = [
        TrialResult(
            number=n,
            values={"selection.alpha": 0.5 * n + 0.1, "selection.policy": ("pause", "random")[n % 2]},
            state="stopped early" if n == 3 else "finished",
            found=Found(seconds=9.0 + n, leakage=5.0 - n, accuracy=50.0 + n, best_accuracy=60.0, rounds=9),
            why="clock 9 s" if n == 3 else "",
        )
        for n in range(4)
    ]
    keys = [choices.key for choices in space]
    result = SearchResult(
        aim=Aim(kind="front"), keys=keys, quantities=["seconds", "leakage", "accuracy"], trials=trials
    )
    report = search_report(result, space, "Mine")
    assert list(report.figures()) == [
        "front-seconds-accuracy", "front-leakage-accuracy", "front-seconds-leakage", "key-0", "key-1", "lines",
    ]  # fmt: skip
    assert report.names == ["best", "on the front", "stopped early"]
    for figure in report.figures().values():
        figure.draw(width=520, title=figure.title).to_dict(validate=True)
    [table] = [section.table for section in report.sections if section.table]
    assert table.rows[0][:4] == ["best", "2", "1.1", "pause"]
