"""The ledger: who has leaked how much, in one SQLite file, written down before anything leaves.

A row per release, each chained by hash to the one before; append-only, without refunds.  The rule that decides
whether a row may be written is in :mod:`pausefl.privacy.ledger.charge`.

A connection lives for one call, or for several of one thread, so nothing is shared among threads or across a fork.  The
journal is SQLite's rollback
journal with ``synchronous=EXTRA``: a commit that returned survives the power cut that follows, and the whole ledger
is always one file.
"""

from __future__ import annotations

import math
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from pausefl.errors import LedgerError, require
from pausefl.privacy.ledger.accounts import Account, past_of
from pausefl.privacy.ledger.charge import Charge, Past, Reservation, check_names, next_charge, retirement
from pausefl.privacy.ledger.file_faults import broken, missing, only_a_backup
from pausefl.privacy.ledger.file_seal import Checked, hash_again, hash_pieces, read_seal, write_seal
from pausefl.privacy.ledger.hash_chain import BrokenChain, Head, Row, charge_of, row_of, start_of
from pausefl.privacy.ledger.sqlite_check import check_all, ends_with, goes_through, is_last_row, read_head, read_kind
from pausefl.privacy.ledger.sqlite_file import (
    BACKUP,
    DEPLOYMENT,
    INSERT,
    LEDGER,
    SELECT,
    SIMULATION,
    connected,
    copy_into,
    fill_empty,
    is_settled,
    make_file,
    only_ledger_errors,
    pages_to_write,
    remove_strays,
    touched,
)
from pausefl.privacy.mechanisms.base import Mechanism
from pausefl.privacy.mechanisms.noise import Noise
from pausefl.privacy.schedule import Schedule
from pausefl.types import Epsilon

_NAMED = "SELECT 1 FROM charges WHERE subject = ? AND release = ?"


