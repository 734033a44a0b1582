"""A repetition is compared with what was published, round by round."""

import json
from pathlib import Path
from typing import Any

import pytest

from pausefl.cli import main
from pausefl.errors import ConfigError
from pausefl.runs.config import make_config
from pausefl.runs.play import run
from pausefl.runs.read_folder import read_runs
from pausefl.runs.repetition import Repetitions, repetitions
from pausefl.runs.small_copies import keep


def play(folder: Path, seed: int, rounds: int = 6, **sections: Any) -> None:
    run(make_config({"run": {"rounds": rounds, "seed": seed, "evaluate_every": 2}, **sections}), folder / f"s{seed}")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    for seed in (0, 1):
        play(folder / "runs", seed)
    keep([folder / "runs"], folder / "results")
    return folder / "results"


def compared(published: Path, mine: Path) -> Repetitions:
    return repetitions(read_runs([published]), read_runs([mine]))


def with_other_numbers(folder: Path, **numbers: Any) -> None:
    """Change what the fourth round of a run says."""
    file = folder / "metrics.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines[3] |= numbers
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_same_command_gives_the_same_bits_also_where_only_the_first_rounds_are_repeated(
    published: Path, tmp_path: Path
) -> None:
    play(tmp_path, 1, rounds=5)  # its last round is scored, which the published run does not do in round 5
    found = compared(published, tmp_path)
    (pair,) = found.pairs
    assert (pair.seed, pair.rounds, pair.exact, pair.differs_from, pair.points, pair.versions) == (
        1, 5, True, None, 0.0, {},
    )  # fmt: skip
    assert str(pair) == "the same to the bit"
    assert found.not_repeated == ["pause, seed 0"]


def test_other_accuracies_and_other_choices_are_told_apart(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (0, 1):
        play(tmp_path, seed)
    score = read_runs([published])[0].records[3]["accuracy"]
    with_other_numbers(tmp_path / "s0", accuracy=score + 3.0)
    with_other_numbers(tmp_path / "s1", members=[0, 1, 2, 3, 4])
    near, other = compared(published, tmp_path).pairs
    assert (near.exact, near.differs_from, near.points, near.final_points) == (False, None, 3.0, pytest.approx(1.0))
    assert [near.agrees(limit) for limit in (0.0, 0.9, 1.1)] == [False, False, True]
    assert (other.exact, other.differs_from) == (False, 4)
    assert not other.agrees(100.0)
    for arguments, code, words in (
        ([], 1, "0 of 2 repeated runs agree"),
        (["--within", "1.1"], 1, "1 of 2 repeated runs agree"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["paper", "check", str(published), str(tmp_path), *arguments])
        assert stop.value.code == code
        assert words in (said := capsys.readouterr().out)
        assert "pause, seed 1, 6 rounds: another run from round 4 on" in said
        assert "accuracy differs by up to 3.00 points, at the end by 1.00" in said


def test_versions_that_differ_are_named(published: Path, tmp_path: Path) -> None:
    play(tmp_path, 0)
    file = tmp_path / "s0" / "summary.json"
    summary = json.loads(file.read_text())
    assert {"Python", "pausefl", "numpy", "torch"} <= summary["versions"].keys()
    summary["versions"]["torch"] = "1.0\x1b[2J"
    file.write_text(json.dumps(summary))
    (pair,) = compared(published, tmp_path).pairs
    assert list(pair.versions) == ["torch"]
    assert "\x1b" not in pair.versions["torch"][1]
    summary["versions"] = 3  # from somebody else
    file.write_text(json.dumps(summary))
    assert compared(published, tmp_path).pairs[0].versions == {}


def test_a_run_that_repeats_nothing_is_refused(published: Path, tmp_path: Path) -> None:
    play(tmp_path, 0, privacy={"budget": 41.0})
    with pytest.raises(ConfigError, match=r"repeats none .*\(privacy.budget = 40.0 there, 41.0 here\)"):
        compared(published, tmp_path)
