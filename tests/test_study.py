"""Every study of the paper runs at smoke scale, and a copy of one can be changed."""

from pathlib import Path

import pytest

from pausefl.errors import ConfigError
from pausefl.studies.many import run_many
from pausefl.studies.study import load_study, study_names


def test_the_papers_studies_are_all_there() -> None:
    assert set(study_names()) == {
        "small-iid-r1", "small-iid-r2", "small-noniid", "large-mnist", "large-noniid-r1", "large-noniid-r2",
        "large-cnn5", "published-mnist",
    }  # fmt: skip


@pytest.mark.parametrize("name", study_names())
def test_every_study_runs_at_smoke_scale(name: str, tmp_path: Path) -> None:
    study = load_study(name)
    tasks = study.tasks(tmp_path, "smoke")
    assert len(tasks) == len(study.policies) >= 6
    summaries = run_many(tasks)
    assert all(summary["rounds"] == 4 for summary in summaries)
    free = [s for s, p in zip(summaries, study.policies, strict=True) if "no privacy" in p]
    assert all(s["max_leakage"] is None for s in free)


@pytest.mark.parametrize("name", study_names())
@pytest.mark.parametrize("scale", ["full", "half"])
def test_every_study_is_a_valid_configuration_at_every_scale(name: str, scale: str, tmp_path: Path) -> None:
    study = load_study(name)
    tasks = study.tasks(tmp_path, scale)
    assert len(tasks) == study.seeds * len(study.policies)
    assert len({task.out for task in tasks}) == len(tasks)


def test_some_policies_of_a_study(tmp_path: Path) -> None:
    study = load_study("small-noniid")
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
    summaries = run_many(load_study(str(file)).tasks(tmp_path / "out", "full"))
    assert [s["policy"] for s in summaries] == ["pause", "pausefl.selection:Random"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[run]\nrounds = 1\n", "needs a [study] section"),
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
