"""The durable ledger: one SQLite file, a row per release, each row chained by hash to the one before.

A connection lives for one call, so nothing is shared among threads or across a fork.  The journal is SQLite's rollback
journal with ``synchronous=EXTRA``: a commit that returned survives the power cut that follows, and the whole ledger
is always one file.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pausefl.errors import LedgerError, require
from pausefl.privacy.ledger.base import Ledger
from pausefl.privacy.ledger.charge import Charge, Request, check_names, next_charge
from pausefl.privacy.ledger.hash_chain import START, BrokenChain, Row, charge_of, check_rows, history, row_of
from pausefl.privacy.ledger.sqlite_file import (
    INSERT,
    SELECT,
    Stamp,
    check_end,
    check_schema,
    data_version,
    stamp,
    stamp_since,
)
from pausefl.privacy.ledger.sqlite_file import create as create_file
from pausefl.privacy.mechanisms.base import Mechanism
from pausefl.privacy.mechanisms.noise import Noise
from pausefl.privacy.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Head:
    """Where the chain ends.  Noted elsewhere, it later proves that a ledger still holds all it held then."""

    rows: int
    hash: str


@dataclass(frozen=True, slots=True)
class Known:
    """The rows an open ledger has checked, and the file's stamp at that moment, if it is certain."""

    rows: list[Row]
    stamp: Stamp | None

    @property
    def end(self) -> tuple[int, str]:
        """How many rows there are, and the last one's hash."""
        return len(self.rows), self.rows[-1][-1] if self.rows else START


class SqliteLedger(Ledger):
    """The ledger of a real client: durable before release, safe among processes, threads and forks.

    Opening one and every ``reserve`` check its tables, its triggers and the whole chain.  An open ledger remembers the
    rows it has checked; it looks at them again when anybody else has written to the file, and then all of them must
    still be there: also an older copy put in its place shows.  What a chain cannot show to somebody who opens
    it afresh: an older copy, or a rewriting that recomputes every hash.  Against both, note the head elsewhere and
    give it to :meth:`verify`.

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

    __slots__ = ("_clock", "_known", "_timeout", "path")

    def __init__(
        self, path: str | Path, *, clock: Callable[[], float] = time.time, timeout: float = 30.0, create: bool = True
    ) -> None:
        require(math.isfinite(timeout) and timeout >= 0.0, "timeout", timeout, "0 seconds or more", "30 is the default")
        self.path = Path(path).absolute()
        self._clock = clock
        self._timeout = timeout
        self._known = Known([], None)
        # In this order: a ledger that is being used has its file before it has a journal.
        journal = Path(f"{self.path}-journal").exists()
        if not self.path.exists():
            if journal:
                raise self._broken("its journal is there, but its file is not")
            if not create:
                raise LedgerError(f"ledger is {str(path)!r}, but there is no such file; check the path")
            try:
                create_file(self.path)
            except (OSError, sqlite3.Error) as error:
                raise self._failed(error) from error
        self.verify()

    def reserve(
        self, subject: str, release: str, schedule: Schedule, *,
        mechanism: Mechanism | None = None, noise: Noise | None = None,
    ) -> Charge:  # fmt: skip
        """Charge the subject's next epsilon to ``release``; when this returns, the row is on the disk."""
        request = Request(subject, release, schedule, mechanism, noise)
        known = self._known
        with self._transaction() as connection:
            rows = self._checked(connection, known)
            charge = next_charge(history(rows, subject), request, float(self._clock()))
            row = row_of(rows[-1][-1] if rows else START, len(rows) + 1, charge)
            inserted = connection.execute(INSERT, row).rowcount
            counted = connection.execute("UPDATE head SET rows = ?, hash = ?", (row[0], row[-1])).rowcount
            if (inserted, counted) != (1, 1):
                raise self._broken("it did not take the new row")
            before = data_version(connection)
            connection.execute("COMMIT")
            self._known = Known([*rows, row], stamp_since(connection, self.path, before))
        return charge

    def charges(self, subject: str) -> tuple[Charge, ...]:
        """Return the subject's rows in order."""
        check_names(subject=subject)
        with self._connection() as connection:
            found = connection.execute(f"{SELECT} WHERE subject = ? ORDER BY play", (subject,)).fetchall()
        return tuple(charge_of(row) for row in found)

    def subjects(self) -> tuple[str, ...]:
        """Return all subjects, in order of their first charge."""
        with self._connection() as connection:
            found = connection.execute("SELECT subject FROM charges GROUP BY subject ORDER BY min(seq)").fetchall()
        return tuple(name for (name,) in found)

    def verify(self, head: str | None = None) -> Head:
        """Recompute every hash, or raise; with a ``head`` noted earlier, also require that the chain contains it."""
        known = self._known
        with self._connection() as connection:
            connection.execute("BEGIN")
            rows = self._checked(connection, known, afresh=True)
        hashes = [START, *(row[-1] for row in rows)]
        if head is not None and head not in hashes:
            raise self._broken(f"it does not contain the head {head!r}: it is an older copy or was rewritten")
        self._known = Known(rows, None)
        return Head(len(rows), hashes[-1])

    def _checked(self, connection: sqlite3.Connection, known: Known, *, afresh: bool = False) -> list[Row]:
        """Return all rows, if everything about the file is as it should be."""
        try:
            check_schema(connection)
            end = check_end(connection)
            if not afresh and known.stamp is not None and known.stamp == stamp(self.path) and end == known.end:
                return known.rows
            rows = connection.execute(f"{SELECT} ORDER BY seq").fetchall()
            same = rows[: len(known.rows)] == known.rows
            check_rows(rows, len(known.rows) if same and not afresh else 0)
            if end != Known(rows, None).end:
                raise BrokenChain(f"it has {len(rows)} rows, but its head counts {end[0]}")
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

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        # Closing a connection in mid-transaction rolls back, so every way out but a commit charges nothing.
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
