"""A disk that fills up while checkpoints are written: the last whole checkpoint stays, and the run goes on from it."""

import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pausefl.runs.config import make_config
from pausefl.runs.play import run

CONFIG = make_config({"run": {"rounds": 12, "checkpoint_every": 3}, "network": {"clients": 8}})


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB where this may be mounted; elsewhere no test of it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small tmpfs; run as root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_run_on_a_full_disk_stops_and_goes_on_when_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    run(CONFIG, tmp_path / "straight")
    filler = small_disk / "filler"

    def fill(record: dict) -> None:
        if record["round"] == 7:  # between two checkpoints
            with filler.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"x" * 512)
                except OSError:
                    pass

    with pytest.raises(OSError, match="No space left"):
        run(CONFIG, small_disk / "run", watch=fill)
    filler.unlink()
    run(CONFIG, small_disk / "run")
    for name in ("metrics.jsonl", "summary.json"):
        assert (small_disk / "run" / name).read_text() == (tmp_path / "straight" / name).read_text()


def test_files_that_may_not_grow_stop_a_run_and_lose_nothing(tmp_path: Path) -> None:
    run(CONFIG, tmp_path / "straight")
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(record: dict) -> None:
        if record["round"] == 7:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))

    try:
        with pytest.raises(OSError, match="File too large"):
            run(CONFIG, tmp_path / "stopped", watch=limit)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    run(CONFIG, tmp_path / "stopped")
    for name in ("metrics.jsonl", "summary.json"):
        assert (tmp_path / "stopped" / name).read_text() == (tmp_path / "straight" / name).read_text()
