"""A file that decides about privacy must be safe from other users of the machine: refuse it otherwise."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from pausefl.errors import NotPrivateError


def require_private(path: Path, what: str) -> None:
    """Refuse a file that another user could change or exchange; the message has the command that mends it.

    Links are followed.  Root may change everything anyway.
    """
    real = path.resolve()
    found = real.stat()
    me = os.geteuid()
    if found.st_uid not in (me, 0):
        raise NotPrivateError(
            f"{what} {str(path)!r} belongs to user {found.st_uid}, but pausefl runs as user {me}; run it as that user, "
            f"or run `chown {me} {shlex.quote(str(real))}`"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotPrivateError(
            f"{what} {str(path)!r} can be written by other users; run `chmod go-w {shlex.quote(str(real))}`"
        )
    require_private_folder(path, what)


def require_private_folder(path: Path, what: str) -> None:
    """Refuse a place in which every user could exchange the file, whether it is there or not.

    A folder in which everybody may write is fine only if its sticky bit keeps them from renaming the files of others,
    as in ``/tmp``.
    """
    folder = path.resolve().parent
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise NotPrivateError(
            f"{what} {str(path)!r} can be exchanged by every user; run `chmod o-w {shlex.quote(str(folder))}`"
        )
