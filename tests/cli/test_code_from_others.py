"""Results from others bring no code: ``pausefl off-policy`` reads a folder, and runs only code that its user keeps."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from pausefl.cli import main
from pausefl.runs.config import make_config
from pausefl.runs.play import run

CONTENT = {
    "learning": {"enabled": False}, "network": {"clients": 6}, "selection": {"policy": "random", "per_round": 2},
    "run": {"rounds": 3},
}  # fmt: skip
CODE = "from pathlib import Path\nPath({!r}).touch()\nfrom pausefl.selection.baselines import Random\n"


class Stranger:
    """Sends the folder ``sent``, in which ``runs/a`` is a run; any of their code that runs leaves a mark."""

    def __init__(self, home: Path) -> None:
        self.home, self.sent, self.run, self.mark = home, home / "sent", home / "sent" / "runs" / "a", home / "ran"
        run(make_config(CONTENT), self.run)

    def names(self, policy: str) -> None:
        config = self.run / "config.toml"
        config.write_text(config.read_text().replace('policy = "random"', f"policy = {json.dumps(policy)}"))

    def code(self, file: str) -> None:
        (self.home / file).parent.mkdir(parents=True, exist_ok=True)
        (self.home / file).write_text(CODE.format(str(self.mark)))


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = set(sys.modules)
    monkeypatch.setattr("sys.path", [entry for entry in sys.path if entry])
    monkeypatch.chdir(tmp_path)
    yield Stranger(tmp_path)
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("sent", "package") or name.startswith(("notes_", "own_", "kept_")):
            del sys.modules[name]


def judged(capsys: pytest.CaptureFixture[str], where: str = "sent/runs/a", policy: str = "random") -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        main(["off-policy", where, "--policy", policy])
    return int(stop.value.code or 0), capsys.readouterr().err


@pytest.mark.parametrize(
    ("named", "file", "here"),
    [
        ("notes_a:Random", "sent/runs/a/notes_a.py", "."),
        ("notes_b:Random", "sent/runs/a/notes_b.py", "sent/runs/a"),
        ("notes_c:Random", "sent/runs/a/notes_c.py", "sent/runs/a/below"),
        ("sent.runs.a.notes:Random", "sent/runs/a/notes.py", "."),
        ("sent.runs.a:Random", "sent/runs/a/__init__.py", "."),
        ("sent.notes:Random", "sent/notes.py", "."),
        ("sent.json:dumps", "sent/__init__.py", "."),
    ],
)
def test_no_code_of_the_results_runs(
    stranger: Stranger, capsys, monkeypatch: pytest.MonkeyPatch, named: str, file: str, here: str
) -> None:
    stranger.code(file)
    stranger.names(named)
    (stranger.home / here).mkdir(exist_ok=True)
    monkeypatch.chdir(stranger.home / here)
    code, err = judged(capsys, str(stranger.run))
    assert not stranger.mark.exists()
    told, refused = err.splitlines()
    assert code == 2 and told == f"pausefl: this configuration runs code of its own: {named}"
    assert f"runs {named}, which is not code of yours" in refused
    assert "put it into the current folder or on PYTHONPATH" in refused


def test_nor_does_a_package_that_the_noted_hashes_name(stranger: Stranger, capsys) -> None:
    stranger.code("sent/__init__.py")
    stranger.names("kept_by_user:Random")
    (stranger.home / "kept_by_user.py").write_text("from pausefl.selection.baselines import Random\n")
    (stranger.run / "code.json").write_text('{"sent/notes.py": "00"}')
    code, err = judged(capsys)
    assert not stranger.mark.exists()
    assert code == 2 and "sent/notes.py has changed" in err


def test_the_users_own_code_is_found_and_told(stranger: Stranger, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = "from pausefl.selection.baselines import Random\n"
    stranger.names("own_here:Random")
    (stranger.home / "own_here.py").write_text(mine)
    code, err = judged(capsys)
    assert (code, err) == (0, "pausefl: this configuration runs code of its own: own_here:Random\n")
    (stranger.home / "own_here.py").unlink()
    (stranger.home / "elsewhere" / "package").mkdir(parents=True)
    (stranger.home / "elsewhere" / "package" / "own_there.py").write_text(mine)
    sys.path.insert(0, str(stranger.home / "elsewhere"))  # a copy: syspath_prepend would leave its own in place
    importlib.invalidate_caches()
    code, err = judged(capsys, policy="package.own_there:Random")
    del sys.modules["own_here"]
    assert code == 2 and "own_here:Random, which is not code of yours" in err
    config = stranger.run / "config.toml"
    config.write_text(config.read_text().replace("own_here:", "package.own_there:"))
    assert judged(capsys, policy="package.own_there:Random")[0] == 0


@pytest.mark.parametrize("command", ["run", "study", "tune"])
def test_the_line_that_tells_of_code_cannot_be_erased_by_it(command: str, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.path", list(sys.path))
    (tmp_path / "quiet_code.py").write_text(
        "from pausefl.selection.baselines import Random\ndef __getattr__(name):\n    return Random\n"
    )
    odd = json.dumps("quiet_code:x\r\x1b[2K")
    plain = "learning.enabled = false\nnetwork.clients = 6\nselection.per_round = 2\nrun.rounds = 1\n"
    study = f"study = {{title = 'a\\u001b[2Jb', policies = [{odd}]}}\n"
    (tmp_path / "c.toml").write_text((study if command == "study" else f"selection.policy = {odd}\n") + plain)
    arguments = {
        "run": ["run", "c.toml", "--out", "out"],
        "study": ["study", "c.toml", "--out", "out", "--scale", "full", "--jobs", "1"],
        "tune": ["tune", "c.toml", "--out", "out", "--vary", "selection.per_round=1,2"],
    }[command]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(arguments)
    out, err = capsys.readouterr()
    assert "this configuration runs code of its own: quiet_code:x" in err.splitlines()[0]
    assert all(letter.isprintable() or letter == "\n" for letter in out + err)
