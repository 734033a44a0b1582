"""Runs as one table: a row per run and round, with the numbers of the runs themselves."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pausefl.errors import ConfigError, MissingExtraError
from pausefl.runs import read_runs
from pausefl.runs.config import make_config
from pausefl.runs.play import run
from pausefl.runs.read_folder import read_run


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study")
    for policy, more in (("pause", {}), ("random", {"privacy": {"enabled": False}})):
        for seed in (3, 4):
            content = {
                "network": {"clients": 6}, "selection": {"policy": policy, "per_round": 2}, "data": {"train_size": 60},
                "run": {"rounds": 5, "seed": seed, "evaluate_every": 2}, **more,
            }  # fmt: skip
            run(make_config(content), out / policy / f"seed-{seed}")
    return out


def test_there_is_a_row_per_run_and_round_with_the_runs_own_numbers(study: Path) -> None:
    table = read_runs(study)
    assert len(table) == 2 * 2 * 5
    assert sorted(set(table.policy)) == ["pause", "random (no privacy)"]
    for folder, rows in table.groupby("folder"):
        one = read_run(Path(folder))
        assert set(rows.seed) == {one.settings.run.seed}
        assert rows["round"].tolist() == [1, 2, 3, 4, 5]
        for name in ("seconds", "latency", "accuracy", "loss", "max_leakage", "median_leakage", "p90_leakage"):
            np.testing.assert_array_equal(rows[name], one.column(name))
        np.testing.assert_array_equal(rows.smoothed_accuracy, one.series("accuracy"))
        np.testing.assert_array_equal(rows.term_privacy, one.column("terms.privacy"))
        assert set(rows.members) == {2}
    assert table.accuracy.isna().sum() == 2 * 2 * 2  # measured in rounds 2, 4 and 5
    assert table.max_leakage.isna().sum() == 2 * 5


def test_folders_are_joined_and_damage_is_refused(study: Path, tmp_path: Path) -> None:
    one, two = study / "pause" / "seed-3", study / "random" / "seed-4"
    assert len(read_runs([str(one), two])) == 10
    assert len(read_runs(str(one))) == 5
    with pytest.raises(ConfigError, match="holds no run"):
        read_runs(tmp_path)


def test_without_pandas_the_extra_is_named(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pausefl\[report\]'"):
        read_runs(study)


def test_pandas_is_loaded_only_when_a_table_is_read() -> None:
    code = "import sys, pausefl.runs; from pausefl.runs import read_runs; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
