"""The ledger's file as SQLite has it: its tables, how it is made whole or not at all, and how it is opened."""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from pausefl.errors import LedgerError, PauseError
from pausefl.privacy.ledger.file_faults import broken, failed, switched
from pausefl.privacy.ledger.file_seal import WrittenPages
from pausefl.privacy.ledger.hash_chain import COLUMNS, start_of
from pausefl.system.private_file import require_private, require_private_place
from pausefl.system.state_file import sync_folder

LEDGER, BACKUP = 0x50415553, 0x50415542
"""SQLite's application id says which of the two a file is: nothing is ever charged to a backup."""
DEPLOYMENT, SIMULATION = "deployment", "simulation"
VERSION = 4
TABLES = f"""
CREATE TABLE identity (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL, purpose TEXT NOT NULL);
CREATE TABLE charges (
  seq INTEGER PRIMARY KEY, subject TEXT NOT NULL, release TEXT NOT NULL, play INTEGER NOT NULL, epsilon REAL NOT NULL,
  delta REAL NOT NULL, rho REAL NOT NULL, budget REAL NOT NULL, schedule TEXT NOT NULL, unit TEXT NOT NULL,
  dimension INTEGER NOT NULL, loss TEXT NOT NULL,
  least REAL NOT NULL, mechanism TEXT NOT NULL, noise TEXT NOT NULL, time REAL NOT NULL,
  hash TEXT NOT NULL, UNIQUE (subject, release), UNIQUE (subject, play));
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), rows INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TRIGGER no_update BEFORE UPDATE ON charges BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON charges BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
PRAGMA application_id = {LEDGER};
PRAGMA user_version = {VERSION};
"""
_END_OF_NAME = bytes.fromhex("d9d505f920a163d7")
_STEPS = 10**8
"""Nanoseconds, ten steps of the coarsest clock that Linux stamps files with."""
SELECT = f"SELECT seq, {COLUMNS}, hash FROM charges"  # noqa: S608
INSERT = f"INSERT INTO charges (seq, {COLUMNS}, hash) VALUES ({', '.join('?' * (COLUMNS.count(',') + 3))})"  # noqa: S608


@contextmanager
def connected(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """Open the file for one call, if no other user could write it; all that SQLite refuses is a ledger's error.

    The file is never created here: a ledger that was deleted must not come back empty.
    """
    try:
        require_private(path, "ledger")
    except FileNotFoundError as error:
        raise failed(path, error) from None
    with suppress(FileNotFoundError):  # SQLite would write into the ledger whatever somebody has put into a journal
        journal = Path(f"{path}-journal")
        require_private(journal, "journal of the ledger")
        if journal.is_file() and _names_a_file(journal):
            raise broken(path, "its journal names another file, which SQLite would remove")
    if any(Path(f"{path}{suffix}").exists() for suffix in ("-wal", "-shm")):
        raise switched(path)
    uri = f"{path.as_uri()}?mode=rw"
    with (
        only_ledger_errors(path),
        closing(sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)) as connection,
    ):
        connection.execute("PRAGMA synchronous = EXTRA")
        yield connection


@contextmanager
def only_ledger_errors(path: Path) -> Iterator[None]:
    """Turn all that SQLite refuses into a ledger's error."""
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError) as error:  # also text that a fault made illegible
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest of an extended code says where it was found
        if code == sqlite3.SQLITE_NOTADB:
            raise broken(path, "it is not a pausefl ledger") from None
        if code == sqlite3.SQLITE_CORRUPT or isinstance(error, UnicodeDecodeError):
            raise broken(path, "its file is damaged") from None
        raise failed(path, error) from error


def _names_a_file(journal: Path) -> bool:
    """Whether a journal ends with the name of a journal of several databases: none of ours does (SQLite's file format).

    A ledger comes from others, too, for an audit, and with such a journal it would remove any file of its reader.
    """
    with journal.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - len(_END_OF_NAME)))
        return file.tell() > 0 and file.read() == _END_OF_NAME


def fill_empty(connection: sqlite3.Connection, ledger_id: str, purpose: str) -> None:
    """Write the tables of a ledger without rows."""
    connection.executescript(f"BEGIN; {TABLES}")
    connection.execute("INSERT INTO identity VALUES (1, ?, ?)", (ledger_id, purpose))
    connection.execute("INSERT INTO head VALUES (1, 0, ?)", (start_of(ledger_id, purpose),))
    connection.execute("COMMIT")


