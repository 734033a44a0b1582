"""A file that decides about privacy must be safe from other users of the machine: refuse it otherwise."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from pausefl.errors import NotPrivateError


def require_private(path: Path, what: str) -> None:
    """Refuse a file that another user could change or exchange; the message has the command that mends it.

    Links are followed.  Root may change everything anyway.  A folder in which everybody may write is fine only if its
    sticky bit keeps them from renaming the files of others, as in ``/tmp``.
    """
    real = path.resolve()
    found, folder = real.stat(), real.parent.stat()
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
    if folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
        raise NotPrivateError(
            f"{what} {str(path)!r} can be exchanged by every user; run `chmod o-w {shlex.quote(str(real.parent))}`"
        )
