"""One writer at a time, however the one before ended."""

import errno
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from pausefl.errors import ConfigError
from pausefl.system.lock import only_writer


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
    assert not gone.parent.exists()


def test_what_cannot_be_locked_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(lock: Path) -> str:
        with pytest.raises(ConfigError) as told, only_writer(lock, Path("run"), "name another"):
            raise AssertionError
        return str(told.value)

    assert refused(tmp_path / "none" / "lock").endswith("(No such file or directory); create its folder")
    todo = f"); let {tmp_path} be a file that you can write and lock"
    assert refused(tmp_path) == f"run cannot be written (Is a directory{todo}"

    def missing(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", missing)  # as on some network file systems
    with warnings.catch_warnings(record=True) as warned:
        assert "flock not supported" in refused(tmp_path / "lock")
    assert not warned


def test_a_lock_goes_with_ctrl_c_and_with_an_error(tmp_path: Path) -> None:
    for error in (KeyboardInterrupt, ValueError):
        with pytest.raises(error), only_writer(tmp_path / "lock", Path("run"), "name another"):
            raise error
