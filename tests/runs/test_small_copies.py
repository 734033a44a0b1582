"""What is kept of a run says the same as the run."""

from pathlib import Path

import pytest

from pausefl.errors import ConfigError
from pausefl.runs.config import make_config
from pausefl.runs.play import run
from pausefl.runs.read_folder import read_runs
from pausefl.runs.small_copies import keep


def test_a_kept_run_reads_like_the_run(tmp_path: Path) -> None:
    for seed in (0, 1):
        run(make_config({"run": {"rounds": 3, "seed": seed}}), tmp_path / "runs" / "pause" / f"seed-{seed}")
    kept = keep([tmp_path / "runs"], tmp_path / "small")
    assert kept == [tmp_path / "small" / "pause" / f"seed-{seed}" for seed in (0, 1)]
    assert read_runs([tmp_path / "small"]) == read_runs([tmp_path / "runs"])
    assert {p.name for p in kept[0].iterdir()} == {"config.toml", "summary.json", "metrics.jsonl.gz"}
    before = (kept[0] / "metrics.jsonl.gz").read_bytes()
    keep([tmp_path / "small"], tmp_path / "again")
    keep([tmp_path / "runs"], tmp_path / "small")
    assert (kept[0] / "metrics.jsonl.gz").read_bytes() == before
    assert read_runs([tmp_path / "again"]) == read_runs([tmp_path / "runs"])


def test_damaged_and_missing_runs_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no run"):
        keep([tmp_path], tmp_path / "out")
    run(make_config({"run": {"rounds": 1}, "learning": {"enabled": False}}), tmp_path / "run")
    (small,) = keep([tmp_path / "run"], tmp_path / "small")
    packed = small / "metrics.jsonl.gz"
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(ConfigError, match="holds a damaged run"):
        read_runs([tmp_path / "small"])


def test_two_runs_for_one_place_are_refused_and_old_summaries_go(tmp_path: Path) -> None:
    config = make_config({"run": {"rounds": 1}, "learning": {"enabled": False}})
    for name in ("one", "two"):
        run(config, tmp_path / name / "pause" / "seed-0")
    with pytest.raises(ConfigError, match="would hold two of these runs"):
        keep([tmp_path / "one", tmp_path / "two"], tmp_path / "small")
    keep([tmp_path / "one"], tmp_path / "small")
    with pytest.raises(ConfigError, match="holds these runs already"):
        keep([tmp_path / "small"], tmp_path / "small")
    (tmp_path / "one" / "pause" / "seed-0" / "summary.json").unlink()
    (kept,) = keep([tmp_path / "one"], tmp_path / "small")
    assert not (kept / "summary.json").exists()


def test_a_copy_never_takes_the_place_of_a_run_or_of_another_copy(tmp_path: Path) -> None:
    for budget in (40, 50):
        config = make_config({"run": {"rounds": 2}, "learning": {"enabled": False}, "privacy": {"budget": budget}})
        run(config, tmp_path / str(budget) / "pause" / "seed-0")
    before = read_runs([tmp_path / "50"])
    with pytest.raises(ConfigError, match="holds a run, not a copy"):
        keep([tmp_path / "40"], tmp_path / "50")
    assert read_runs([tmp_path / "50"]) == before
    keep([tmp_path / "40"], tmp_path / "small")
    kept = read_runs([tmp_path / "small"])
    with pytest.raises(ConfigError, match=r"privacy.budget = 40.0 there, 50.0 here"):
        keep([tmp_path / "50"], tmp_path / "small")
    assert read_runs([tmp_path / "small"]) == kept


def test_a_copy_is_not_replaced_by_a_shorter_one(tmp_path: Path) -> None:
    for rounds in (3, 2):
        config = make_config({"run": {"rounds": rounds}, "learning": {"enabled": False}})
        run(config, tmp_path / str(rounds) / "pause" / "seed-0")
    keep([tmp_path / "3"], tmp_path / "small")
    with pytest.raises(ConfigError, match=r"holds a copy with 3 rounds, but .* has 2"):
        keep([tmp_path / "2"], tmp_path / "small")
    (kept,) = read_runs([tmp_path / "small"])
    assert len(kept.records) == 3
