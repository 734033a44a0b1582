"""One writer at a time, however the one before ended."""

import subprocess
import sys
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


def test_a_lock_goes_with_ctrl_c_and_with_an_error(tmp_path: Path) -> None:
    for error in (KeyboardInterrupt, ValueError):
        with pytest.raises(error), only_writer(tmp_path / "lock", Path("run"), "name another"):
            raise error
