"""What a ledger's file must be like, as SQLite reads it: its header, tables and triggers, its head, and every row."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from pausefl.privacy.ledger.file_faults import other_version, switched
from pausefl.privacy.ledger.file_seal import Checked
from pausefl.privacy.ledger.hash_chain import BrokenChain, Head, Row, charge_of, check_rows, start_of
from pausefl.privacy.ledger.sqlite_file import BACKUP, DEPLOYMENT, LEDGER, SELECT, SIMULATION, TABLES, VERSION

_DESCRIBE = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"


def read_kind(connection: sqlite3.Connection, path: Path) -> tuple[tuple[str, str], bool]:
    """Return id and purpose, and whether it is a backup; raise unless pausefl made the file, in this version."""
    kind, version = (_number(connection, name) for name in ("application_id", "user_version"))
    if kind not in (LEDGER, BACKUP):
        raise BrokenChain("it is not a pausefl ledger")
    if version != VERSION:
        raise other_version(path, version, VERSION)
    check_schema(connection)
    if connection.execute("PRAGMA journal_mode").fetchone() != ("delete",):
        raise switched(path)
    return _identity(connection), kind == BACKUP


def _number(connection: sqlite3.Connection, name: str) -> int:
    (number,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(number)


def check_schema(connection: sqlite3.Connection) -> None:
    """Raise unless the tables and triggers are exactly those of a new ledger."""
    if connection.execute(_DESCRIBE).fetchall() != _expected():
        raise BrokenChain("its tables or triggers are not those pausefl makes")


@lru_cache(maxsize=1)
def _expected() -> list[Row]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(TABLES)
        return connection.execute(_DESCRIBE).fetchall()


def _identity(connection: sqlite3.Connection) -> tuple[str, str]:
    """Return the ledger's id and purpose, or raise: they must be such as pausefl writes."""
    found = connection.execute("SELECT id, purpose FROM identity").fetchall()
    ledger_id, purpose = map(str, found[0]) if len(found) == 1 else ("", "")
    if re.fullmatch("[0-9a-f]{32}", ledger_id) is None or purpose not in (DEPLOYMENT, SIMULATION):
        raise BrokenChain("its identity was edited")
    return ledger_id, purpose


def read_head(connection: sqlite3.Connection) -> list[Row]:
    """Return how many rows there should be, and the hash of the last; one such line, in a sound ledger."""
    return connection.execute("SELECT rows, hash FROM head").fetchall()


def check_all(
    connection: sqlite3.Connection, identity: tuple[str, str], head: list[Row], pieces: tuple[bytes, ...] | None
) -> Checked:  # fmt: skip
    """Return what is in the file, after every hash was computed."""
    rows = connection.execute(f"{SELECT} ORDER BY seq").fetchall()
    start = start_of(*identity)
    accounts = check_rows(start, rows)
    found = Checked(identity, Head(len(rows), rows[-1][-1] if rows else start), accounts, pieces, len(rows))
    if not ends_with(found, head):
        raise BrokenChain("its last rows are not the ones its head counts")
    # An index that disagrees with its table would hide rows from a query.
    if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
        raise BrokenChain("its file is damaged")
    return found


def ends_with(checked: Checked, head: list[Row]) -> bool:
    """Whether what was checked ends where the file says."""
    return head == [(checked.head.rows, checked.head.hash)]


def is_last_row(checked: Checked, row: Row | None) -> bool:
    """Whether this is the row in which the chain ends."""
    if row is None or (row[0], row[-1]) != (checked.head.rows, checked.head.hash):
        return False
    charge = charge_of(row)
    return charge.subject in checked.accounts and checked.accounts[charge.subject].last == charge


def goes_through(connection: sqlite3.Connection, head: Head) -> bool:
    """Whether the row of this number has this hash; without rows it is the start, to which the first row is bound."""
    found = connection.execute("SELECT hash FROM charges WHERE seq = ?", (head.rows,)).fetchone()
    return head.rows == 0 or found == (head.hash,)
