"""What can be wrong with a ledger's file: one line each, with what to do; whatever it is, nothing was charged."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from pausefl.errors import DamagedLedgerError, LedgerError
from pausefl.system.private_file import user_text

_RESTORE = "restore its newest backup with `pausefl ledger restore`"
_SPENT = "without a backup, its budget counts as spent"
_WRITABLE = "let it be written"
_TODO = {
    "BUSY": "wait for the process that uses it, or end that process",
    "FULL": "free space on its disk",
    **dict.fromkeys(("READONLY", "CANTOPEN", "PERM"), _WRITABLE),
}
"""What to do about what SQLite says; a sound ledger that is only out of reach must not be restored."""


def missing(path: Path) -> LedgerError:
    """A ledger that is not there: nothing makes one in its place, because that would be a second budget."""
    return LedgerError(
        f"ledger is {str(path)!r}, but there is no such file; check the path, or put back its newest backup with "
        "`pausefl ledger restore LEDGER --from BACKUP`; create one with `pausefl owner init` or SqliteLedger.create "
        "only for data that never had a ledger"
    )


def broken(path: Path, what: str) -> DamagedLedgerError:
    """A ledger that does not hold what was charged."""
    return DamagedLedgerError(
        f"ledger {str(path)!r} cannot be trusted: {what}; release nothing, and {_RESTORE}; {_SPENT}"
    )


def failed(path: Path, error: Exception) -> LedgerError:
    """A ledger that cannot be used now."""
    reason = " ".join(str(error).split())
    kind = str(getattr(error, "sqlite_errorname", "")).split("_")[1:2]  # of SQLITE_READONLY_DIRECTORY, say
    todo = _TODO.get("".join(kind), f"free the lock or the disk, correct its permissions, or {_RESTORE}")
    if todo is _WRITABLE:
        todo = f"give {user_text(os.geteuid())} the right to write it and its folder, on a disk that is not read-only"
    return LedgerError(f"ledger {str(path)!r} failed: {reason}; nothing was charged, so release nothing: {todo}")


def other_version(path: Path, found: int, read: int) -> LedgerError:
    """A ledger of another version of the file."""
    return LedgerError(
        f"ledger {str(path)!r} has version {found}, but this pausefl reads version {read}; release nothing: use "
        "the version of pausefl that wrote it, or count its budget as spent"
    )


def switched(path: Path) -> LedgerError:
    """A ledger in SQLite's WAL mode, or with the files of that mode beside it."""
    # There and back: this also takes in and removes -wal and -shm files beside a file that has its old mode.
    mend = "PRAGMA journal_mode = WAL; SELECT rows FROM head; PRAGMA journal_mode = DELETE"
    return LedgerError(
        f"ledger {str(path)!r} was switched to SQLite's WAL mode, but must be one file; nothing was charged, so "
        f"release nothing: stop whatever uses it and run `sqlite3 {shlex.quote(str(path))} '{mend}'`"
    )


def only_a_backup(path: Path) -> LedgerError:
    """A backup, in place of a ledger."""
    return LedgerError(
        f"ledger {str(path)!r} is a backup, and nothing can be charged to it; use the ledger itself, or {_RESTORE}"
    )
