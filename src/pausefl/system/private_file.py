"""A file that decides about privacy must be safe from other users of the machine: refuse it otherwise."""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from pathlib import Path

from pausefl.errors import NotPrivateError
from pausefl.system.state_file import sync_folder, write_whole

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def require_private(path: Path, what: str) -> None:
    """Refuse a file that another user could change or exchange; the message has the command that mends it.

    Links are followed.  Root may change everything anyway.
    """
    real = path.resolve()
    _require_own(path, real, what)
    _require_place(path, real.parent, what)


def require_private_folder(folder: Path, what: str) -> None:
    """Refuse a folder in which another user could put, rename or remove anything: it is for its owner alone.

    A sticky bit does not help: others could still put files there.  The folders above it may be shared, as ``/tmp`` is.
    """
    _require_own(folder, folder.resolve(), what)
    _require_place(folder, folder.resolve().parent, what)


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for its owner alone, whatever the umask is."""
    for one in reversed([above for above in folder.parents if not above.exists()]):
        one.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def write_private(path: Path, text: str) -> None:
    """Write a file for its owner alone, whole or not at all; its name is durable when this returns."""
    write_whole(path, text, 0o600)
    sync_folder(path.parent)


def require_private_place(path: Path, what: str) -> None:
    """Refuse a place in which every user could exchange the file, whether it is there or not.

    A folder in which everybody may write is fine only if its sticky bit keeps them from renaming the files of others,
    as in ``/tmp``.
    """
    _require_place(path, path.resolve().parent, what)


def _require_place(path: Path, folder: Path, what: str) -> None:
    for above in (folder, *folder.parents):  # whoever may rename one of them can put another in its place
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise NotPrivateError(
                f"{what} {str(path)!r} can be replaced by every user; run `chmod o-w {_quoted(above)}`, or use a "
                "file in a folder of your own"
            )


def require_readable(path: Path, what: str) -> None:
    """Refuse a file that this user may not read, and say who may; one that is missing is left to its reader."""
    try:
        path.open("rb").close()
    except PermissionError:
        raise NotPrivateError(
            f"{what} {str(path)!r} cannot be read by {user_text(os.geteuid())}; run pausefl as the user that the file "
            f"belongs to; if {user_text(os.geteuid())} runs the node, let root run "
            f"`chown -R {os.geteuid()} {_quoted(path.parent)}`"
        ) from None
    except OSError:
        return


def user_text(number: int) -> str:
    """Return a user's name and number, as far as this machine knows them."""
    try:
        return f"user {pwd.getpwuid(number).pw_name} ({number})"
    except KeyError:
        return f"user {number}"


def _require_own(path: Path, real: Path, what: str) -> None:
    found = real.stat()
    me = os.geteuid()
    if found.st_uid not in (me, 0):
        owner = user_text(found.st_uid)
        # Never "chown" to root or to whoever looks: that would take the file from the node that uses it.
        mine = "" if me == 0 else f"; if {user_text(me)} runs the node, let root run `chown {me} {_quoted(real)}`"
        raise NotPrivateError(
            f"{what} {str(path)!r} belongs to {owner}, but pausefl runs as {user_text(me)}; run it as {owner}, with "
            f"sudo -u '#{found.st_uid}'{mine}"
        )
    if found.st_mode & _OTHERS_WRITE:
        who = "" if found.st_uid == me else " as root"
        raise NotPrivateError(
            f"{what} {str(path)!r} can be written by other users; run `chmod go-w {_quoted(real)}`{who}"
        )


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