class SqliteLedger:
    """The charges of any number of subjects: stored before each release, and safe for processes, threads and forks.

    Args:
        path: The file of a ledger that exists; :meth:`create` makes one.
        clock: Tells the time of each row.  A test or a simulation may pass its own clock.  A real client needs the real
            one.
        timeout: For how many seconds to wait while another process uses the ledger.
        seal: A file in which the ledger remembers what it has checked, see below; None remembers nothing.

    A subject is the identity of a data set, not of a run.

    Fork while no other thread of the process is in a call of a ledger.  Otherwise SQLite tells the child for its whole
    life that the file is locked.  Then the child charges nothing, and may wait for ever.

    Law: ``reserve`` returns only when the charge is stored for good.  The plays of a subject are 1, 2, 3, … without
    gaps.  No release name is charged twice.  ``spent`` never falls, and never exceeds the budget.  ``spent_delta``
    never exceeds its limit.  The budget and the schedule of a subject never change.  A call that raises has charged
    nothing.  A charge cannot be taken back: a release that failed after its reservation stays charged.

    Opening a ledger checks its tables, its triggers, its file and the hash of every row.  An open ledger remembers what
    it has checked.  If the file was touched since then, ``reserve`` compares every byte of it, and checks all rows
    again if one of them differs.  So it also detects an older copy that was put in the file's place.  Two things cannot
    be detected by somebody who opens a ledger for the first time: an older copy, and a rewritten file in which every
    hash was recomputed.  Against both, note the head in another place and pass it to :meth:`verify` or
    :meth:`contains`.

    ``seal`` names a file in which the ledger remembers what it has checked, for the next opening: if the seal fits
    every byte of the ledger's file, no hash of a row is computed.  Keep the seal where only those can write who may
    change the ledger.  All hashes are computed again whenever a tenth of the rows is new, and by :meth:`verify`.

    A ledger is made once, by :meth:`create`.  It has a random ``id`` and a purpose, and every hash depends on both.
    Opening a ledger never makes one.  If a ledger is missing, that is an error, because a new one would be a second
    budget.

    >>> import tempfile
    >>> from pausefl.privacy import Geometric
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = SqliteLedger.create(Path(folder) / "ledger.db")
    ...     charge = ledger.reserve("clinic-7", "run-1/1", Geometric(budget=40.0, decay=0.04))
    ...     charge.play, round(charge.epsilon, 4), ledger.verify().rows
    (1, 1.5684, 1)
    """

    __slots__ = ("_clock", "_held", "_known", "_seal", "_timeout", "_touched", "is_backup", "path")

    def __init__(
        self, path: str | Path, *,
        clock: Callable[[], float] = time.time, timeout: float = 30.0, seal: str | Path | None = None,
    ) -> None:  # fmt: skip
        require(math.isfinite(timeout) and timeout >= 0.0, "timeout", timeout, "0 seconds or more", "30 is the default")
        self.path = Path(path).resolve()
        self._clock = clock
        self._timeout = timeout
        self._seal = None if seal is None else Path(seal)
        self._known: Checked | None = None
        self._touched: tuple[int, ...] | None = None
        self._held: tuple[tuple[int, int], sqlite3.Connection] | None = None
        self.is_backup = False
        # In this order: a ledger that is being used has its file before it has a journal.
        journal = Path(f"{self.path}-journal").exists()
        if not self.path.exists():
            if journal:
                raise broken(self.path, "its journal is there, but its file is not")
            raise missing(self.path)
        remove_strays(self.path.parent, self.path.name)
        self.catch_up()

    @classmethod
    def create(
        cls, path: str | Path, *,
        simulation: bool = False, clock: Callable[[], float] = time.time, timeout: float = 30.0,
    ) -> SqliteLedger:  # fmt: skip
        """Make a new ledger and open it; the file must not exist.

        The file is made under another name and then linked to its own, whole: a crash leaves no half-made ledger, and
        an empty file is a damaged one.  Only its owner may read it.

        Args:
            path: The file.
            simulation: Whether it is for a simulation.  The ledger is marked as such for ever.
            clock: Says the time of each row.
            timeout: For how many seconds to wait while another process uses the ledger.
        """
        target = Path(path).resolve()
        purpose = SIMULATION if simulation else DEPLOYMENT
        make_file(target, target.name, lambda made: fill_empty(made, secrets.token_hex(16), purpose), cls)
        return cls(target, clock=clock, timeout=timeout)

    @property
    def id(self) -> str:
        """32 random hexadecimal digits, chosen when the ledger was made."""
        return self._checked.identity[0]

    @property
    def simulation(self) -> bool:
        """Whether the ledger was made for a simulation: nothing in it says anything about real data."""
        return self._checked.identity[1] == SIMULATION

    @property
    def head(self) -> Head:
        """Where the chain ended when it was last checked; this does not open the file again."""
        return self._checked.head

    def catch_up(self) -> None:
        """Check the rows that anybody has charged since the last check, or raise as opening a ledger does."""
        with self._connected() as connection:
            connection.execute("BEGIN")
            self._check(connection)

    def contains(self, head: Head) -> bool:
        """Return whether the chain, as last checked, contains this head; that of no rows is the ledger's start."""
        if not 0 < head.rows < self.head.rows:
            return head in (self.head, self._start)
        with self._connected() as connection:
            return goes_through(connection, head)

    def reserve(
        self, subject: str, release: str, schedule: Schedule, *,
        mechanism: Mechanism | None = None, noise: Noise | None = None, dimension: int | None = None,
    ) -> Charge:  # fmt: skip
        """Charge the subject's next epsilon to ``release``; nothing may leave under that name before.

        When this returns, the row is on the disk.

        Args:
            subject: Whose data it is.
            release: The name of the release.
            schedule: The subject's schedule, always the same one.
            mechanism: What makes the release.  Unit and delta are taken from it, and an epsilon that it could not use
                is refused instead of charged.  Left out, they are recorded as unstated.
            noise: Where the noise comes from.  Left out, it is recorded as unstated.
            dimension: How many coordinates leave.  Left out, it is recorded as unstated.
        """
        wanted = Reservation(subject, release, schedule, mechanism, noise, dimension)
        return self._append(subject, lambda past, now: next_charge(past, wanted, now))

    def retire(self, subject: str) -> Charge:
        """Spend all that the subject has left, for ever; it need not have released anything before.

        When this returns, the row is on the disk, and every ``reserve`` for this subject is refused.
        """
        check_names(subject=subject)
        return self._append(subject, lambda past, now: retirement(past, subject, now))

    def require_writable(self) -> None:
        """Raise if a charge could not be written now; it writes to the file, and takes that back."""
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE head SET rows = rows + 1")  # SQLite does not write what changes nothing
            connection.execute("ROLLBACK")

    @contextmanager
    def held_open(self) -> Iterator[None]:
        """Let all calls of this thread share one connection; another thread or a fork still has its own."""
        if self._held is not None and self._held[0] == _whoever_calls():  # already
            yield
            return
        with connected(self.path, self._timeout) as connection:
            self._held = _whoever_calls(), connection
            try:
                yield
            finally:
                self._held = None

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection; on every way out a transaction that was not committed is rolled back."""
        held = self._held
        # Not in the midst of another call of this thread either, as from a clock: its transaction would be rolled back.
        if held is None or held[0] != _whoever_calls() or held[1].in_transaction:
            with connected(self.path, self._timeout) as connection:
                yield connection
            return
        with only_ledger_errors(self.path):
            held[1].execute("PRAGMA shrink_memory")  # forget the pages: they must come from the file again
            try:
                yield held[1]
            finally:
                held[1].rollback()

    def _append(self, subject: str, decide: Callable[[Past, float], Charge]) -> Charge:
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            checked = self._check(connection)
            if self.is_backup:
                raise only_a_backup(self.path)
            account = checked.accounts.get(subject)
            past = past_of(account, lambda name: bool(connection.execute(_NAMED, (subject, name)).fetchone()))
            charge = decide(past, float(self._clock()))
            row = row_of(checked.head.hash, checked.head.rows + 1, charge)
            inserted = connection.execute(INSERT, row).rowcount
            counted = connection.execute("UPDATE head SET rows = ?, hash = ?", (row[0], row[-1])).rowcount
            if (inserted, counted) != (1, 1):
                raise broken(self.path, "it did not take the new row")
            written = None if self._seal is None else pages_to_write(self.path)
            # What was written through mapped memory may leave no trace in the file's times.
            unchanged = hash_again(self.path, checked.pieces, written) == checked.pieces
            connection.execute("COMMIT")
            look = touched(self.path)
            pieces = hash_again(self.path, checked.pieces, written) if unchanged else None
        accounts = {**checked.accounts, subject: account.after(charge) if account else Account.of_first(charge)}
        self._known = replace(checked, head=Head(row[0], row[-1]), accounts=accounts, pieces=pieces)
        self._touched = look
        return charge

    def read_back(self) -> None:
        """Read from the file what was charged last, and raise if it is not there; then seal the ledger.

        A ledger without a seal is verified from its first row on.  The same happens if the file may not be the one that
        was checked.
        """
        known = self._checked
        if self._seal is None or known.pieces is None:
            self.verify()
            return
        with self._connected() as connection:
            connection.execute("BEGIN")
            found = connection.execute(f"{SELECT} WHERE seq = ?", (known.head.rows,)).fetchone()
            kept = found is None if known.head.rows == 0 else is_last_row(known, found)
            # Whoever has touched the file after the charge may have changed any row.
            if not kept or not ends_with(known, read_head(connection)) or self._touched != touched(self.path):
                self._check(connection, afresh=True)
                return
        write_seal(self._seal, known)

    def charges(self, subject: str) -> tuple[Charge, ...]:
        """Return the subject's rows in order; none if it was never charged."""
        check_names(subject=subject)
        with self._connected() as connection:
            found = connection.execute(f"{SELECT} WHERE subject = ? ORDER BY play", (subject,)).fetchall()
        return tuple(charge_of(row) for row in found)

    def knows(self, subject: str, release: str) -> bool:
        """Say whether a release of this name was charged to the subject."""
        check_names(subject=subject, release=release)
        with self._connected() as connection:
            return connection.execute(_NAMED, (subject, release)).fetchone() is not None

    def subjects(self) -> tuple[str, ...]:
        """Return all subjects, in order of their first charge."""
        with self._connected() as connection:
            found = connection.execute("SELECT subject FROM charges GROUP BY subject ORDER BY min(seq)").fetchall()
        return tuple(name for (name,) in found)

    def checked_releases(self) -> dict[str, int]:
        """Return how many releases each subject has, in order of first charge, without opening the file again.

        It counts the rows that the last opening, ``reserve`` (also one that refused) or ``verify`` has checked.
        """
        return {subject: account.releases for subject, account in self._checked.accounts.items()}

    def checked_past(self, subject: str) -> Past:
        """Return what the next charge depends on, as it was last checked, without opening the file again.

        It does not know the names of releases.
        """
        return past_of(self._checked.accounts.get(subject))

    def spent(self, subject: str) -> Epsilon:
        """Return what the subject has leaked in all; each row says what it added (PAUSE, Theorem 3, or zCDP)."""
        return math.fsum(charge.epsilon for charge in self.charges(subject))

    def spent_delta(self, subject: str) -> float:
        """Return the delta that belongs to ``spent``; it is a sum, too."""
        return math.fsum(charge.delta for charge in self.charges(subject))

    def backup(self, target: str | Path) -> Head:
        """Check the ledger, and copy it to a new file that can be read and restored, but never charged.

        Others may charge the ledger meanwhile.  The copy shows it at one moment.
        """
        return self._copied(target, BACKUP, self.id).head

    @classmethod
    def restore(cls, backup: str | Path, target: str | Path) -> SqliteLedger:
        """Make a backup a ledger again, in a new file, and open it; the backup stays.

        Only the caller can know whether the backup is the newest.  An older backup misses releases, and then its budget
        would be spent twice.  So use :meth:`contains` first, to compare it with a head that was noted in another place.
        """
        kept = cls(backup)
        if not kept.is_backup:
            raise LedgerError(
                f"backup is {str(backup)!r}, but that is a ledger itself; pass a file that `backup` has written"
            )
        return kept._copied(target, LEDGER, Path(target).name)

    def _copied(self, target: str | Path, kind: int, stem: str) -> SqliteLedger:
        path = Path(target).resolve()
        with self._connected() as connection:
            connection.execute("BEGIN")
            end = self._check(connection, afresh=True).head.hash
            fill = partial(copy_into, source=connection, kind=kind)
            make_file(path, stem, fill, lambda made: SqliteLedger(made).verify(end))
        return SqliteLedger(path, clock=self._clock, timeout=self._timeout)

    def verify(self, head: str | None = None) -> Head:
        """Recompute every hash; raise if one is wrong, or if the chain does not contain a ``head`` noted earlier."""
        with self._connected() as connection:
            connection.execute("BEGIN")
            end = self._check(connection, afresh=True).head
            known = head in (None, end.hash, self._start.hash)
            if not known and connection.execute("SELECT 1 FROM charges WHERE hash = ?", (head,)).fetchone() is None:
                raise broken(
                    self.path,
                    f"it does not contain the head {head!r}; if you typed the head correctly, the ledger is an older "
                    "copy or was rewritten",
                )
        return end

    @property
    def _checked(self) -> Checked:
        if self._known is None:
            raise broken(self.path, "it was never checked")
        return self._known

    @property
    def _start(self) -> Head:
        return Head(0, start_of(*self._checked.identity))

    def _check(self, connection: sqlite3.Connection, *, afresh: bool = False) -> Checked:
        """Return what is in the file, if everything about it is as it should be, and remember it.

        Every hash is computed if that is wanted ``afresh``, and unless the file is the one that was checked before.
        """
        look = touched(self.path)
        try:
            (identity, self.is_backup), known = read_kind(connection, self.path), self._known
            if known is not None and known.identity != identity:
                raise BrokenChain("it is not the file that was opened: it has another id")
            head = read_head(connection)
            # The head too: another process may have charged between our commit and our look at the file.
            if (
                not afresh
                and known is not None
                and look is not None
                and self._touched == look
                and ends_with(known, head)
            ):
                return known
            pieces = hash_pieces(self.path)
            found = None if afresh else self._found_before(pieces, identity, head)
            if found is None:
                found = check_all(connection, identity, head, pieces)
                if self._seal is not None:
                    write_seal(self._seal, found)
            if known is not None and not (known.head == found.head or goes_through(connection, known.head)):
                raise BrokenChain("it is not the file that was opened: it is an older copy or was rewritten")
        except BrokenChain as why:
            raise broken(self.path, str(why)) from None
        self._known, self._touched = found, look if is_settled(look) and look == touched(self.path) else None
        return found

    def _found_before(
        self, pieces: tuple[bytes, ...] | None, identity: tuple[str, str], head: list[Row]
    ) -> Checked | None:  # fmt: skip
        """Return what an earlier check of this very file has found; None if there was none, or if one is due."""
        for before in (self._known, None if self._seal is None else read_seal(self._seal)):
            if pieces is None or before is None or before.is_due:
                continue
            if (before.pieces, before.identity) == (pieces, identity) and ends_with(before, head):
                return before
        return None


def _whoever_calls() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()
