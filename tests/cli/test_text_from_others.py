"""What others wrote into a run's folder or a study is shown by every command, and never obeyed."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from pausefl.cli import main
from pausefl.report.paired_differences import PairedDifference
from pausefl.report.report_files import write_page
from pausefl.report.run_report import run_report
from pausefl.report.table_formats import paired_csv
from pausefl.runs.config import make_config
from pausefl.runs.play import run
from pausefl.runs.read_folder import read_runs

ODD = [
    "pause[/bold]", "[red]pause", ":smile: [link=file:///x]", "a\x1b]0;owned\x07\x1b[2Jpause",
    "a\rguarantee: epsilon = 0",
    "a\nb", "a\u2028b\u2029c", "\u202eesuap", "a\x9b2Jb",
]  # fmt: skip
CONTENT = {
    "learning": {"enabled": False}, "network": {"clients": 6}, "selection": {"policy": "random", "per_round": 2},
    "run": {"rounds": 3},
}  # fmt: skip


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    run(make_config(CONTENT), out)
    return out


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def is_plain(text: str) -> bool:
    return all(letter.isprintable() or letter == "\n" for letter in text)


@pytest.fixture
def changed(played: Path, tmp_path: Path):
    """Return the folder of a run of which others say what they like."""

    def change(**said: str) -> Path:
        folder = tmp_path / "run"
        shutil.copytree(played, folder, dirs_exist_ok=True)
        summary = json.loads((folder / "summary.json").read_text())
        (folder / "summary.json").write_text(json.dumps(summary | said))
        return folder

    return change


@pytest.mark.parametrize("odd", ODD)
def test_a_run_is_compared_whatever_it_is_called(changed, odd: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = changed(name=odd, guarantee=f"epsilon = 40{odd}")
    code, out, err = told(capsys, "compare", str(folder))
    assert (code, err) == (0, "") and is_plain(out)
    assert out.count("\nguarantee: ") == 1
    for word in re.findall(r"\[/?\w+\]", odd):
        assert word in out.replace("│\n│", ""), "markup is shown"
    for form in ("csv", "latex"):
        code, out, _ = told(capsys, "compare", str(folder), "--format", form)
        assert code == 0 and is_plain(out)


@pytest.mark.parametrize("odd", ODD)
def test_the_report_of_a_run_is_written_whatever_it_is_called(changed, odd: str, tmp_path: Path) -> None:
    """Vega takes U+2028 and U+2029 in a name for the end of a line."""
    page = write_page(run_report(read_runs([changed(name=odd)])), tmp_path / "r.html").read_text(encoding="utf-8")
    assert not set(page) & {"\u2028", "\u2029", "\x1b"}


def test_an_option_of_a_policy_may_look_like_markup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", list(sys.path))  # the command puts the file's folder there
    (tmp_path / "own_bracket.py").write_text(
        "from pausefl.selection.baselines import Random\n"
        "class Mine(Random):\n    name = 'mine'\n    def __init__(self, mode='x'):\n        super().__init__()\n"
    )
    for number, mode in enumerate(("[/x]", "\x1b[2J")):
        toml = (
            "[learning]\nenabled = false\n[network]\nclients = 6\n[run]\nrounds = 2\n"
            f'[selection]\npolicy = "own_bracket:Mine"\nper_round = 2\noptions = {{mode = {json.dumps(mode)}}}\n'
        )
        (tmp_path / "c.toml").write_text(toml)
        code, out, err = told(capsys, "run", str(tmp_path / "c.toml"), "--out", str(tmp_path / str(number)))
        assert code == 0, err
        assert is_plain(out)
    assert "mode=[/x]" in told(capsys, "compare", str(tmp_path / "0"), "--format", "csv")[1]
    code, out, _ = told(capsys, "compare", str(tmp_path / "0"), str(tmp_path / "1"), "--paired")
    assert code == 0 and is_plain(out)


@pytest.mark.parametrize("odd", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1"])
def test_no_name_is_a_formula_in_a_spreadsheet(changed, odd: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = told(capsys, "compare", str(changed(name=odd)), "--format", "csv")
    [row] = csv.DictReader(io.StringIO(out))
    assert row["policy"] == "'" + odd.replace("\t", " ").replace("\r", " ")
    assert float(row["seconds_mean"]) > 0.0


def test_a_negative_number_is_no_formula() -> None:
    told = PairedDifference(
        policy="-a", reference="b", measure="accuracy", seeds=2, difference=-1.5, low=-2.0, high=-1.0, p_t=0.1,
        p_sign_flip=0.1,
    )  # fmt: skip
    [row] = csv.DictReader(io.StringIO(paired_csv([told])))
    assert (row["policy"], row["difference"]) == ("'-a", "-1.5")
