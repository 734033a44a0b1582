"""The ledger: who has leaked how much, in one SQLite file, written down before anything leaves.

A row per release, each chained by hash to the one before; append-only, without refunds.  The rule that decides
whether a row may be written is in :mod:`pausefl.privacy.ledger.charge`.

A connection lives for one call, so nothing is shared among threads or across a fork.  The journal is SQLite's rollback
journal with ``synchronous=EXTRA``: a commit that returned survives the power cut that follows, and the whole ledger
is always one file.
"""

from __future__ import annotations

import math
import secrets
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pausefl.errors import LedgerError, require
from pausefl.privacy.ledger.charge import RETIRED, Charge, Past, Reservation, check_names, next_charge, retirement
from pausefl.privacy.ledger.file_faults import broken, missing, only_a_backup, other_version, switched
from pausefl.privacy.ledger.hash_chain import BrokenChain, Head, Row, charge_of, check_rows, past_of, row_of, start_of
from pausefl.privacy.ledger.sqlite_file import (
    BACKUP,
    DEPLOYMENT,
    INSERT,
    LEDGER,
    SELECT,
    SIMULATION,
    VERSION,
    check_schema,
    connected,
    copy_into,
    fill_empty,
    make_file,
    read_identity,
    read_number,
    remove_strays,
    touched,
)
from pausefl.privacy.mechanisms.base import Mechanism
from pausefl.privacy.mechanisms.noise import Noise
from pausefl.privacy.schedule import Schedule
from pausefl.types import Epsilon

