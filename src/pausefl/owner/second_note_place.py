"""The place outside an owner's folder where a ledger's second note lies: which it is, and whether it can be used."""

from __future__ import annotations

import errno
import os
import pwd
import shlex
from contextlib import suppress
from pathlib import Path

from pausefl.errors import ConfigError, PauseError, shown
from pausefl.system.mounts import forgetful_file_system
from pausefl.system.private_file import require_private_folder, user_text

_ROOM = 1 << 15
"""Bytes that must be free: for a new note beside the old one, and for a lock."""
_REMEDY = "or set XDG_STATE_HOME to a permanent folder of this user"


def second_note_folder() -> Path:
    """Return the folder of all second notes of this user: in XDG_STATE_HOME, or below a home that exists."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if state:
        if not Path(state).is_absolute():  # the standard says to ignore it; an owner would believe that it is used
            raise ConfigError(
                f"XDG_STATE_HOME is {shown(state)}, but must be an absolute path; write it whole, without ~"
            )
        return Path(state) / "pausefl" / "ledgers"
    folder = folder_in_home()
    if folder is None:
        raise ConfigError(
            f"there is no place outside the owner's folder for a second note, because {user_text(os.geteuid())} has no "
            "home; set XDG_STATE_HOME to a permanent folder of this user"
        )
    return folder


def folder_in_home() -> Path | None:
    """Return the folder that is used without XDG_STATE_HOME, and may have been used before it was set."""
    home = _home()
    return None if home is None else home / ".local" / "state" / "pausefl" / "ledgers"


def require_second_note_folder(ledger: Path) -> Path:
    """Return the folder, or refuse one in which no note of this ledger could be written now; nothing is made."""
    folder = second_note_folder()
    try:
        if Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(ledger.parent)):
            raise ConfigError(
                f"there is no place outside {ledger.parent} for a second note, because {folder} is in it; keep the "
                f"ledger in a folder of its own, {_REMEDY}"
            )
        there = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
        found, me = there.stat(), user_text(os.geteuid())
        if found.st_uid != os.geteuid():  # as a home does under sudo
            raise ConfigError(
                f"the second note goes to {folder}, but {there} belongs to {user_text(found.st_uid)}, and this is "
                f"{me}; run this as {user_text(found.st_uid)}, {_REMEDY}"
            )
        if there == folder:
            require_private_folder(folder, "folder of second notes")
        if not there.is_dir() or not os.access(there, os.R_OK | os.W_OK | os.X_OK):
            raise ConfigError(
                f"the second note goes to {folder}, but {me} cannot write in {there}; if it is a folder on a "
                f"writable disk, run `chmod u+rwx {shlex.quote(str(there))}`, {_REMEDY}"
            )
        disk = os.statvfs(there)
        # A file system that counts no blocks, or no files, says 0 of 0.
        if (disk.f_blocks and disk.f_bavail * disk.f_frsize < _ROOM) or (disk.f_files and not disk.f_favail):
            raise ConfigError(
                f"the second note goes to {folder}, but there is no space left; free space on its disk, {_REMEDY}"
            )
    except PauseError:
        raise
    except OSError as error:
        raise cannot("written", folder, error) from None
    return folder


def cannot(what: str, path: Path, error: OSError) -> ConfigError:
    """Return the error of a second note, or of its folder, that cannot be read or written."""
    who = user_text(os.geteuid())
    todo = (
        "free space on its disk"
        if error.errno in (errno.ENOSPC, errno.EDQUOT)
        else f"give {who} the right to read and write there"
    )
    return ConfigError(f"{path}, for second notes, cannot be {what} ({error.strerror}); {todo}, {_REMEDY}")


def forgetful_places(ledger: Path) -> list[str]:
    """Say whether the ledger, or the second note of it, lies where it is known to be forgotten."""
    found = []
    for what, path, todo in (
        ("ledger", ledger, "move it to a permanent disk, or it will forget releases"),
        (
            "second note",
            second_note_folder(),
            "set XDG_STATE_HOME to a folder on a permanent disk, or the node will stop",
        ),
    ):
        forgetful = forgetful_file_system(path)
        if forgetful is not None:
            found.append(f"the {what} is on {forgetful}; {todo}")
    return found


def _home() -> Path | None:
    home = Path(os.environ.get("HOME", ""))
    with suppress(KeyError):
        home = home if home.is_absolute() else Path(pwd.getpwuid(os.geteuid()).pw_dir)
    with suppress(OSError):
        return home if home.is_absolute() and home.is_dir() else None
    return None
