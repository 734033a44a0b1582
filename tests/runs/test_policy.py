"""The policy of a run: its options, and the trial of a class of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pausefl.cli import main
from pausefl.errors import InvalidValueError, PauseError, UserCodeError
from pausefl.runs.build import build
from pausefl.runs.config import ONE_RUN, Config, differences, make_config
from pausefl.runs.play import run
from pausefl.runs.policy import try_policy
from pausefl.runs.read_folder import read_run, stored_config
from pausefl.studies.load import load_study

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_policy.toml"
HEAD = "import pausefl\n\nclass Mine(pausefl.Policy):\n    name = 'mine'\n"
PICKS = HEAD + "    def pick(self, candidates):\n        return "
MADE_WITH = "    def __init__(self, {}):\n        {}\n"
PICK = "    def pick(self, candidates):\n        return list(range(candidates.m))\n"


def settings(policy: str, **options: object) -> Config:
    content = {"network": {"clients": 6}, "selection": {"policy": policy, "per_round": 2, "options": options}}
    return make_config({**content, "learning": {"enabled": False}, "run": {"rounds": 3}})


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest):
    """Write a module of the user's own, under a name that no other test uses; return its import path."""
    (tmp_path / "code").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> str:
        name = f"mine_{abs(hash(request.node.name))}"
        (tmp_path / "code" / f"{name}.py").write_text(text)
        return f"{name}:Mine"

    return write


