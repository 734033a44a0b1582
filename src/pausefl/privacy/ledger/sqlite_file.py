"""The file under the durable ledger: its tables, how it comes into being whole, and whether it was touched."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from pausefl.privacy.ledger.hash_chain import COLUMNS, START, BrokenChain, Row

Stamp: TypeAlias = tuple[int, ...]

_APPLICATION, _VERSION = 0x50415553, 2
_SCHEMA = f"""
BEGIN;
CREATE TABLE charges (
  seq INTEGER PRIMARY KEY, subject TEXT NOT NULL, release TEXT NOT NULL, play INTEGER NOT NULL, epsilon REAL NOT NULL,
  delta REAL NOT NULL, budget REAL NOT NULL, schedule TEXT NOT NULL, unit TEXT NOT NULL, loss TEXT NOT NULL,
  least REAL NOT NULL, mechanism TEXT NOT NULL, noise TEXT NOT NULL, time REAL NOT NULL,
  hash TEXT NOT NULL, UNIQUE (subject, release), UNIQUE (subject, play));
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), rows INTEGER NOT NULL, hash TEXT NOT NULL);
INSERT INTO head VALUES (1, 0, '{START}');
CREATE TRIGGER no_update BEFORE UPDATE ON charges BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON charges BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
COMMIT;
"""  # noqa: S608
_DESCRIBE = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
SELECT = f"SELECT seq, {COLUMNS}, hash FROM charges"  # noqa: S608
INSERT = f"INSERT INTO charges (seq, {COLUMNS}, hash) VALUES ({', '.join('?' * (COLUMNS.count(',') + 3))})"  # noqa: S608


def create(path: Path) -> None:
    """Make an empty ledger under another name, then link it to its own, unless another process was faster.

    A crash in between leaves a stray ``.new`` file, never half a ledger.  When this returns the name is on the disk.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    os.close(handle)
    try:
        with closing(sqlite3.connect(name, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.executescript(_SCHEMA)
        try:
            os.link(name, path)
        except FileExistsError:
            return
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        Path(name).unlink()


def check_schema(connection: sqlite3.Connection) -> None:
    """Raise unless the tables and triggers are exactly those that :func:`create` makes."""
    if connection.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
        raise BrokenChain("it is not a pausefl ledger")
    if connection.execute("PRAGMA user_version").fetchone() != (_VERSION,):
        raise BrokenChain("another version of pausefl wrote it")
    if connection.execute(_DESCRIBE).fetchall() != _expected():
        raise BrokenChain("its tables or triggers are not those pausefl makes")


def check_end(connection: sqlite3.Connection) -> tuple[int, str]:
    """Return how many rows there are and the last one's hash, or raise if the head counts others."""
    head = connection.execute("SELECT rows, hash FROM head").fetchall()
    last = connection.execute("SELECT seq, hash FROM charges ORDER BY seq DESC LIMIT 1").fetchall()
    if len(head) != 1 or (last or [(0, START)]) != head:
        raise BrokenChain("its last rows are not the ones its head counts")
    return int(head[0][0]), str(head[0][1])


def stamp(path: Path) -> Stamp | None:
    """Return what changes whenever the file is written to or exchanged; None if it cannot be told."""
    # Never by opening it: closing any descriptor of the file would drop this process's locks on it.
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def data_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes when somebody else commits."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


def stamp_since(connection: sqlite3.Connection, path: Path, version: int) -> Stamp | None:
    """Return the stamp of the file as this connection's commit left it; None if somebody else may have followed."""
    mark = stamp(path)
    try:
        connection.execute("PRAGMA busy_timeout = 0")
        return mark if data_version(connection) == version else None
    except sqlite3.Error:
        return None  # the charge is on the disk: what fails now only costs a second look next time


@lru_cache(maxsize=1)
def _expected() -> list[Row]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(_SCHEMA)
        return connection.execute(_DESCRIBE).fetchall()
