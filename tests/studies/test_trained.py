"""Every study of training of the paper runs at smoke scale, and a copy of one can be changed."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from pausefl.cli import main
from pausefl.errors import ConfigError, PauseError
from pausefl.runs.parallel import Task, run_many
from pausefl.runs.run_data import RunData
from pausefl.studies.load import load_study, names_beyond_the_paper, study_names
from pausefl.studies.measured import KINDS
from pausefl.studies.study import Order
from pausefl.studies.trained import TrainedStudy

BEYOND = ["chem97", "never-collapse", "whole-update", "whole-update-noniid"]
PAPER = [
    "large-cnn5", "large-mnist", "large-noniid-r1", "large-noniid-r2", "published-cifar", "published-mnist",
    "small-iid-r1", "small-iid-r2", "small-noniid",
]  # fmt: skip


def trained(name: str) -> TrainedStudy:
    study = load_study(name)
    assert isinstance(study, TrainedStudy)
    return study


def test_the_papers_studies_are_all_there() -> None:
    assert study_names() == sorted([*KINDS, *PAPER, *BEYOND, "plan-verdicts"])
    assert names_beyond_the_paper() == sorted(
        [*BEYOND, "auto-published", "budgets", "field", "plan-verdicts", "units", "weights"]
    )


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_studies_compare_its_policies(name: str) -> None:
    assert {"pause", "sa-pause", "fastest", "all", "all (no privacy)"} < set(trained(name).about.policies)


@pytest.mark.parametrize("name", [*PAPER, *BEYOND])
def test_every_study_runs_at_smoke_scale(name: str, tmp_path: Path) -> None:
    study = trained(name)
    tasks = study.tasks(tmp_path, "smoke")
    assert len(tasks) == len(study.about.policies) >= 2
    runs = run_many(tasks)
    assert all(run.summary["rounds"] == 4 for run in runs)
    free = [run for run, p in zip(runs, study.about.policies, strict=True) if "no privacy" in p]
    assert all(run.summary["max_leakage"] is None for run in free)


@pytest.mark.parametrize("name", [*PAPER, *BEYOND])
@pytest.mark.parametrize("scale", ["full", "half"])
def test_every_study_is_a_valid_configuration_at_every_scale(name: str, scale: str, tmp_path: Path) -> None:
    study = trained(name)
    tasks = study.tasks(tmp_path, scale)
    assert len(tasks) == study.about.seeds * len(study.about.policies)
    assert len({task.out for task in tasks}) == len(tasks)


@pytest.mark.parametrize(
    ("policy", "overrides", "words"),
    [
        ("all (without privacy)", [], "'(rehearsed)' or '(OPTION=VALUE)' may follow"),
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


def own_study(tmp_path: Path, policies: str, more: str = "") -> TrainedStudy:
    file = tmp_path / "mine.toml"
    file.write_text(f'[study]\ntitle = "mine"\npolicies = [{policies}]\n[run]\nrounds = 2\n{more}')
    return trained(str(file))


def test_an_option_may_have_several_values_in_one_study(tmp_path: Path) -> None:
    study = own_study(
        tmp_path,
        '"rpow-d (d=4)", "rpow-d (d=6) (no privacy)", "oort (exploration=0.5, least_exploration=0.1)", "pause"',
    )
    tasks = study.tasks(tmp_path / "out", "full")
    assert [(t.config.selection.policy, t.config.selection.options, t.config.privacy.enabled) for t in tasks] == [
        ("rpow-d", {"d": 4}, True),
        ("rpow-d", {"d": 6}, False),
        ("oort", {"exploration": 0.5, "least_exploration": 0.1}, True),
        ("pause", {}, True),
    ]
    assert [t.config.title for t in tasks] == list(study.about.policies)  # one name, in the file and in every table
    assert len({t.out for t in tasks}) == 4
    both = study.tasks(tmp_path / "out", "full", policies=["rpow-d"])  # the name alone: all of its entries
    assert [t.config.selection.options for t in both] == [{"d": 4}, {"d": 6}]
    one = study.tasks(tmp_path / "out", "full", policies=["rpow-d (d=4)"])
    assert [t.config.selection.options for t in one] == [{"d": 4}]


def test_the_options_of_an_entry_outrank_those_of_the_file_and_of_the_command(tmp_path: Path) -> None:
    study = own_study(tmp_path, '"rpow-d", "rpow-d (d=6)"', "[selection.options]\nd = 3\n")
    for overrides, expected in (([], [3, 6]), (["selection.options.d=2"], [2, 6])):
        tasks = study.tasks(tmp_path / "out", "full", overrides=overrides)
        assert [t.config.selection.options["d"] for t in tasks] == expected


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ('"pause (power=2)"', "selection.options has 'power', but policy 'pause (power=2)' takes"),
        ('"pause", "rpow-d (dd=2)"', "did you mean 'd'?"),
        ('"pause (", "random"', "policy is 'pause ('"),
        ('"pause", "pause"', "2 policies of mine would share"),
    ],
)
def test_entries_that_cannot_be_meant_are_refused(policies: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(PauseError) as refused:
        own_study(tmp_path, policies).tasks(tmp_path / "out", "full")
    assert words in str(refused.value)


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
        ("nonsense", "is not valid TOML"),
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
    assert "budget-times-speed" in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text()
    assert "budget-times-speed" in page.split("<script")[0]


def test_natural_clients_become_dealt_out_ones_at_smoke_scale(tmp_path: Path) -> None:
    """The digits, which a trial in small takes, have no natural clients."""
    file = tmp_path / "natural.toml"
    file.write_text(
        '[study]\ntitle = "x"\npolicies = ["random"]\n[data]\nname = "chem97"\npartition = "natural"\n'
        "[network]\nclients = 131\n"
    )
    study = load_study(str(file))
    assert isinstance(study, TrainedStudy)
    assert study.config("random", 0, "full").data.partition == "natural"
    [task] = study.tasks(tmp_path / "out", "smoke")
    assert task.config.data.partition == "iid"
    run_many([task])


def test_one_run_under_two_names_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    tasks = trained("large-mnist").tasks(tmp_path, "smoke", overrides=["privacy.enabled=false"])
    with pytest.raises(ConfigError, match="would be the same run; leave one of them out"):
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


TWO = """import pausefl

