"""Code of one's own is a part of a run: another version of it makes another run."""

import json
import re
import sys
from pathlib import Path
from shutil import rmtree

import pytest

from pausefl.cli import main
from pausefl.errors import ConfigError
from pausefl.report.policy_summary import by_policy
from pausefl.runs.config import make_config
from pausefl.runs.parallel import Task, run_many
from pausefl.runs.play import run
from pausefl.runs.read_folder import read_run, read_runs
from pausefl.runs.small_copies import keep
from pausefl.studies.evidence import gather

POLICY = "import beside_helper\nfrom pausefl.selection import Random\n\n\nclass Mine(Random):\n    pass\n"
SMALL = {"network": {"clients": 6}, "selection": {"per_round": 2, "policy": "beside_policy:Mine"},
         "learning": {"enabled": False}, "run": {"rounds": 2}}  # fmt: skip


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "beside_policy.py").write_text(POLICY)
    (tmp_path / "beside_helper.py").write_text("import json\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("beside_policy", "beside_helper"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_the_hashes_lie_in_the_folder_and_the_same_code_goes_on(beside: Path) -> None:
    run(make_config(SMALL), beside / "run")
    noted = json.loads((beside / "run" / "code.json").read_text())
    assert list(noted) == ["beside_helper.py", "beside_policy.py"]
    assert run(make_config(SMALL, ["run.rounds=4"]), beside / "run").summary["rounds"] == 4
    [copy] = keep([beside / "run"], beside / "small")
    assert json.loads((copy / "code.json").read_text()) == noted


@pytest.mark.parametrize("rounds", [2, 4])
@pytest.mark.parametrize("file", ["beside_policy.py", "beside_helper.py"])
def test_a_changed_file_is_refused_by_its_name_whether_the_run_is_finished_or_not(
    beside: Path, file: str, rounds: int
) -> None:
    run(make_config(SMALL), beside / "run")
    before = {path.name: path.read_bytes() for path in (beside / "run").iterdir()}
    with (beside / file).open("a") as source:
        source.write("# another\n")
    config = make_config(SMALL, [f"run.rounds={rounds}"])
    for again in (lambda: run(config, beside / "run"), lambda: run_many([Task(config, beside / "run")])):
        with pytest.raises(ConfigError, match=rf"{file} has changed since .*run .*--out"):
            again()
    assert {path.name: path.read_bytes() for path in (beside / "run").iterdir()} == before
    run(config, beside / "elsewhere")


def test_runs_of_two_versions_are_two_rows_and_no_seeds_of_one_study(beside: Path) -> None:
    for number, seed in enumerate((0, 1, 1)):
        if number == 2:
            with (beside / "beside_helper.py").open("a") as source:
                source.write("# another\n")
        place = beside / "all" / "study" / f"{number}" / "run"
        assert run(make_config(SMALL, [f"run.seed={seed}"]), place) == read_run(place)
    groups = by_policy(read_runs([beside / "all"]))
    assert sorted(map(len, groups.values())) == [1, 2]
    assert all(re.fullmatch(r"beside_policy:Mine \(code [0-9a-f]{8}\)", name) for name in groups)
    keep([beside / "all" / "study" / "1" / "run"], beside / "small")
    with pytest.raises(ConfigError, match="a copy of a run with other versions of your own code"):
        keep([beside / "all" / "study" / "2" / "run"], beside / "small")
    rmtree(beside / "all" / "study" / "1")
    with pytest.raises(ConfigError, match="study: beside_policy:Mine was played with different code in"):
        gather(beside / "all")


def test_hashes_alone_are_no_run(beside: Path) -> None:
    """Where a run was killed before its configuration was written, nothing has been played."""
    (beside / "run").mkdir()
    (beside / "run" / "code.json").write_text('{"beside_policy.py": "another"}')
    run_many([Task(make_config(SMALL), beside / "run")])
    assert run(make_config(SMALL), beside / "run").summary["rounds"] == 2


def test_a_file_that_is_gone_has_changed(beside: Path) -> None:
    run(make_config(SMALL), beside / "run")
    (beside / "beside_helper.py").unlink()
    with pytest.raises(ConfigError, match=r"beside_helper\.py has changed"):
        run(make_config(SMALL), beside / "run")


def test_runs_of_before_and_runs_without_such_code_are_taken_as_they_are(beside: Path) -> None:
    run(make_config(SMALL), beside / "old")
    (beside / "old" / "code.json").unlink()
    with (beside / "beside_policy.py").open("a") as source:
        source.write("# another\n")
    run(make_config(SMALL, ["run.rounds=4"]), beside / "old")
    for policy in ("random", "pausefl.selection:Random"):
        run(make_config(SMALL, [f"selection.policy={policy}"]), beside / policy)
        assert not (beside / policy / "code.json").exists()


def test_another_configuration_is_told_before_another_code(beside: Path) -> None:
    run(make_config(SMALL), beside / "run")
    with pytest.raises(ConfigError, match="holds a run of another configuration"):
        run_many([Task(make_config(SMALL, ["selection.policy=random"]), beside / "run")])


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"beside_policy.py": 3}'])
def test_damaged_hashes_are_told(beside: Path, content: str) -> None:
    run(make_config(SMALL), beside / "run")
    (beside / "run" / "code.json").write_text(content)
    with pytest.raises(ConfigError, match=r"code\.json is damaged"):
        run(make_config(SMALL), beside / "run")


def test_a_study_says_so_in_one_line(beside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (beside / "mine.toml").write_text(
        '[study]\ntitle = "mine"\npolicies = ["random", "beside_policy:Mine"]\n[learning]\nenabled = false\n'
    )
    for code in (0, 2):
        with pytest.raises(SystemExit) as stop:
            main(["study", str(beside / "mine.toml"), "--scale", "smoke", "--jobs", "1", "--out", str(beside / "out")])
        assert (stop.value.code or 0) == code
        (beside / "beside_policy.py").write_text(POLICY + "\n# another\n")
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith("pausefl: beside_policy.py has changed since ")
