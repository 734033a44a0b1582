"""Every study of training of the paper runs at smoke scale, and a copy of one can be changed."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from pausefl.cli import main
from pausefl.errors import ConfigError
from pausefl.runs.data import RunData
from pausefl.runs.parallel import Task, run_many
from pausefl.studies.load import load_study, study_names
from pausefl.studies.measured import KINDS
from pausefl.studies.study import Order
from pausefl.studies.trained import TrainedStudy

PAPER = [
    "large-cnn5", "large-mnist", "large-noniid-r1", "large-noniid-r2", "published-mnist", "small-iid-r1",
    "small-iid-r2", "small-noniid",
]  # fmt: skip


def trained(name: str) -> TrainedStudy:
    study = load_study(name)
    assert isinstance(study, TrainedStudy)
    return study


def test_the_papers_studies_are_all_there() -> None:
    assert study_names() == sorted([*KINDS, *PAPER])


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_studies_compare_its_policies(name: str) -> None:
    assert {"pause", "sa-pause", "fastest", "all", "all (no privacy)"} < set(trained(name).about.policies)


@pytest.mark.parametrize("name", PAPER)
def test_every_study_runs_at_smoke_scale(name: str, tmp_path: Path) -> None:
    study = trained(name)
    tasks = study.tasks(tmp_path, "smoke")
    assert len(tasks) == len(study.about.policies) >= 2
    runs = run_many(tasks)
    assert all(run.summary["rounds"] == 4 for run in runs)
    free = [run for run, p in zip(runs, study.about.policies, strict=True) if "no privacy" in p]
    assert all(run.summary["max_leakage"] is None for run in free)


@pytest.mark.parametrize("name", PAPER)
@pytest.mark.parametrize("scale", ["full", "half"])
def test_every_study_is_a_valid_configuration_at_every_scale(name: str, scale: str, tmp_path: Path) -> None:
    study = trained(name)
    tasks = study.tasks(tmp_path, scale)
    assert len(tasks) == study.about.seeds * len(study.about.policies)
    assert len({task.out for task in tasks}) == len(tasks)


@pytest.mark.parametrize(
    ("policy", "overrides", "words"),
    [
        ("all (without privacy)", [], "only '(no privacy)' may follow"),
        ("sa-pause (as published)", [], "the policy is called 'sa-pause-as-published'"),
        ("all", ["run.seed=5"], "--set run.seed would make all runs of a study alike"),
        ("all", ["selection.policy=random"], "--set selection.policy would"),
    ],
)
def test_what_would_falsify_a_study_is_refused(policy: str, overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        trained("small-iid-r1").config(policy, 0, "smoke", overrides)
    assert words in str(refused.value)


def test_some_policies_of_a_study(tmp_path: Path) -> None:
    study = trained("small-noniid")
    assert [t.config.selection.policy for t in study.tasks(tmp_path, "half", 2, policies=["pause"])] == ["pause"] * 2
    with pytest.raises(ConfigError, match="--policy is 'random'"):
        study.tasks(tmp_path, "half", policies=["random"])


def test_a_study_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[study]\ntitle = "mine"\nfigures = []\npolicies = ["pause", "pausefl.selection:Random"]\n'
        "seeds = 1\nhalf = []\n"
        "[run]\nrounds = 2\n"
    )
    runs = run_many(trained(str(file)).tasks(tmp_path / "out", "full"))
    assert [run.summary["policy"] for run in runs] == ["pause", "pausefl.selection:Random"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[run]\nrounds = 1\n", "has no [study] section"),
        ('[study]\ntitle = "x"\nfigures = []\npolicies = "pause"\nseeds = 1\nhalf = []\n', "study.policies is 'pause'"),
        ("nonsense", "is no TOML file"),
    ],
)
def test_bad_studies_are_named(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_study(str(file))
    assert words in str(refused.value)
    with pytest.raises(ConfigError, match="must be a TOML file or one of"):
        load_study("no-such-study")


def test_a_newcomers_policy_stands_beside_the_others(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "own_policy.toml"
    with pytest.raises(SystemExit) as stop:
        main(["study", str(example), "--scale", "smoke", "--jobs", "1", "--out", str(tmp_path)])
    assert not stop.value.code
    assert "own_policy:BudgetTimesSpeed" in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text()
    assert "own_policy:BudgetTimesSpeed" in page.split("<script")[0]


def test_one_run_under_two_names_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    tasks = trained("large-mnist").tasks(tmp_path, "smoke", overrides=["privacy.enabled=false"])
    with pytest.raises(ConfigError, match="would be one run; leave one out"):
        run_many(tasks)
    assert not any(tmp_path.iterdir())


def test_a_study_that_grows_is_reported_whole(tmp_path: Path) -> None:
    study = trained("small-noniid")
    played = []

    def train(tasks: Sequence[Task]) -> list[RunData]:
        played.extend(run_many(tasks))
        return played[-1:]

    for policy in ("pause", "fastest"):
        outcome = study.play(Order(out=tmp_path, scale="smoke", policies=[policy]), train)
    assert outcome.report.names == ["pause", "fastest"]
    assert [row["name"] for row in outcome.rows] == ["pause", "fastest"]
    fastest, pause = outcome.runs  # by folder
    assert fastest is played[1]  # what was just played is not read again
    assert pause == played[0]
    assert outcome.report.title == f"{study.about.title} (smoke scale: a trial in small)"


def test_a_bad_reference_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    order = Order(out=tmp_path / "out", scale="smoke", references=[tmp_path / "none.csv"])
    with pytest.raises(ConfigError, match="cannot be read as a reference curve"):
        trained("small-noniid").play(order, run_many)
    assert not (tmp_path / "out").exists()
