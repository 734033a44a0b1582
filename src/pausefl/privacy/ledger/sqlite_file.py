"""The ledger's file as SQLite has it: its tables, how it is made whole or not at all, and how it is opened."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path

from pausefl.privacy.ledger.hash_chain import COLUMNS, BrokenChain, Row, start_of
from pausefl.system.state_file import sync_folder

_APPLICATION, _VERSION = 0x50415553, 3
_TABLES = f"""
CREATE TABLE identity (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL, purpose TEXT NOT NULL);
CREATE TABLE charges (
  seq INTEGER PRIMARY KEY, subject TEXT NOT NULL, release TEXT NOT NULL, play INTEGER NOT NULL, epsilon REAL NOT NULL,
  delta REAL NOT NULL, budget REAL NOT NULL, schedule TEXT NOT NULL, unit TEXT NOT NULL, dimension INTEGER NOT NULL,
  loss TEXT NOT NULL, least REAL NOT NULL, mechanism TEXT NOT NULL, noise TEXT NOT NULL, time REAL NOT NULL,
  hash TEXT NOT NULL, UNIQUE (subject, release), UNIQUE (subject, play));
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), rows INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TRIGGER no_update BEFORE UPDATE ON charges BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON charges BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
"""
_DESCRIBE = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
SELECT = f"SELECT seq, {COLUMNS}, hash FROM charges"  # noqa: S608
INSERT = f"INSERT INTO charges (seq, {COLUMNS}, hash) VALUES ({', '.join('?' * (COLUMNS.count(',') + 3))})"  # noqa: S608


@contextmanager
def connected(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """Open the file for one call; it is never created here: a ledger that was deleted must not come back empty."""
    uri = f"{path.as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = EXTRA")
        yield connection


def create_file(path: Path, ledger_id: str, purpose: str) -> None:
    """Make an empty ledger; raise :class:`FileExistsError` if the file is there."""

    def fill(connection: sqlite3.Connection) -> None:
        connection.executescript(f"BEGIN; {_TABLES}")
        connection.execute("INSERT INTO identity VALUES (1, ?, ?)", (ledger_id, purpose))
        connection.execute("INSERT INTO head VALUES (1, 0, ?)", (start_of(ledger_id, purpose),))
        connection.execute("COMMIT")

    _make_whole(path, fill)


def _make_whole(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Make a database under another name, then link it to its own.

    A crash in between leaves a stray ``.new`` file, never half a ledger.  When this returns the name is on the disk.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    os.close(handle)
    try:
        with closing(sqlite3.connect(name, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            fill(connection)
        os.link(name, path)
        sync_folder(path.parent)
    finally:
        Path(name).unlink()


def touched(path: Path) -> tuple[int, ...] | None:
    """Return what changes whenever the file is written to or exchanged; None if it cannot be told."""
    try:
        found = path.stat()  # never by opening it: closing any descriptor of the file would drop our locks on it
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def check_schema(connection: sqlite3.Connection) -> None:
    """Raise unless the tables and triggers are exactly those that :func:`create_file` makes."""
    if connection.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
        raise BrokenChain("it is not a pausefl ledger")
    if connection.execute("PRAGMA user_version").fetchone() != (_VERSION,):
        raise BrokenChain("another version of pausefl wrote it")
    if connection.execute(_DESCRIBE).fetchall() != _expected():
        raise BrokenChain("its tables or triggers are not those pausefl makes")


@lru_cache(maxsize=1)
def _expected() -> list[Row]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(_TABLES)
        return connection.execute(_DESCRIBE).fetchall()