@pytest.mark.parametrize(
    ("policy", "options", "said"),
    [
        ("pause", {"metric": "l1"}, "selection.options has 'metric', but policy 'pause' takes no options"),
        ("fastest", {"metric": "l1"}, "policy 'fastest' takes no options"),
        ("clustered-similarity", {"metrics": "l1"}, "takes metric; did you mean 'metric'?"),
        ("clustered-similarity", {"metric": "l3"}, "metric is 'l3', but must be 'angle', 'l2' or 'l1'"),
        ("sa-pause", {"kappa": 3.0}, "policy 'sa-pause' takes graph, restarts, start"),
        ("sa-pause", {"graph": "grey"}, "graph is 'grey'"),
        ("sa-pause", {"start": 3}, "start is 3, but must be 'random'"),
        ("sa-pause", {"restarts": "foo"}, "restarts is 'foo', but must be true or false"),
        ("sa-pause-as-published", {"steps": 3}, "takes no options"),
        ("puase", {}, "did you mean 'pause'?"),
    ],
)
def test_an_unknown_option_is_named_with_the_known_ones(policy: str, options: dict, said: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        build(settings(policy, **options))
    assert said in str(refused.value)


def test_options_are_part_of_a_run(tmp_path: Path) -> None:
    config = settings("sa-pause", graph="vanilla", restarts=False)
    run(config, tmp_path)
    assert stored_config(tmp_path) == config
    assert read_run(tmp_path).name == "sa-pause (graph=vanilla, restarts=False)"
    other = make_config(config.model_dump(exclude_none=True), ["selection.options.graph=tailored"])
    assert other.selection.options == {"graph": "tailored", "restarts": False}
    assert config.selection.options["graph"] == "vanilla"
    assert list(differences(config, other, ONE_RUN)) == ["selection.options"]


def test_options_reach_a_class_of_the_users_own(mine) -> None:
    path = mine(HEAD + MADE_WITH.format("first=0, *, count=1", "self.first, self.count = first, count") + PICK)
    policy = build(settings(path, first=3)).selector.policy
    assert (policy.first, policy.count) == (3, 1)
    with pytest.raises(
        InvalidValueError, match=r"has 'fisrt', but policy .* takes first, count; did you mean 'first'\?"
    ):
        build(settings(path, fisrt=3))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            PICKS + "candidates.nothing\n",
            "AttributeError: 'Candidates' object has no attribute 'nothing', at MINE:6); change its code",
        ),
        (PICKS + "1 / 0\n", "failed in pick() (ZeroDivisionError: division by zero, at MINE:6)"),
        (PICKS + "candidates.objective.solution([0, 1])\n", "returned a Solution, but must return positions"),
        (
            HEAD + PICK + "    def learn(self, rows, updates):\n        {}['a']\n",
            "failed in learn() (KeyError: 'a', at MINE:8)",
        ),
        (HEAD + PICK + "    def state(self):\n        {}['a']\n", "failed in state() (KeyError: 'a', at MINE:8)"),
        (
            HEAD + PICK + "    def state(self):\n        return {'x': None}\n",
            "returned 'x' = None, but must return arrays of numbers or text; change its state() at MINE:7",
        ),
        (
            HEAD + PICK + "    def state(self):\n        return {'x': [[1], [2, 3]]}\n",
            "failed in state() (ValueError: setting an array element with a sequence.",
        ),
        (HEAD + PICK + "    def state(self):\n        return 3\n", "no attribute 'items', at MINE:7); change its code"),
        (
            HEAD + PICK + "    def settings(self):\n        return {'x'}\n",
            "returned a set ({'x'}), but must return text; change its settings() at MINE:7",
        ),
        (HEAD + PICK + "    def settings(self):\n        return 1, 2\n", "returned a tuple ((1, 2)), but must return"),
        (HEAD + PICK + "    def settings(self):\n        1 / 0\n", "failed in settings() (ZeroDivisionError"),
        (
            HEAD + PICK + "    def restore(self, state):\n        state['x']\n",
            "failed in restore() (KeyError: 'x', at MINE:8)",
        ),
        (
            HEAD + "    size = 'lots'\n" + PICK,
            "has size 'lots', but must have 'exactly m', 'at most m' or 'all'; change it at MINE:3",
        ),
        (PICKS + "[0, 0]\n", "with m = 2; change its pick() at MINE:5"),
        ("raise SystemExit\n", "cannot be imported (SystemExit, at MINE:1)"),
        (HEAD + MADE_WITH.format("", "raise SystemExit") + PICK, "cannot be made (SystemExit, at MINE:6)"),
        (PICKS + "exit(0)\n", "failed in pick() (SystemExit: 0, at MINE:6)"),
        (HEAD + PICK + "    @property\n    def learns(self):\n        exit(0)\n", "failed in a trial (SystemExit"),
        (HEAD + MADE_WITH.format("a", "pass") + PICK, "cannot be made (TypeError: Mine.__init__() missing"),
        (
            HEAD + MADE_WITH.format("a=0", "[][a]") + PICK,
            "cannot be made (IndexError: list index out of range, at MINE:6)",
        ),
        (HEAD.replace("    name = 'mine'\n", "") + PICK, "has no name; set the class attribute name"),
        ("Mine = 3\n", "cannot be made (TypeError: 'int' object is not callable"),
        ("class Mine:\n    pass\n", "does not make a Policy; let it be a subclass"),
        ("def Mine(:\n", "cannot be imported (SyntaxError: invalid syntax, at MINE:1)"),
    ],
)
def test_a_faulty_class_is_refused_in_one_line_before_anything_is_trained(
    mine, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    path = mine(text)
    with pytest.raises(PauseError) as refused:
        try_policy(settings(path))
    number = path.removeprefix("mine_").removesuffix(":Mine")
    assert said.replace("MINE", f"code/mine_{number}.py") in str(refused.value)
    (tmp_path / "study.toml").write_text(
        f'[study]\ntitle = "T"\npolicies = ["random", "{path}"]\n[run]\nrounds = 2\n[network]\nclients = 6\n'
    )
    with pytest.raises(SystemExit) as stop:
        main(["study", str(tmp_path / "study.toml"), "--scale", "smoke", "--jobs", "1", "--out", str(tmp_path / "out")])
    assert stop.value.code == 2
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    assert len(shown.strip().splitlines()) == 2  # the announcement of own code, and the error
    assert not list((tmp_path / "out").rglob("metrics.jsonl"))


def test_a_trial_leaves_nothing_behind(mine) -> None:
    text = (
        HEAD
        + "    def __init__(self):\n        self.asked = 0\n"
        + PICK.replace("        return", "        self.asked += 1\n        return")
    )
    simulation = build(settings(mine(text)))
    assert simulation.selector.policy.asked == 0
    assert simulation.selector.rounds == 0


def test_an_exception_of_a_user_keeps_its_cause(mine) -> None:
    with pytest.raises(UserCodeError) as refused:
        try_policy(settings(mine(HEAD + "    def pick(self, candidates):\n        return 1 / 0\n")))
    assert isinstance(refused.value.__cause__, ZeroDivisionError)


def test_a_policy_cannot_change_its_run(mine) -> None:
    path = mine(HEAD + MADE_WITH.format("x", "x.append(len(x))") + PICK)
    config = settings(path, x=[7])
    build(config)
    assert config.selection.options == {"x": [7]}


def test_a_study_gives_options_to_the_policies_that_take_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    study = load_study(str(EXAMPLE))
    tasks = study.tasks(tmp_path, "smoke", overrides=["selection.options.speed_power=2.5"])
    found = {task.config.selection.policy: task.config.selection.options for task in tasks}
    assert found == {"pause": {}, "random": {}, "own_policy:BudgetTimesSpeed": {"speed_power": 2.5}}
    with pytest.raises(PauseError, match="has 'metric', but none of the policies takes it"):
        load_study("small-iid-r1").tasks(tmp_path, "smoke", overrides=["selection.options.metric=l1"])


def test_the_example_is_short_and_its_option_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole way, by the command line: two powers give two runs, each under its own name."""
    assert len(EXAMPLE.with_suffix(".py").read_text().splitlines()) <= 25
    name = "own_policy:BudgetTimesSpeed"
    choices = []
    for power in ("0.0", "3.0"):
        with pytest.raises(SystemExit) as stop:
            main([
                "study", str(EXAMPLE), "--scale", "smoke", "--jobs", "1", "--out", str(tmp_path / power),
                "--policy", name, "--set", f"selection.options.speed_power={power}", "--set", "run.rounds=12",
                "--set", "learning.enabled=false",
            ])  # fmt: skip
        assert not stop.value.code, capsys.readouterr().err
        (played,) = (read_run(path.parent) for path in (tmp_path / power).rglob("metrics.jsonl"))
        assert played.name == f"budget-times-speed (speed_power={power})"  # what the class calls itself
        choices.append([record["members"] for record in played.records])
    assert choices[0] != choices[1]
    assert choices[0][:4] == choices[1][:4]  # everybody once, before any speed is known


def test_a_class_of_ones_own_goes_by_its_name_unless_it_is_one_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named.py").write_text(
        "from pausefl.selection import Random\n"
        "class Mine(Random):\n    name = 'my\\nown'\n"
        "class Plain(Random):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for kind, title in (("Mine", "my own"), ("Plain", "named:Plain")):
        content = {"selection": {"policy": f"named:{kind}", "per_round": 2}, "learning": {"enabled": False},
                   "network": {"clients": 4}, "run": {"rounds": 2}, "privacy": {"enabled": False}}  # fmt: skip
        played = run(make_config(content), tmp_path / kind)
        assert played.name == read_run(tmp_path / kind).name == f"{title} (no privacy)"