def copy_into(connection: sqlite3.Connection, source: sqlite3.Connection, kind: int) -> None:
    """Copy what the source's transaction sees, as a ledger or as a backup."""
    source.backup(connection)
    connection.execute(f"PRAGMA application_id = {kind}")


def remove_strays(folder: Path, stem: str) -> None:
    """Remove what was left by a process that was killed while it made a file.

    Whoever makes a file holds a lock until it is done, and the lock ends with its process.  So what is still being
    made stays.
    """
    for stray in folder.glob(f".{glob.escape(stem)}.*.new"):
        with suppress(OSError), _locked(stray, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(stray)


@contextmanager
def _workshop(folder: Path, stem: str) -> Iterator[Path]:
    """Make a folder that :func:`remove_strays` leaves alone while this lasts, and remove it afterwards.

    The lock is on a folder and not on the database in it, because closing any descriptor of a database drops the locks
    that SQLite has on it.
    """
    with ExitStack() as held:
        while True:
            made = Path(tempfile.mkdtemp(prefix=f".{stem}.", suffix=".new", dir=folder))
            held.callback(shutil.rmtree, made, ignore_errors=True)
            with suppress(FileNotFoundError):  # somebody else took it for a stray before it was locked
                held.enter_context(_locked(made, fcntl.LOCK_EX))
                made.stat()
                break
        yield made


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)


def make_file(
    path: Path, stem: str, fill: Callable[[sqlite3.Connection], None], check: Callable[[Path], object]
) -> None:
    """Make a database in a folder whose name begins with the ``stem``, check it, then link it to its own name.

    A crash in between leaves a stray ``.new`` folder, never half a ledger.  When this returns the name is on the disk.
    """
    if Path(f"{path}-journal").exists() and not path.exists():  # in this order: a ledger in use has its file first
        raise LedgerError(f"ledger is {str(path)!r}, but a journal of that name exists; use another file")
    if not path.parent.is_dir():
        raise LedgerError(
            f"{str(path)!r} cannot be made, because there is no folder {str(path.parent)!r}; make it first"
        )
    try:
        require_private_place(path, "ledger")
        remove_strays(path.parent, stem)
        with _workshop(path.parent, stem) as workshop:
            made = workshop / "made.db"
            os.close(os.open(made, os.O_CREAT | os.O_EXCL, 0o600))
            with closing(sqlite3.connect(made, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                fill(connection)
            check(made)
            os.link(made, path)
            sync_folder(path.parent)
    except PauseError:
        raise
    except FileExistsError:
        raise LedgerError(
            f"{str(path)!r} exists, and pausefl overwrites nothing; use another file name, for example with date and "
            "time"
        ) from None
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise LedgerError(
            f"ledger {str(path)!r} cannot be made: {reason}; free space on that disk, or use a file on a local disk "
            "with hard links, and copy a backup from there"
        ) from error


def touched(path: Path) -> tuple[int, ...] | None:
    """Return what changes whenever the file is written to or exchanged; None if it cannot be told."""
    try:
        found = path.stat()  # never by opening it: closing any descriptor of the file would drop our locks on it
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def is_settled(found: tuple[int, ...] | None) -> bool:
    """Whether a file was last touched so long ago that whoever touches it now changes what :func:`touched` returns.

    The system's clock for files goes in steps of up to 10 ms: two changes within one step look like one.
    """
    return found is not None and found[-1] < time.time_ns() - _STEPS


def pages_to_write(path: Path) -> WrittenPages | None:
    """Return what a transaction that is about to commit has changed, by its rollback journal; None if it does not say.

    Page 1 is always among them: it counts the transactions.  Whoever goes by this must not rely on it: a page that was
    forgotten here only makes the file look as if somebody else had changed it.
    https://www.sqlite.org/fileformat.html#the_rollback_journal
    """
    try:
        journal = Path(f"{path}-journal").read_bytes()
    except OSError:
        return None
    pages, header, size = (int.from_bytes(journal[at : at + 4]) for at in (16, 20, 24))
    if not header or not size:
        return None
    numbers = (int.from_bytes(journal[at : at + 4]) for at in range(header, len(journal), size + 8))
    return WrittenPages(frozenset((number - 1) * size for number in (1, *numbers)), pages * size)