_UNREAD = "", ""


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
    every hash.  Against both, note the head elsewhere and give it to :meth:`verify` or :meth:`contains`.

    A ledger is made once, by :meth:`create`.  It has a random ``id`` and a purpose, to which every hash is bound.
    Opening never makes one: a ledger that is missing is a fault, because a new one would be a second budget.

    The clock is an argument so that a test or a simulation can hold it still; a real client needs the real one.

    >>> import tempfile
    >>> from pausefl.privacy import Geometric
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = SqliteLedger.create(Path(folder) / "ledger.db")
    ...     charge = ledger.reserve("clinic-7", "run-1/1", Geometric(budget=40.0, decay=0.04))
    ...     charge.play, round(charge.epsilon, 4), ledger.verify().rows
    (1, 1.5684, 1)
    """

    __slots__ = ("_clock", "_identity", "_rows", "_timeout", "_touched", "is_backup", "path")

    def __init__(self, path: str | Path, *, clock: Callable[[], float] = time.time, timeout: float = 30.0) -> None:
        require(math.isfinite(timeout) and timeout >= 0.0, "timeout", timeout, "0 seconds or more", "30 is the default")
        self.path = Path(path).resolve()
        self._clock = clock
        self._timeout = timeout
        self._identity, self.is_backup = _UNREAD, False
        self._rows: list[Row] = []
        self._touched: tuple[int, ...] | None = None
        # In this order: a ledger that is being used has its file before it has a journal.
        journal = Path(f"{self.path}-journal").exists()
        if not self.path.exists():
            if journal:
                raise broken(self.path, "its journal is there, but its file is not")
            raise missing(self.path)
        remove_strays(self.path.parent, self.path.name)
        self.verify()

    @classmethod
    def create(
        cls, path: str | Path, *,
        simulation: bool = False, clock: Callable[[], float] = time.time, timeout: float = 30.0,
    ) -> SqliteLedger:  # fmt: skip
        """Make a new ledger and open it; a file that exists is refused.

        The file is made under another name and then linked to its own, whole: a crash leaves no half-made ledger, and
        an empty file is a damaged one.  Only its owner may read it.  A ``simulation`` is marked as one for ever.
        """
        target = Path(path).resolve()
        purpose = SIMULATION if simulation else DEPLOYMENT
        make_file(target, target.name, lambda made: fill_empty(made, secrets.token_hex(16), purpose), cls)
        return cls(target, clock=clock, timeout=timeout)

    @property
    def id(self) -> str:
        """32 random hexadecimal digits, chosen when the ledger was made."""
        return self._identity[0]

    @property
    def simulation(self) -> bool:
        """Whether the ledger was made for a simulation: nothing in it says anything about real data."""
        return self._identity[1] == SIMULATION

    @property
    def head(self) -> Head:
        """Where the chain ended when it was last checked; the file is not opened again."""
        return self._end(self._rows)

    def contains(self, head: Head) -> bool:
        """Whether the chain, as last checked, went through this head; without rows that is the start of this ledger."""
        rows = self._rows
        return 0 <= head.rows <= len(rows) and head == self._end(rows[: head.rows])

    def reserve(
        self, subject: str, release: str, schedule: Schedule, *,
        mechanism: Mechanism | None = None, noise: Noise | None = None, dimension: int | None = None,
    ) -> Charge:  # fmt: skip
        """Charge the subject's next epsilon to ``release``; only then may anything leave under that name.

        When this returns, the row is on the disk.  Name the ``mechanism`` and its ``noise``: unit and delta are taken
        from them, and an epsilon that the mechanism could not use is refused instead of charged.  ``dimension`` is
        how many coordinates leave.  Left out, they are recorded as unstated.
        """
        wanted = Reservation(subject, release, schedule, mechanism, noise, dimension)
        return self._append(subject, lambda past, now: next_charge(past, wanted, now))

    def retire(self, subject: str) -> Charge:
        """Spend all that the subject has left, for ever; also that of a subject which never released anything.

        When this returns, the row is on the disk, and every ``reserve`` for this subject is refused.
        """
        check_names(subject=subject)
        return self._append(subject, lambda past, now: retirement(past, subject, now))

    def require_writable(self) -> None:
        """Raise if a charge could not be written now: write to the file, and take it back."""
        with connected(self.path, self._timeout) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE head SET rows = rows + 1")  # SQLite does not write what changes nothing
            connection.execute("ROLLBACK")

    def _append(self, subject: str, decide: Callable[[Past, float], Charge]) -> Charge:
        with connected(self.path, self._timeout) as connection:
            # Closing a connection in mid-transaction rolls back, so every way out but a commit charges nothing.
            connection.execute("BEGIN IMMEDIATE")
            rows = self._rows = self._checked(connection, self._rows)
            if self.is_backup:
                raise only_a_backup(self.path)
            charge = decide(past_of(rows, subject), float(self._clock()))
            row = row_of(self._end(rows).hash, len(rows) + 1, charge)
            inserted = connection.execute(INSERT, row).rowcount
            counted = connection.execute("UPDATE head SET rows = ?, hash = ?", (row[0], row[-1])).rowcount
            if (inserted, counted) != (1, 1):
                raise broken(self.path, "it did not take the new row")
            connection.execute("COMMIT")
        self._rows, self._touched = [*rows, row], touched(self.path)
        return charge

    def charges(self, subject: str) -> tuple[Charge, ...]:
        """Return the subject's rows in order; none if it was never charged."""
        check_names(subject=subject)
        with connected(self.path, self._timeout) as connection:
            found = connection.execute(f"{SELECT} WHERE subject = ? ORDER BY play", (subject,)).fetchall()
        return tuple(charge_of(row) for row in found)

    def subjects(self) -> tuple[str, ...]:
        """Return all subjects, in order of their first charge."""
        with connected(self.path, self._timeout) as connection:
            found = connection.execute("SELECT subject FROM charges GROUP BY subject ORDER BY min(seq)").fetchall()
        return tuple(name for (name,) in found)

    def checked_releases(self) -> dict[str, int]:
        """Return how many releases each subject has, in order of first charge, without opening the file again.

        It tells of the rows that the last opening, ``reserve`` (also one that refused) or ``verify`` has checked.
        """
        charges = [charge_of(row) for row in self._rows]
        found = dict.fromkeys((charge.subject for charge in charges), 0)
        for charge in charges:
            found[charge.subject] += charge.release != RETIRED
        return found

    def checked_charges(self, subject: str) -> list[Charge]:
        """Return the subject's rows in order, as they were last checked, without opening the file again."""
        return [charge for charge in map(charge_of, self._rows) if charge.subject == subject]

    def spent(self, subject: str) -> Epsilon:
        """Return what the subject has leaked in all: each row says what it added (PAUSE, Theorem 3, or zCDP)."""
        return math.fsum(charge.epsilon for charge in self.charges(subject))

    def spent_delta(self, subject: str) -> float:
        """Return the delta that goes with ``spent``, by plain addition too."""
        return math.fsum(charge.delta for charge in self.charges(subject))

    def backup(self, target: str | Path) -> Head:
        """Copy the ledger, checked, to a new file that can be read and restored, but never charged.

        Anybody may go on charging the ledger meanwhile: the copy is of one moment.
        """
        return self._copied(target, BACKUP, self.id).head

    @classmethod
    def restore(cls, backup: str | Path, target: str | Path) -> SqliteLedger:
        """Make a backup a ledger again, in a new file, and open it; the backup stays.

        Only the caller can know whether the backup is the newest.  An older one forgets releases, and then its budget
        would be spent twice: compare the head with one that was noted elsewhere, before, with :meth:`contains`.
        """
        kept = cls(backup)
        if not kept.is_backup:
            raise LedgerError(f"backup is {str(backup)!r}, but that is a ledger itself; name what `backup` has made")
        return kept._copied(target, LEDGER, Path(target).name)

    def _copied(self, target: str | Path, kind: int, stem: str) -> SqliteLedger:
        path = Path(target).resolve()
        with connected(self.path, self._timeout) as connection:
            connection.execute("BEGIN")
            rows = self._checked(connection, self._rows, afresh=True)
            end = self._end(rows).hash
            fill = partial(copy_into, source=connection, kind=kind)
            make_file(path, stem, fill, lambda made: SqliteLedger(made).verify(end))
        return SqliteLedger(path, clock=self._clock, timeout=self._timeout)

    def verify(self, head: str | None = None) -> Head:
        """Recompute every hash, or raise; with a ``head`` noted earlier, also require that the chain contains it."""
        with connected(self.path, self._timeout) as connection:
            connection.execute("BEGIN")
            rows = self._checked(connection, self._rows, afresh=True)
        if head is not None and head not in (self._end([]).hash, *(row[-1] for row in rows)):
            raise broken(self.path, f"it does not contain the head {head!r}: it is an older copy or was rewritten")
        self._rows, self._touched = rows, None
        return self._end(rows)

    def _end(self, rows: list[Row]) -> Head:
        return Head(len(rows), rows[-1][-1] if rows else start_of(*self._identity))

    def _checked(self, connection: sqlite3.Connection, known: list[Row], *, afresh: bool = False) -> list[Row]:
        """Return all rows, if everything about the file is as it should be."""
        try:
            kind, version = (read_number(connection, name) for name in ("application_id", "user_version"))
            if kind not in (LEDGER, BACKUP):
                raise BrokenChain("it is not a pausefl ledger")
            if version != VERSION:
                raise other_version(self.path, version, VERSION)
            check_schema(connection)
            if connection.execute("PRAGMA journal_mode").fetchone() != ("delete",):
                raise switched(self.path)
            identity = read_identity(connection)
            if self._identity not in (_UNREAD, identity):
                raise BrokenChain("it is not the file that was opened: it has another id")
            head = connection.execute("SELECT rows, hash FROM head").fetchall()
            # The head too: another process may have charged between our commit and our look at the file.
            if not afresh and known and self._touched == touched(self.path) and head == [(len(known), known[-1][-1])]:
                return known
            rows = connection.execute(f"{SELECT} ORDER BY seq").fetchall()
            same = rows[: len(known)] == known
            start = start_of(*identity)
            check_rows(start, rows, len(known) if same and not afresh else 0)
            if head != [(len(rows), rows[-1][-1] if rows else start)]:
                raise BrokenChain("its last rows are not the ones its head counts")
            if not same:
                raise BrokenChain("it is not the file that was opened: it is an older copy or was rewritten")
            # An index that disagrees with its table would hide rows from a query.
            if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
                raise BrokenChain("its file is damaged")
        except BrokenChain as why:
            raise broken(self.path, str(why)) from None
        self._identity, self.is_backup = identity, kind == BACKUP
        return rows
