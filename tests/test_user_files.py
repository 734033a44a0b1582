"""What people write themselves, files and code, is taken or refused in one line; and one writer at a time."""

import subprocess
import sys
from pathlib import Path

import pytest

from pausefl.errors import ConfigError, InvalidValueError
from pausefl.system.import_path import imported, reason
from pausefl.system.lock import only_writer
from pausefl.system.toml import read_toml


def test_code_of_ones_own_is_found_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_ok.py").write_text("def one():\n    return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert imported("mine_ok:one", "data.name")() == 1


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("x = 1\n", "mine_a:nothing", "has no attribute 'nothing'"),
        ("x = 1\n", "nowhere_at_all:x", "No module named 'nowhere_at_all'"),
        ("raise RuntimeError('first\\nsecond')\n", "mine_b:x", "(first)"),
        ("1 +\n", "mine_c:x", "invalid syntax"),
        ("x = 1\n", "mine_d", "cannot be imported"),
        ("x = 1\n", ":x", "cannot be imported"),
    ],
)
def test_code_that_cannot_be_imported_is_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, path: str, said: str
) -> None:
    if not path.startswith("nowhere"):
        (tmp_path / f"{path.partition(':')[0]}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InvalidValueError) as refused:
        imported(path, "learning.model")
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_an_exception_without_words_is_told_by_its_kind() -> None:
    assert reason(KeyError()) == "KeyError"


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "does not exist; write it"), (b"a = ", "is no TOML file"), (b"\xff", "is no TOML file")],
)
def test_a_file_that_is_no_toml_is_refused_in_a_line(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "x.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        read_toml(path, "write it")
    assert said in str(refused.value) and "\n" not in str(refused.value)
    with pytest.raises(ConfigError, match="is no TOML file"):
        read_toml(tmp_path, "write it")


def test_a_lock_keeps_others_off_and_goes_with_its_process(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    hold = f"""
from pathlib import Path
from pausefl.system.lock import only_writer
with only_writer(Path({str(lock)!r}), Path("run"), "name another"):
    print("held", flush=True)
    input()
"""
    holder = subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    busy = "run is being written by another process; wait for it, or name another"
    with pytest.raises(ConfigError, match=busy), only_writer(lock, Path("run"), "name another"):
        raise AssertionError
    holder.kill()
    holder.communicate()
    with only_writer(lock, Path("run"), "name another"):
        pass
    gone = tmp_path / "none" / "lock"
    with pytest.raises(ConfigError, match="No such file"), only_writer(gone, Path("run"), "name another"):
        raise AssertionError
