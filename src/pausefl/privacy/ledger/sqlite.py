"""The ledger: who has leaked how much, in one SQLite file, written down before anything leaves.

A row per release, each chained by hash to the one before; append-only, without refunds.  The rule that decides
whether a row may be written is in :mod:`pausefl.privacy.ledger.charge`.

A connection lives for one call, so nothing is shared among threads or across a fork.  The journal is SQLite's rollback
journal with ``synchronous=EXTRA``: a commit that returned survives the power cut that follows, and the whole ledger
is always one file.
"""

from __future__ import annotations

import math
import os
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pausefl.errors import LedgerError, require
from pausefl.privacy.ledger.charge import Charge, Reservation, check_names, next_charge
from pausefl.privacy.ledger.hash_chain import COLUMNS, START, BrokenChain, Row, charge_of, check_rows, past_of, row_of
from pausefl.privacy.mechanisms.base import Mechanism
from pausefl.privacy.mechanisms.noise import Noise
from pausefl.privacy.schedule import Schedule
from pausefl.system.state_file import sync_folder
from pausefl.types import Epsilon

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
_SELECT = f"SELECT seq, {COLUMNS}, hash FROM charges"  # noqa: S608
INSERT = f"INSERT INTO charges (seq, {COLUMNS}, hash) VALUES ({', '.join('?' * (COLUMNS.count(',') + 3))})"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Head:
    """Where the chain ends.  Noted elsewhere, it later proves that a ledger still holds all it held then."""

    rows: int
    hash: str


