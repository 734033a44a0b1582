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
        place = waiting.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif not entry.is_file(follow_symlinks=False):
                        _check(entry.path)
        except PermissionError:
            if os.access(place, os.X_OK):  # whoever knows a name in it gets there; else it is closed to an app, too
                raise ConfigError(
                    f"{place!r:.500} can be entered but not listed, so nobody sees what is in it; let it be read, or "
                    "move it away"
                ) from None
        except FileNotFoundError:
            continue  # what is gone is so for an app, too


def _check(path: str) -> None:
    try:
        kind = Path(path).stat().st_mode
    except OSError:
        return  # a link that leads nowhere
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise ConfigError(
            f"{path!r:.500} is a named pipe, a socket or a device, but must be a plain file; move it away"
        )
