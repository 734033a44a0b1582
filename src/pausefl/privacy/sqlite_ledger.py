"""The durable ledger: one SQLite file, a row per release, each row chained by hash to the one before.

A connection lives for one call, so nothing is shared among threads or across a fork.  The journal is SQLite's rollback
journal with ``synchronous=EXTRA``: a commit that returned survives the power cut that follows, and the whole ledger
is always one file.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from pausefl.errors import LedgerError, require
from pausefl.privacy.ledger import UNSTATED, Charge, History, Ledger, check_names, next_charge
from pausefl.privacy.schedule import Schedule

_APPLICATION, _VERSION = 0x50415553, 1
_COLUMNS = ", ".join(field.name for field in fields(Charge))
_SCHEMA = f"""
CREATE TABLE charges (
  seq INTEGER PRIMARY KEY, subject TEXT NOT NULL, release TEXT NOT NULL, play INTEGER NOT NULL, epsilon REAL NOT NULL,
  budget REAL NOT NULL, schedule TEXT NOT NULL, unit TEXT NOT NULL, mechanism TEXT NOT NULL, time REAL NOT NULL,
  hash TEXT NOT NULL, UNIQUE (subject, release), UNIQUE (subject, play));
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), rows INTEGER NOT NULL, hash TEXT NOT NULL);
INSERT INTO head VALUES (1, 0, '{"0" * 64}');
CREATE TRIGGER no_update BEFORE UPDATE ON charges BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON charges BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Head:
    """Where the chain ends.  Noted elsewhere, it later proves that a ledger still holds all it held then."""

    rows: int
    hash: str