class SqliteLedger:
    """Charges of any number of subjects, durable before release, safe among processes, threads and forks.

    A subject is the identity of a data set, not of a run.

    Law: ``reserve`` returns only when the charge is kept for good.  The plays of a subject are 1, 2, 3, … without gaps;
    no release name is charged twice; ``spent`` never falls and never exceeds the budget, nor ``spent_delta`` the limit;
    budget and schedule of a subject never change.  A call that raises has charged nothing.  There is no way to take a
    charge back: a release that failed after its reservation stays charged.

    Opening a ledger checks its tables, its triggers, its file and the hash of every row.  An open ledger remembers
    the rows it has checked: ``reserve`` compares them with the file, unless nobody touched it since the last
    ``reserve``, and computes the hashes of new rows only.  So an older copy that is put in the file's place shows
    too.  Two things do not show to somebody who opens a ledger afresh: an older copy, and a rewriting that recomputes
    every hash.  Against both, note the head elsewhere and give it to :meth:`verify`.

    A new file is made under another name and then linked to its own, whole: a crash leaves no half-made ledger, and
    an empty file is a damaged one.  Only its owner may read it, unless you change that.

    The clock is an argument so that a test or a simulation can hold it still; a real client needs the real one.

    >>> import tempfile
    >>> from pausefl.privacy import Geometric
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = SqliteLedger(Path(folder) / "ledger.db")
    ...     charge = ledger.reserve("clinic-7", "run-1/1", Geometric(budget=40.0, decay=0.04))
    ...     charge.play, round(charge.epsilon, 4), ledger.verify().rows
    (1, 1.5684, 1)
    """

    __slots__ = ("_clock", "_rows", "_timeout", "_touched", "path")

    def __init__(
        self, path: str | Path, *, clock: Callable[[], float] = time.time, timeout: float = 30.0, create: bool = True
    ) -> None:
        require(math.isfinite(timeout) and timeout >= 0.0, "timeout", timeout, "0 seconds or more", "30 is the default")
        self.path = Path(path).absolute()
        self._clock = clock
        self._timeout = timeout
        self._rows: list[Row] = []
        self._touched: tuple[int, ...] | None = None
        # In this order: a ledger that is being used has its file before it has a journal.
        journal = Path(f"{self.path}-journal").exists()
        if not self.path.exists():
            if journal:
                raise self._broken("its journal is there, but its file is not")
            if not create:
                raise LedgerError(f"ledger is {str(path)!r}, but there is no such file; check the path")
            try:
                _create(self.path)
            except (OSError, sqlite3.Error) as error:
                raise self._failed(error) from error
        self.verify()

    def reserve(
        self, subject: str, release: str, schedule: Schedule, *,
        mechanism: Mechanism | None = None, noise: Noise | None = None,
    ) -> Charge:  # fmt: skip
        """Charge the subject's next epsilon to ``release``; only then may anything leave under that name.

        When this returns, the row is on the disk.  Name the ``mechanism`` and its ``noise``: unit and delta are taken
        from them, and an epsilon that the mechanism could not use is refused instead of charged.  Left out, they are
        recorded as unstated.
        """
        wanted = Reservation(subject, release, schedule, mechanism, noise)
        with self._connection() as connection:
            # Closing a connection in mid-transaction rolls back, so every way out but a commit charges nothing.
            connection.execute("BEGIN IMMEDIATE")
            rows = self._rows = self._checked(connection, self._rows)
            charge = next_charge(past_of(rows, subject), wanted, float(self._clock()))
            row = row_of(rows[-1][-1] if rows else START, len(rows) + 1, charge)
            inserted = connection.execute(INSERT, row).rowcount
            counted = connection.execute("UPDATE head SET rows = ?, hash = ?", (row[0], row[-1])).rowcount
            if (inserted, counted) != (1, 1):
                raise self._broken("it did not take the new row")
            connection.execute("COMMIT")
        self._rows, self._touched = [*rows, row], _touched(self.path)
        return charge

    def charges(self, subject: str) -> tuple[Charge, ...]:
        """Return the subject's rows in order; none if it was never charged."""
        check_names(subject=subject)
        with self._connection() as connection:
            found = connection.execute(f"{_SELECT} WHERE subject = ? ORDER BY play", (subject,)).fetchall()
        return tuple(charge_of(row) for row in found)

    def subjects(self) -> tuple[str, ...]:
        """Return all subjects, in order of their first charge."""
        with self._connection() as connection:
            found = connection.execute("SELECT subject FROM charges GROUP BY subject ORDER BY min(seq)").fetchall()
        return tuple(name for (name,) in found)

    def checked_releases(self) -> dict[str, int]:
        """Return how many releases each subject has, in order of first charge, without opening the file again.

        It tells of the rows that the last opening, ``reserve`` (also one that refused) or ``verify`` has checked.
        """
        return dict(Counter(charge_of(row).subject for row in self._rows))

    def spent(self, subject: str) -> Epsilon:
        """Return what the subject has leaked in all, by plain addition (PAUSE, Theorem 3)."""
        return math.fsum(charge.epsilon for charge in self.charges(subject))

    def spent_delta(self, subject: str) -> float:
        """Return the delta that goes with ``spent``, by plain addition too."""
        return math.fsum(charge.delta for charge in self.charges(subject))

    def verify(self, head: str | None = None) -> Head:
        """Recompute every hash, or raise; with a ``head`` noted earlier, also require that the chain contains it."""
        known = self._rows
        with self._connection() as connection:
            connection.execute("BEGIN")
            rows = self._checked(connection, known, afresh=True)
        hashes = [START, *(row[-1] for row in rows)]
        if head is not None and head not in hashes:
            raise self._broken(f"it does not contain the head {head!r}: it is an older copy or was rewritten")
        self._rows, self._touched = rows, None
        return Head(len(rows), hashes[-1])

    def _checked(self, connection: sqlite3.Connection, known: list[Row], *, afresh: bool = False) -> list[Row]:
        """Return all rows, if everything about the file is as it should be."""
        try:
            _check_schema(connection)
            head = connection.execute("SELECT rows, hash FROM head").fetchall()
            # The head too: another process may have charged between our commit and our look at the file.
            if not afresh and known and self._touched == _touched(self.path) and head == [(len(known), known[-1][-1])]:
                return known
            rows = connection.execute(f"{_SELECT} ORDER BY seq").fetchall()
            same = rows[: len(known)] == known
            check_rows(rows, len(known) if same and not afresh else 0)
            if head != [(len(rows), rows[-1][-1] if rows else START)]:
                raise BrokenChain("its last rows are not the ones its head counts")
            if not same:
                raise BrokenChain("it is not the file that was opened: it is an older copy or was rewritten")
            # An index that disagrees with its table would hide rows from a query.
            if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
                raise BrokenChain("its file is damaged")
        except BrokenChain as why:
            raise self._broken(str(why)) from None
        return rows

    def _broken(self, what: str) -> LedgerError:
        return LedgerError(
            f"ledger {str(self.path)!r} cannot be trusted: {what}; release nothing, restore it from a backup"
        )

    def _failed(self, error: Exception) -> LedgerError:
        reason = " ".join(str(error).split())
        return LedgerError(
            f"ledger {str(self.path)!r} failed: {reason}; nothing was charged, so release nothing: "
            "free the lock or the disk, mend its permissions, or restore it from a backup"
        )

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            # Never created here: a ledger deleted in mid-session must not come back empty.
            uri = f"{self.path.as_uri()}?mode=rw"
            with closing(sqlite3.connect(uri, uri=True, timeout=self._timeout, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                yield connection
        except (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError) as error:  # also text that a fault made illegible
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
                raise self._broken("it is not a pausefl ledger") from None
            raise self._failed(error) from error


def _create(path: Path) -> None:
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
        sync_folder(path.parent)
    finally:
        Path(name).unlink()


def _touched(path: Path) -> tuple[int, ...] | None:
    """Return what changes whenever the file is written to or exchanged; None if it cannot be told."""
    try:
        found = path.stat()  # never by opening it: closing any descriptor of the file would drop our locks on it
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _check_schema(connection: sqlite3.Connection) -> None:
    """Raise unless the tables and triggers are exactly those that :func:`_create` makes."""
    if connection.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
        raise BrokenChain("it is not a pausefl ledger")
    if connection.execute("PRAGMA user_version").fetchone() != (_VERSION,):
        raise BrokenChain("another version of pausefl wrote it")
    if connection.execute(_DESCRIBE).fetchall() != _expected():
        raise BrokenChain("its tables or triggers are not those pausefl makes")


@lru_cache(maxsize=1)
def _expected() -> list[Row]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(_SCHEMA)
        return connection.execute(_DESCRIBE).fetchall()
