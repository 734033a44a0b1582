"""A seal spares the check of rows that were checked before, and nothing that was changed since is taken for checked."""

from __future__ import annotations

import math
import os
import random
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from pausefl.errors import AlreadyReservedError, BudgetExceededError, LedgerError
from pausefl.privacy import FixedHorizon, Gaussian, SqliteLedger
from pausefl.privacy.ledger import accounts, file_seal, sqlite_file
from pausefl.privacy.ledger import hash_chain as chain
from pausefl.privacy.ledger import sqlite as sqlite_ledger
from pausefl.privacy.ledger.charge import Past, Reservation, next_charge
from pausefl.system import state_file

SCHEDULE = FixedHorizon(1000.0, 100_000)
ROWS = 3000
"""Enough for many pieces of the file, most of which a charge leaves alone."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of many rows, written at once."""
    ledger = SqliteLedger.create(tmp_path / "l.db")
    first = next_charge(Past.of([]), Reservation("a", "run/1", SCHEDULE), 1.0)
    previous, rows = ledger.head.hash, []
    for seq in range(1, ROWS + 1):
        charge = replace(first, release=f"run/{seq}", play=seq, epsilon=SCHEDULE.epsilon(seq))
        rows.append(chain.row_of(previous, seq, charge))
        previous = rows[-1][-1]
    with closing(sqlite3.connect(ledger.path)) as connection:
        connection.executemany(sqlite_file.INSERT, rows)
        connection.execute("UPDATE head SET rows = ?, hash = ?", (ROWS, previous))
        connection.commit()
    return ledger.path


