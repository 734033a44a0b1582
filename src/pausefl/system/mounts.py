"""What is mounted where: whether a path is a mount point itself, and whether its file system forgets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
_FORGETFUL = {
    "overlay": "the layer of a container, which is deleted with the container",
    "fuse.fuse-overlayfs": "the layer of a container, which is deleted with the container",
    "aufs": "the layer of a container, which is deleted with the container",
    "tmpfs": "memory, which is lost when the machine restarts",
    "ramfs": "memory, which is lost when the machine restarts",
}


def is_mount_point(path: Path, table: Path = _TABLE) -> bool:
    """Whether something is mounted on this very path, also a single file; False where the system has no table."""
    real = os.path.realpath(path)
    return any(point == real for point, _ in _mounts(table))


def mount_points_below(folder: Path, table: Path = _TABLE) -> list[str]:
    """Return where something is mounted at or below this folder, also single files."""
    real = Path(os.path.realpath(folder))
    return [point for point, _ in _mounts(table) if Path(point).is_relative_to(real)]


def forgetful_file_system(path: Path, table: Path = _TABLE) -> str | None:
    """Return what is known to forget the files of this path, in a few words; None if nothing is known.

    >>> forgetful_file_system(Path("/"), table=Path("/no/such/table"))
    """
    real = Path(os.path.realpath(path))
    around = [(len(point), kind) for point, kind in _mounts(table) if real.is_relative_to(point)]
    # Of several mounts on one point the last counts, and max returns the first of equals.
    _, kind = max(reversed(around), key=lambda one: one[0], default=(0, ""))
    return f"{kind}: {_FORGETFUL[kind]}" if kind in _FORGETFUL else None


def _mounts(table: Path) -> Iterator[tuple[str, str]]:
    """Yield mount point and kind of file system, in the order of mounting (proc(5), "mountinfo")."""
    try:
        lines = os.fsdecode(table.read_bytes()).split("\n")[:-1]  # a path may hold what else ends a line
    except OSError:
        return
    for line in lines:
        words = line.split(" ")
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), words[4])
        yield point, words[words.index("-") + 1]
