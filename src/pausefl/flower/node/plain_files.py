"""Folders of plain files: a named pipe or a socket in a folder is a way to another process."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pausefl.errors import ConfigError


def require_plain_files(folder: Path) -> None:
    """Refuse a folder that holds anything but files and folders, at any depth; links count as what they lead to."""
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif not entry.is_file(follow_symlinks=False):
                        _check(entry.path)
        except (FileNotFoundError, PermissionError):
            continue  # what is gone, or closed to this user, is so for an app, too


def _check(path: str) -> None:
    try:
        kind = Path(path).stat().st_mode
    except OSError:
        return  # a link that leads nowhere
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise ConfigError(
            f"{path!r:.500} is a named pipe, a socket or a device, but must be a plain file; move it away"
        )