class P(pausefl.Policy):
    name = "p"
    def __init__(self, x=0): pass
    def pick(self, candidates): return list(range(candidates.m))

class Q(P):
    name = "q"
    def __init__(self, y=0): pass
"""


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainedStudy:
    """A study of two classes of the user's own, each with an option."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "two_options.py").write_text(TWO)
    (tmp_path / "st.toml").write_text(
        '[study]\ntitle = "T"\npolicies = ["random", "two_options:P", "two_options:Q"]\n'
        "[selection.options]\nx = 1\ny = 2\n[learning]\nenabled = false\n"
    )
    return trained(str(tmp_path / "st.toml"))


@pytest.mark.parametrize(
    ("overrides", "policies", "wanted"),
    [
        ([], [], [{}, {"x": 1}, {"y": 2}]),
        ([], ["random"], [{}]),
        ([], ["two_options:Q"], [{"y": 2}]),
        (["selection.options={y=4}"], [], [{}, {}, {"y": 4}]),
        (["selection.options.x=5"], [], [{}, {"x": 5}, {"y": 2}]),
    ],
)
def test_each_policy_gets_the_options_that_it_takes(
    two: TrainedStudy, tmp_path: Path, overrides: list[str], policies: list[str], wanted: list[dict]
) -> None:
    tasks = two.tasks(tmp_path / "out", "smoke", overrides=overrides, policies=policies)
    assert [task.config.selection.options for task in tasks] == wanted


@pytest.mark.parametrize("override", ["selection.options.z=1", "selection.options={y=4, z=1}"])
@pytest.mark.parametrize("policies", [[], ["random"]])
def test_an_option_that_no_policy_takes_is_refused(
    two: TrainedStudy, tmp_path: Path, override: str, policies: list[str]
) -> None:
    with pytest.raises(ConfigError, match=r"selection\.options has 'z', but none of the policies takes it"):
        two.tasks(tmp_path / "out", "smoke", overrides=[override], policies=policies)


def test_an_option_that_the_only_policy_does_not_take_cannot_be_tuned(
    two: TrainedStudy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["tune", str(tmp_path / "st.toml"), "--vary", "selection.options.x=1,2", "--out", str(tmp_path / "out")])
    assert stop.value.code == 2
    assert "selection.options has 'x', but policy 'random' takes no options" in capsys.readouterr().err
    assert two.config("two_options:P", 0, "smoke", ["selection.options.x=3"]).selection.options == {"x": 3}


def test_options_reach_classes_beside_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "beside_options.py").write_text(TWO)
    (tmp_path / "st.toml").write_text(
        '[study]\ntitle = "T"\npolicies = ["random", "beside_options:P"]\n[selection.options]\nx = 1\n'
        "[learning]\nenabled = false\n"
    )
    common = ["--scale", "smoke", "--jobs", "1", "--out"]
    for call in (
        ["study", str(tmp_path / "st.toml"), *common, str(tmp_path / "out")],
        ["tune", str(tmp_path / "st.toml"), "--vary", "selection.options.x=1,2", "--policy", "beside_options:P",
         *common, str(tmp_path / "tuned")],
    ):  # fmt: skip
        with pytest.raises(SystemExit) as stop:
            main(call)
        shown = capsys.readouterr().err
        assert not stop.value.code, shown
        assert shown.count("runs code of its own: beside_options:P") == 1
