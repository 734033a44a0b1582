"""Every study of the paper runs at smoke scale, and a copy of one can be changed."""

import csv
from pathlib import Path

import pytest

from pausefl.cli import main
from pausefl.errors import ConfigError
from pausefl.runs.parallel import run_many
from pausefl.studies.load import load_study, study_names
from pausefl.studies.measured.study import MeasuredStudy, write_rows
from pausefl.studies.study import Study

MEASURED = ["annealing", "complexity", "g-function", "regret"]
PAPER = [
    "large-cnn5", "large-mnist", "large-noniid-r1", "large-noniid-r2", "published-mnist", "small-iid-r1",
    "small-iid-r2", "small-noniid",
]  # fmt: skip
TRAINED = [*PAPER]


def trained(name: str) -> Study:
    study = load_study(name)
    assert isinstance(study, Study)
    return study


def measured(name: str) -> MeasuredStudy:
    study = load_study(name)
    assert isinstance(study, MeasuredStudy)
    return study


def test_the_papers_studies_are_all_there() -> None:
    assert study_names() == sorted(MEASURED + TRAINED)


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_studies_compare_its_policies(name: str) -> None:
    assert {"pause", "sa-pause", "fastest", "all", "all (no privacy)"} < set(trained(name).about.policies)


@pytest.mark.parametrize("name", TRAINED)
def test_every_study_runs_at_smoke_scale(name: str, tmp_path: Path) -> None:
    study = trained(name)
    tasks = study.tasks(tmp_path, "smoke")
    assert len(tasks) == len(study.about.policies) >= 2
    summaries = run_many(tasks)
    assert all(summary["rounds"] == 4 for summary in summaries)
    free = [s for s, p in zip(summaries, study.about.policies, strict=True) if "no privacy" in p]
    assert all(s["max_leakage"] is None for s in free)


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("scale", ["full", "half"])
def test_every_study_is_a_valid_configuration_at_every_scale(name: str, scale: str, tmp_path: Path) -> None:
    study = trained(name)
    tasks = study.tasks(tmp_path, scale)
    assert len(tasks) == study.about.seeds * len(study.about.policies)
    assert len({task.out for task in tasks}) == len(tasks)


@pytest.mark.parametrize("name", MEASURED)
def test_every_measured_study_runs_at_smoke_scale(name: str, tmp_path: Path) -> None:
    rows = write_rows(measured(name).measurement("smoke"), tmp_path)
    with (tmp_path / "rows.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert len(read) == len(rows) >= 4
    assert all(read[0][key] == str(value) for key, value in rows[0].items())
    for scale in ("full", "half"):
        measured(name).measurement(scale)


def test_rows_of_other_settings_are_not_overwritten(tmp_path: Path) -> None:
    write_rows(measured("g-function").measurement("full"), tmp_path)
    before = (tmp_path / "rows.csv").read_bytes()
    with pytest.raises(ConfigError, match="rows of other settings"):
        write_rows(measured("g-function").measurement("smoke"), tmp_path)
    assert (tmp_path / "rows.csv").read_bytes() == before


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
    summaries = run_many(trained(str(file)).tasks(tmp_path / "out", "full"))
    assert [s["policy"] for s in summaries] == ["pause", "pausefl.selection:Random"]


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
    example = Path(__file__).parents[1] / "examples" / "own_policy.toml"
    with pytest.raises(SystemExit) as stop:
        main(["study", str(example), "--scale", "smoke", "--jobs", "1", "--out", str(tmp_path)])
    assert not stop.value.code
    assert "own_policy:BetterHalf" in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text()
    assert "own_policy:BetterHalf" in page.split("<script")[0]


def test_one_run_under_two_names_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    tasks = trained("large-mnist").tasks(tmp_path, "smoke", overrides=["privacy.enabled=false"])
    with pytest.raises(ConfigError, match="would be one run; leave one out"):
        run_many(tasks)
    assert not any(tmp_path.iterdir())
