"""Folders of plain files, none of them secret: a named pipe or a socket in a folder is a way to another process."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pausefl.errors import ConfigError
from pausefl.system.mounts import mount_points_below


def require_plain_files(folder: Path, hidden: Iterable[Path] = ()) -> None:
    """Refuse a folder that holds anything but files and folders, at any depth; links count as what they lead to.

    Refuse also one that holds a ``hidden`` file or folder, whatever its path: by a second mount, or a hard link.
    """
    secret = {}
    for path in hidden:
        with suppress(OSError):
            secret[_identity(path)] = path
    numbers = {number for _, number in secret}
    for point in mount_points_below(folder) if secret else ():
        _check_secret(point, secret)  # the list of a folder has the number of what lies below it
    waiting = [str(folder)]
    while waiting:
        place = waiting.pop()
        try:
            _check_secret(place, secret)
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif not entry.is_file(follow_symlinks=False):
                        _check(entry.path)
                    elif entry.inode() in numbers:
                        _check_secret(entry.path, secret)
        except PermissionError:
            if os.access(place, os.X_OK):  # whoever knows a name in it gets there; else it is closed to an app, too
                raise ConfigError(
                    f"{place!r:.500} can be entered but not listed, so nobody sees what is in it; run `chmod u+r` on "
                    "it, or move it away"
                ) from None
        except FileNotFoundError:
            continue  # what is gone is so for an app, too


def _identity(path: str | Path) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 - text is faster, and there are many
    return found.st_dev, found.st_ino


def _check_secret(path: str, secret: dict[tuple[int, int], Path]) -> None:
    with suppress(OSError):
        found = secret.get(_identity(path)) if secret else None
        if found is not None:
            raise ConfigError(
                f"the app may read {path!r:.500}, but that is {found}, which must stay hidden; move one of them, or "
                "remove the second mount or link"
            )


def _check(path: str) -> None:
    try:
        kind = Path(path).stat().st_mode
    except OSError:
        return  # a link that leads nowhere
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise ConfigError(
            f"{path!r:.500} is a named pipe, a socket or a device, but must be a plain file; move it away"
        )
