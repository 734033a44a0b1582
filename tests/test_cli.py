import csv
import json
import re
import sys
from pathlib import Path

import pytest

from pausefl import __version__
from pausefl.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version")[:2] == (0, f"pausefl {__version__}\n")
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "demo" in out
    assert "regret" in out


def test_demo(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = run(capsys, "demo", "--rounds", "4", "--jobs", "1", "--out", str(tmp_path / "demo"))
    assert (code, err) == (0, "")
    for policy in ("pause", "sa-pause", "random", "all", "fastest", "clustered", "no privacy"):
        assert policy in out
    assert "per coordinate" in out
    page = (tmp_path / "demo" / "report.html").read_text()
    assert "whole update" in page
    assert "http://" not in page.split("<script")[0]


def test_run_compare_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[run]\nrounds = 3\n")
    where = str(tmp_path / "out")
    arguments = ("run", str(tmp_path / "a.toml"), "--out", where, "--seeds", "2", "--jobs", "2", "--tensorboard")
    code, out, _ = run(capsys, *arguments, "--set", "selection.policy=random")
    assert code == 0
    assert re.search(r"random\s*│\s*2 │\s*3", out)  # seeds, rounds
    assert list((tmp_path / "out" / "seed-0" / "tensorboard").iterdir())
    code, out, _ = run(capsys, "compare", f"{where}/seed-0", f"{where}/seed-1", "--target", "20")
    assert code == 0
    assert "s to 20 %" in out
    code, out, _ = run(capsys, "report", where, "--out", str(tmp_path / "r.html"))
    assert code == 0
    assert (tmp_path / "r.html").stat().st_size > 500_000


def test_data_list(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "data", "list", "--data-dir", str(tmp_path))
    assert code == 0
    assert "pausefl data fetch cifar10" in out


def test_regret_as_a_table_and_as_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "regret", "--rounds", "40", "--seeds", "2", "--clients", "8", "--per-round", "2",
                       "--out", str(tmp_path / "new"))  # fmt: skip
    assert code == 0
    assert "bound" in out
    rows = list(csv.DictReader((tmp_path / "new" / "regret.csv").read_text().splitlines()))
    assert int(rows[-1]["rounds"]) == 40
    assert 0.0 < float(rows[-1]["mean"]) < float(rows[-1]["bound"])
    assert (tmp_path / "new" / "regret.svg").read_text().lstrip().startswith("<svg")
    assert (tmp_path / "new" / "regret.png").read_bytes().startswith(b"\x89PNG")


def test_regret_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "regret", "--rounds", "20", "--seeds", "1", "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert answer["rows"][-1]["rounds"] == 20
    assert answer["settings"]["policy"] == "pause"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["regret", "--clients", "1"], "clients is 1"),
        (["regret", "--per-round", "31"], "per_round is 31, but only 30 clients"),
        (["regret", "--policy", "puase"], "did you mean 'pause'"),
        (["regret", "--rounds", "1"], "rounds is 1"),
        (["regret", "--policy", "all", "--rounds", "5"], "exactly m"),
        (["regret", "--out", __file__], "--out is"),
        (["regret", "--seeds", "0"], "seeds is 0"),
        (["regret", "--rounds", "many"], "many"),
        (["demo", "--rounds", "0"], "rounds is 0"),
        (["run", "nowhere.toml", "--out", "x"], "nowhere.toml does not exist"),
        (["run", __file__, "--out", "x"], "is no TOML file"),
        (["compare", "nowhere"], "holds no run"),
        (["report", "nowhere"], "holds no run"),
        (["data", "fetch", "minst"], "data set is 'minst'"),
        (["frobnicate"], "frobnicate"),
        (["demo", "--colour"], "--colour"),
    ],
)
def test_refusals_are_one_line_and_exit_2(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert words in err
    assert err.startswith("pausefl: ")
    assert err.count("\n") == 1


def test_a_strangers_configuration_brings_no_code_unasked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that shadow what pausefl imports lie beside it, and are not run; a module it names is, and that is said."""
    monkeypatch.setattr("sys.path", list(sys.path))
    for name in ("altair", "vl_convert", "pooch", "sklearn", "tomllib"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('run unasked')")
    (tmp_path / "plain.toml").write_text("[run]\nrounds = 1\n")
    code, _, err = run(capsys, "run", str(tmp_path / "plain.toml"), "--out", str(tmp_path / "a"))
    assert (code, err) == (0, "")
    (tmp_path / "polite_policy.py").write_text("from pausefl.selection import Random as Mine\n")
    (tmp_path / "named.toml").write_text('[selection]\npolicy = "polite_policy:Mine"\n[run]\nrounds = 1\n')
    code, _, err = run(capsys, "run", str(tmp_path / "named.toml"), "--out", str(tmp_path / "b"))
    assert code == 0
    assert err == "pausefl: this configuration runs code of its own: polite_policy:Mine\n"
