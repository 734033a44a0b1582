"""A run is parsed once at most, whatever is made of it; and reading runs needs neither training nor selection."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pausefl.cli import main
from pausefl.runs.config import make_config
from pausefl.runs.play import run
from pausefl.runs.read_folder import read_run

HEAVY = {"numba", "torch", "sqlite3", "sklearn", "flwr", "altair"}


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> Counter:
    """How often each round of a run was parsed in this process."""
    counted: Counter = Counter()
    real = json.loads

    def loads(text: str, **options: object) -> object:
        found = real(text, **options)
        if isinstance(found, dict) and "round" in found:
            counted[found["round"]] += 1
        return found

    monkeypatch.setattr(json, "loads", loads)
    return counted


def command(*arguments: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    assert not stop.value.code


@pytest.mark.parametrize("more", [(), ("--json",), ("--tensorboard",), ("--seeds", "2", "--jobs", "2")])
def test_fresh_resumed_and_finished_runs_are_parsed_once_at_most(
    tmp_path: Path, parses: Counter, more: tuple[str, ...]
) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[learning]\nenabled = false\n[run]\nrounds = 6\ncheckpoint_every = 2\n")
    again = ("run", str(file), "--out", str(tmp_path / "out"), *more)
    command(*again)
    assert parses == {}
    if "--jobs" in more:  # parsed by the processes that go on with them, once as below, and handed over
        return
    command(*again, "--set", "run.rounds=8")
    assert parses == dict.fromkeys(range(1, 7), 1)
    parses.clear()
    command(*again, "--set", "run.rounds=8")
    assert parses == dict.fromkeys(range(1, 9), 1)


def test_several_policies_are_parsed_once_by_compare(tmp_path: Path, parses: Counter) -> None:
    for policy in ("pause", "random"):
        run(make_config({"learning": {"enabled": False}, "run": {"rounds": 2}}, [f"selection.policy={policy}"]),
            tmp_path / policy)  # fmt: skip
    command("compare", str(tmp_path))
    assert parses == {1: 2, 2: 2}


def test_what_a_run_returns_is_what_its_folder_says(tmp_path: Path) -> None:
    config = make_config({"network": {"clients": 6, "dropout": 0.2}, "selection": {"per_round": 2},
                          "run": {"rounds": 5, "evaluate_every": 2}})  # fmt: skip
    fresh = run(config, tmp_path)
    assert fresh == read_run(tmp_path) == run(config, tmp_path)
    assert fresh.folder == tmp_path


@pytest.mark.parametrize("arguments", [["compare", "{run}"], ["compare", "{run}", "--json"]])
def test_reading_runs_loads_no_training_no_selection_and_no_database(tmp_path: Path, arguments: list[str]) -> None:
    run(make_config({"learning": {"enabled": False}, "run": {"rounds": 2}}), tmp_path)
    code = (
        "import sys\nfrom pausefl.cli import main\n"
        f"try:\n    main({[word.format(run=tmp_path) for word in arguments]!r})\n"
        "finally:\n    print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY.intersection(done.stderr.split())
    assert "pausefl.runs.read_folder" in done.stderr.split()