@pytest.fixture
def seal(tmp_path: Path) -> Path:
    return tmp_path / "seal"


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Which rows had their hash computed."""
    seen, honest = [], chain._digest

    def counted(previous, values):
        if len(values) > 2:  # not the start of the chain
            seen.append(values[0])
        return honest(previous, values)

    monkeypatch.setattr(chain, "_digest", counted)
    return seen


def charge(path: Path, seal: Path, number: int) -> SqliteLedger:
    ledger = SqliteLedger(path, seal=seal)
    with ledger.held_open():
        ledger.reserve("a", f"new/{number}", SCHEDULE)
        ledger.read_back()
    return ledger


def same(one: SqliteLedger, other: SqliteLedger) -> bool:
    return (one.id, one.head, one._known.accounts) == (other.id, other.head, other._known.accounts)


def test_each_row_is_hashed_once_in_all_openings(path, seal, hashed):
    for number in range(1, 6):
        charge(path, seal, number)
    assert hashed == list(range(1, ROWS + 6))
    fresh = SqliteLedger(path, seal=seal)
    assert len(hashed) == ROWS + 5
    assert same(fresh, SqliteLedger(path)) and len(hashed) == 2 * (ROWS + 5)
    assert fresh.checked_releases() == {"a": ROWS + 5} and fresh.contains(chain.Head(7, fresh_hash(path, 7)))
    assert fresh.checked_past("a").epsilons == accounts.exact_sum([row.epsilon for row in fresh.charges("a")])


def fresh_hash(path: Path, seq: int) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT hash FROM charges WHERE seq = ?", (seq,)).fetchone()[0]


def test_the_whole_chain_is_recomputed_when_a_tenth_of_it_is_new(path, seal, hashed):
    ledger = SqliteLedger(path, seal=seal)
    sealed = file_seal.read_seal(seal)
    for recomputed, due in ((ROWS - 300, False), (ROWS - 301, True), (0, True)):
        file_seal.write_seal(seal, replace(sealed, recomputed=recomputed))
        hashed.clear()
        assert same(SqliteLedger(path, seal=seal), ledger)
        assert bool(hashed) == due
        assert file_seal.read_seal(seal).recomputed == (ROWS if due else recomputed)


@pytest.mark.parametrize("seed", range(12))
def test_a_byte_that_changed_anywhere_is_never_taken_for_checked(path, seal, hashed, seed):
    """Also one in the pages that a charge has just written, and one that only an index holds."""
    charge(path, seal, 1)
    content = bytearray(path.read_bytes())
    place = [len(content) - 1, 24, content.rindex(b"new/1"), content.index(b"new/1")][seed % 4]
    place = random.Random(seed).randrange(len(content)) if seed >= 4 else place
    content[place] ^= 1
    path.write_bytes(content)
    hashed.clear()
    try:
        SqliteLedger(path, seal=seal)
    except LedgerError:
        return
    assert len(hashed) == ROWS + 1  # a byte that means nothing, but every row was looked at


@pytest.mark.parametrize("when", ["before the commit", "after the commit"])
def test_a_row_that_is_edited_in_the_midst_of_a_charge_shows_at_the_next_opening(path, seal, monkeypatch, when):
    honest = {name: getattr(sqlite_ledger, name) for name in ("pages_to_write", "hash_again")}

    def edit(name, *arguments):
        handle = os.open(path, os.O_RDWR)  # not closed in here: that would drop SQLite's locks
        content = os.pread(handle, path.stat().st_size, 0)
        os.pwrite(handle, b"rum", content.index(b"run/", len(content) // 2))
        return honest[name](*arguments)

    name = "pages_to_write" if when == "before the commit" else "hash_again"
    SqliteLedger(path, seal=seal)
    with monkeypatch.context() as patched:
        patched.setattr(sqlite_ledger, name, lambda *arguments: edit(name, *arguments))
        ledger = SqliteLedger(path, seal=seal)
        ledger.reserve("a", "new", SCHEDULE)
        file_seal.write_seal(seal, ledger._known)
    with pytest.raises(LedgerError, match="cannot be trusted"):
        SqliteLedger(path, seal=seal)


@pytest.mark.parametrize("what", ["missing", "empty", "cut", "flipped", "another ledger's", "older", "open to all"])
def test_without_a_sound_seal_every_row_is_checked(path, seal, tmp_path, hashed, what):
    charge(path, seal, 1)
    content = seal.read_bytes()
    if what == "missing":
        seal.unlink()
    elif what == "empty":
        seal.write_bytes(b"")
    elif what == "cut":
        seal.write_bytes(content[:-1])
    elif what == "flipped":
        seal.write_bytes(content.replace(b"[[30.", b"[[10.").replace(b" [30.", b" [10."))
        assert seal.read_bytes() != content
    elif what == "another ledger's":
        SqliteLedger(SqliteLedger.create(tmp_path / "other.db").path, seal=seal)
    elif what == "older":
        charge(path, seal, 2)
        seal.write_bytes(content)
    else:
        seal.chmod(0o666)
    hashed.clear()
    rows = ROWS + 1 + (what == "older")
    assert SqliteLedger(path, seal=seal).head.rows == rows == len(hashed)


@pytest.mark.parametrize(
    "what", ["pipe", "folder", "link to the ledger", "hard link of the ledger", "link to itself", "huge"]
)
def test_a_seal_that_is_no_plain_file_stops_nobody(path, seal, hashed, what):
    charge(path, seal, 1)
    if what == "huge":
        os.truncate(seal, 1 << 43)
    else:
        seal.unlink()
    if what == "pipe":
        os.mkfifo(seal)
    elif what == "folder":
        seal.mkdir()
    elif what == "link to the ledger":
        seal.symlink_to(path)
    elif what == "hard link of the ledger":
        os.link(path, seal)
    elif what == "link to itself":
        seal.symlink_to(seal)
    hashed.clear()
    assert SqliteLedger(path, seal=seal).head.rows == ROWS + 1 == len(hashed)
    assert charge(path, seal, 2).head.rows == ROWS + 2


@pytest.mark.parametrize(
    "changed", [{"accounts": []}, {"accounts": {"a": None}}, {"recomputed": "x"}, {"head": ["x", 1]}]
)
def test_a_seal_of_odd_values_is_none(path, seal, changed):
    charge(path, seal, 1)
    header, arrays = state_file.read_state(seal, file_seal._KIND)
    seal.write_bytes(b"".join(state_file.state_parts(file_seal._KIND, header | changed, arrays)))
    assert SqliteLedger(path, seal=seal).head.rows == ROWS + 1


def test_whoever_is_killed_while_sealing_leaves_one_file_at_most(path, seal, monkeypatch):
    for number in range(1, 4):
        child = os.fork()
        if child == 0:
            try:
                monkeypatch.setattr(Path, "replace", lambda *_: os._exit(0))
                charge(path, seal, number)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
    assert len(list(path.parent.iterdir())) == 2
    charge(path, seal, 5)
    assert sorted(found.name for found in path.parent.iterdir()) == ["l.db", "seal"]


def test_a_seal_is_for_its_user_alone_and_may_fail_to_be_written(path, seal, hashed):
    charge(path, seal, 1)
    assert seal.stat().st_mode & 0o777 == 0o600
    nowhere = seal / "in" / "a file"
    assert charge(path, nowhere, 2).head.rows == ROWS + 2
    assert sorted(found.name for found in path.parent.iterdir()) == ["l.db", "seal"]


@pytest.mark.parametrize("journal", [b"", b"\x00" * 28, b"\xff" * 9000, None], ids=["empty", "zeros", "ones", "none"])
def test_a_journal_that_says_nothing_useful_costs_time_only(path, seal, hashed, monkeypatch, journal):
    """Charged all the same; then every row is checked again, because the seal of before does not fit."""
    SqliteLedger(path, seal=seal)
    hashed.clear()
    honest = sqlite_ledger.pages_to_write

    def misread(ledger):
        beside = seal.with_name("other-journal")
        if journal is not None:
            beside.write_bytes(journal)
        return honest(seal.with_name("other"))

    monkeypatch.setattr(sqlite_ledger, "pages_to_write", misread)
    assert charge(path, seal, 1).head.rows == ROWS + 1 == SqliteLedger(path, seal=seal).head.rows
    assert sorted(hashed) == [*range(1, ROWS + 2), ROWS + 1]


def test_what_was_charged_is_read_from_the_file_and_not_from_memory(path, seal, monkeypatch):
    ledger = SqliteLedger(path, seal=seal)
    monkeypatch.setattr(sqlite_ledger, "touched", lambda path: (1,))
    with ledger.held_open():
        ledger.reserve("a", "the-new-one", SCHEDULE)
        ledger.read_back()
        content = path.read_bytes()
        handle = os.open(path, os.O_WRONLY)  # not closed in here: that would drop SQLite's locks
        for place in (content.index(b"the-new-one"), content.rindex(b"the-new-one")):
            os.pwrite(handle, b"X", place)
        with pytest.raises(LedgerError, match="cannot be trusted"):
            ledger.read_back()
    os.close(handle)


def test_an_edit_without_a_trace_of_what_the_next_charge_writes_shows_before_anything_leaves(path, seal, monkeypatch):
    """As through mapped memory, which changes the times of a file only at its first write."""
    monkeypatch.setattr(sqlite_ledger, "touched", lambda path: (1,))
    ledger = SqliteLedger(path, seal=seal)
    handle = os.open(path, os.O_RDWR)
    place = path.read_bytes().index(b"run/1")
    assert place < file_seal._PIECE  # in the first piece, which is written by every charge
    os.pwrite(handle, b"rum", place)
    with ledger.held_open():
        ledger.reserve("a", "new", SCHEDULE)
        with pytest.raises(LedgerError, match="cannot be trusted"):
            ledger.read_back()
    os.close(handle)
    with pytest.raises(LedgerError, match="cannot be trusted"):
        SqliteLedger(path, seal=seal)


def test_an_older_copy_put_back_after_the_charge_is_noticed(path, seal):
    ledger = SqliteLedger(path, seal=seal)
    older = path.read_bytes()
    ledger.reserve("a", "new", SCHEDULE)
    path.write_bytes(older)
    with pytest.raises(LedgerError, match="older copy or was rewritten"):
        ledger.read_back()


def test_a_held_connection_is_for_its_thread_alone(path, seal):
    ledger = SqliteLedger(path, seal=seal)
    with ledger.held_open(), ThreadPoolExecutor(1) as pool:
        assert ledger.reserve("a", "here", SCHEDULE).play == ROWS + 1
        assert pool.submit(ledger.reserve, "a", "there", SCHEDULE).result().play == ROWS + 2
        assert ledger.reserve("a", "here again", SCHEDULE).play == ROWS + 3
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if ledger.reserve("a", "forked", SCHEDULE).play == ROWS + 4 else 1
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert ledger.reserve("a", "last", SCHEDULE).play == ROWS + 5
    assert SqliteLedger(path).verify().rows == ROWS + 5


def test_a_clock_that_reads_the_ledger_undoes_no_charge_of_a_held_connection(path, seal):
    ledger = SqliteLedger(path, seal=seal, clock=lambda: float(len(ledger.subjects())))
    with ledger.held_open():
        assert ledger.reserve("a", "new", SCHEDULE).time == 1.0
        ledger.read_back()
    assert SqliteLedger(path).verify().rows == ROWS + 1


def test_a_refusal_leaves_a_held_connection_without_a_transaction(path, seal):
    ledger = SqliteLedger(path, seal=seal)
    with ledger.held_open():
        with pytest.raises(AlreadyReservedError):
            ledger.reserve("a", "run/7", SCHEDULE)
        with closing(sqlite3.connect(path, isolation_level=None, timeout=0.0)) as other:
            other.execute("BEGIN EXCLUSIVE")


def test_sums_are_exact_however_many_numbers_are_added():
    draw = random.Random(3)
    values = [draw.choice([1e-9, 1.0, 1e9]) * draw.random() for _ in range(3000)]
    found = accounts.exact_sum(values)
    assert len(found) < 8 and sum(map(Fraction, found)) == sum(map(Fraction, values))
    assert math.fsum(found) == math.fsum(values)
    one_by_one = (0.0,)
    for value in values[:500]:
        one_by_one = accounts.exact_sum([*one_by_one, value])
    assert one_by_one == accounts.exact_sum(values[:500])


def test_in_rho_a_sealed_ledger_charges_what_an_unsealed_one_does(tmp_path, seal):
    mechanism, schedule = Gaussian(l2=1.0, delta=1e-5, unit="record"), FixedHorizon(1.0, 20)
    plain = SqliteLedger.create(tmp_path / "plain.db", clock=lambda: 1.0)
    sealed = SqliteLedger.create(tmp_path / "sealed.db").path
    for number in range(20):
        ledger = SqliteLedger(sealed, clock=lambda: 1.0, seal=seal)
        one = ledger.reserve("a", f"run/{number}", schedule, mechanism=mechanism)
        ledger.read_back()
        assert one == plain.reserve("a", f"run/{number}", schedule, mechanism=mechanism)
    for ledger in (plain, SqliteLedger(sealed, seal=seal)):
        with pytest.raises(BudgetExceededError):
            ledger.reserve("a", "more", schedule, mechanism=mechanism)
        ledger.retire("a")
        assert ledger.verify().rows == 21