class SqliteLedger(Ledger):
    """The ledger of a real client: durable before release, safe among processes, threads and forks.

    Opening one checks the whole chain; every ``reserve`` checks its end.  What a chain cannot show: the whole file
    replaced by an older copy, or rewritten by somebody who recomputes every hash.  Against both, note the head
    elsewhere and give it to :meth:`verify`.

    The clock is an argument so that a test or a simulation can hold it still; a real client needs the real one.

    >>> import tempfile
    >>> from pausefl.privacy import Geometric
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = SqliteLedger(Path(folder) / "ledger.db")
    ...     charge = ledger.reserve("clinic-7", "run-1/1", Geometric(budget=40.0, decay=0.04))
    ...     charge.play, round(charge.epsilon, 4), ledger.verify().rows
    (1, 1.5684, 1)
    """

    __slots__ = ("_clock", "_timeout", "path")

    def __init__(
        self, path: str | Path, *, clock: Callable[[], float] = time.time, timeout: float = 30.0, create: bool = True
    ) -> None:
        require(math.isfinite(timeout) and timeout >= 0.0, "timeout", timeout, "0 seconds or more", "30 is the default")
        self.path = Path(path).absolute()
        self._clock = clock
        self._timeout = timeout
        if not create and not self.path.exists():
            raise LedgerError(f"ledger is {str(path)!r}, but there is no such file; check the path")
        if create:
            with self._transaction(create=True) as connection:
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
                    for statement in _statements(_SCHEMA):
                        connection.execute(statement)
        self.verify()

    def reserve(
        self, subject: str, release: str, schedule: Schedule, *, unit: str = UNSTATED, mechanism: str = UNSTATED
    ) -> Charge:
        """Charge the subject's next epsilon to ``release``; when this returns, the row is on the disk."""
        check_names(subject=subject, release=release)
        with self._transaction() as connection:
            head = self._check_end(connection)
            rows = connection.execute(
                "SELECT play, epsilon FROM charges WHERE subject = ? ORDER BY play", (subject,)
            ).fetchall()
            if any(play != number for number, (play, _) in enumerate(rows, 1)):
                raise self._broken(f"the plays of {subject!r} have a gap")
            first = connection.execute(
                "SELECT budget, schedule FROM charges WHERE subject = ? AND play = 1", (subject,)
            )
            same = connection.execute("SELECT 1 FROM charges WHERE subject = ? AND release = ?", (subject, release))
            past = History([epsilon for _, epsilon in rows], first.fetchone(), same.fetchone() is not None)
            charge = next_charge(past, subject, release, schedule, unit, mechanism, float(self._clock()))
            digest = _digest(head.hash, head.rows + 1, charge)
            connection.execute(
                f"INSERT INTO charges (seq, {_COLUMNS}, hash) VALUES ({', '.join('?' * 11)})",  # noqa: S608
                (head.rows + 1, *astuple(charge), digest),
            )
            connection.execute("UPDATE head SET rows = ?, hash = ?", (head.rows + 1, digest))
        return charge

    def charges(self, subject: str) -> tuple[Charge, ...]:
        """Return the subject's rows in order."""
        with self._connection() as connection:
            return tuple(_charges(connection, subject))

    def subjects(self) -> tuple[str, ...]:
        """Return all subjects, in order of their first charge."""
        with self._connection() as connection:
            found = connection.execute("SELECT subject FROM charges GROUP BY subject ORDER BY min(seq)").fetchall()
        return tuple(name for (name,) in found)

    def verify(self, head: str | None = None) -> Head:
        """Recompute every hash, or raise; with a ``head`` noted earlier, also require that the chain contains it."""
        with self._connection() as connection:
            connection.execute("BEGIN")
            if connection.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
                raise self._broken("it is not a pausefl ledger")
            if connection.execute("PRAGMA user_version").fetchone() != (_VERSION,):
                raise self._broken("another version of pausefl wrote it")
            # An index that disagrees with its table would hide rows from a query.
            if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
                raise self._broken("its file is damaged")
            found, previous, count = head == "0" * 64, "0" * 64, 0
            for seq, *values, digest in connection.execute(f"SELECT seq, {_COLUMNS}, hash FROM charges ORDER BY seq"):  # noqa: S608
                count += 1
                if seq != count or _digest(previous, seq, Charge(*values)) != digest:
                    raise self._broken(f"row {count} was edited, moved or removed")
                previous = digest
                found = found or digest == head
            end = self._check_end(connection)
            if end != Head(count, previous):
                raise self._broken(f"it has {count} rows, but its head counts {end.rows}")
        if head is not None and not found:
            raise self._broken(f"it does not contain the head {head!r}: it is an older copy or was rewritten")
        return end

    def _check_end(self, connection: sqlite3.Connection) -> Head:
        head = connection.execute("SELECT rows, hash FROM head").fetchall()
        last = connection.execute("SELECT seq, hash FROM charges ORDER BY seq DESC LIMIT 1").fetchall()
        if len(head) != 1 or (last or [(0, "0" * 64)]) != head:
            raise self._broken("its last rows are not the ones its head counts")
        return Head(*head[0])

    def _broken(self, what: str) -> LedgerError:
        return LedgerError(
            f"ledger {str(self.path)!r} cannot be trusted: {what}; release nothing, restore it from a backup"
        )

    @contextmanager
    def _connection(self, create: bool = False) -> Iterator[sqlite3.Connection]:
        try:
            # Only the constructor may create: a ledger deleted in mid-session must not come back empty.
            uri = f"{self.path.as_uri()}?mode={'rwc' if create else 'rw'}"
            with closing(sqlite3.connect(uri, uri=True, timeout=self._timeout, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                yield connection
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise LedgerError(
                f"ledger {str(self.path)!r} failed: {error}; nothing was charged, so release nothing: "
                "free the lock or the disk, mend its permissions, or restore it from a backup"
            ) from error

    @contextmanager
    def _transaction(self, create: bool = False) -> Iterator[sqlite3.Connection]:
        # Closing a connection in mid-transaction rolls back, so every way out but the commit charges nothing.
        with self._connection(create) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")


def _charges(connection: sqlite3.Connection, subject: str) -> list[Charge]:
    found = connection.execute(f"SELECT {_COLUMNS} FROM charges WHERE subject = ? ORDER BY play", (subject,))  # noqa: S608
    return [Charge(*row) for row in found]


def _digest(previous: str, seq: int, charge: Charge) -> str:
    return hashlib.sha256(json.dumps([previous, seq, *astuple(charge)]).encode()).hexdigest()


def _statements(script: str) -> list[str]:
    # executescript would commit the open transaction first, and two processes could then both create the tables.
    parts, statement = [], ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            parts.append(statement)
            statement = ""
    return parts
