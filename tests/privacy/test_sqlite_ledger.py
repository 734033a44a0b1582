"""What only the durable ledger promises: crashes, processes, forks, damage, tampering, full and read-only disks."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pausefl.errors import AlreadyReservedError, LedgerError, NotPrivateError
from pausefl.privacy import Geometric, SqliteLedger
from pausefl.privacy.ledger import hash_chain as chain
from pausefl.privacy.ledger import sqlite as sqlite_ledger
from pausefl.privacy.ledger import sqlite_check, sqlite_file

SCHEDULE = Geometric(40.0, 0.04)


def filled(path: Path, rows: int = 5) -> SqliteLedger:
    ledger = SqliteLedger.create(path, clock=lambda: 1.0, timeout=0.2)
    for i in range(rows):
        ledger.reserve("a", f"run/{i}", SCHEDULE)
    return ledger


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        connection.executescript(
            ";".join([*(f"DROP TRIGGER {name}" for name, _ in triggers), *statements, *(sql for _, sql in triggers)])
        )


@pytest.mark.parametrize("account", ["sum", "zcdp"])
def test_killed_at_200_random_instants(tmp_path, account):
    """After each kill every released item has its row, the chain holds and the budget is kept.

    The account in rho has two victims at once, and they go on until nothing is left.
    """
    child = Path(__file__).with_name("crash_child.py")
    done = subprocess.run([sys.executable, child, tmp_path, "200", account], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kills, in_flight, seen, released, rows = map(int, done.stdout.split())
    assert account == "sum" or rows == 100
    # Kills must have hit the work, some of them in mid-transaction; a release is at most one per kill behind its row.
    assert kills == 200 and in_flight > 0
    assert seen <= released <= rows <= released + kills


def test_whoever_begins_to_make_a_ledger_is_not_stopped_by_the_next_who_does(tmp_path, monkeypatch):
    """Exactly one of two makers has made it, and the other is told so, whoever of them was first at the link."""
    link, late = os.link, []

    def second_comes(source, target):
        monkeypatch.setattr(sqlite_file.os, "link", link)
        late.append(SqliteLedger.create(tmp_path / "l.db").id)
        link(source, target)

    monkeypatch.setattr(sqlite_file.os, "link", second_comes)
    with pytest.raises(LedgerError, match="exists, and pausefl overwrites nothing"):
        SqliteLedger.create(tmp_path / "l.db")
    assert [SqliteLedger(tmp_path / "l.db").id] == late
    assert [found.name for found in tmp_path.iterdir()] == ["l.db"]


def hammer(path: str, who: int, count: int, out: multiprocessing.Queue[list[int]]) -> None:
    try:
        SqliteLedger.create(path)
    except LedgerError as error:  # the other was faster
        assert "exists" in str(error), error
    ledger = SqliteLedger(path)
    out.put([ledger.reserve("a", f"{who}/{i}", SCHEDULE).play for i in range(count)])


def test_processes_never_share_a_play(tmp_path):
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    # The file does not exist yet: creating it is raced for too.
    workers = [context.Process(target=hammer, args=(str(tmp_path / "l.db"), who, 60, out)) for who in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:  # what each of them sends fits into a pipe, so that it ends before it is read
        worker.join()
        assert worker.exitcode == 0
    plays = [play for _ in workers for play in out.get(timeout=600)]
    assert sorted(plays) == list(range(1, 121))
    assert SqliteLedger(tmp_path / "l.db").verify().rows == 120


def test_a_fork_may_go_on_with_the_parents_ledger(tmp_path):
    ledger = filled(tmp_path / "l.db", 1)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if [ledger.reserve("a", f"child/{i}", SCHEDULE) for i in range(5)] else 1
        finally:
            os._exit(code)
    mine = [ledger.reserve("a", f"parent/{i}", SCHEDULE) for i in range(5)]
    assert os.waitpid(child, 0)[1] == 0 and len(mine) == 5
    assert [row.play for row in ledger.charges("a")] == list(range(1, 12))


def test_commits_are_synced_to_the_disk(tmp_path):
    """SIGKILL loses no page cache, so the crash test cannot see a missing sync: look at the setting itself."""
    with sqlite_file.connected(SqliteLedger.create(tmp_path / "l.db").path, 1.0) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@pytest.mark.parametrize(
    "tampering",
    [
        ["UPDATE charges SET epsilon = 0.001 WHERE seq = 2"],
        ["UPDATE charges SET release = 'other' WHERE seq = 5"],
        ["UPDATE charges SET time = 2.0 WHERE seq = 1"],
        ["UPDATE charges SET epsilon = 1e-6"],
        ["UPDATE charges SET budget = 400.0"],
        ["UPDATE charges SET budget = 400.0, schedule = 'Geometric(budget=400.0, decay=0.04)'"],
        ["UPDATE charges SET delta = 1e-9 WHERE seq = 1"],
        ["UPDATE charges SET unit = x'00ff'"],
        ["UPDATE charges SET unit = CAST(x'ff' AS TEXT)"],
        ["UPDATE charges SET play = 'one' WHERE seq = 1"],
        ["UPDATE charges SET epsilon = 9e999 WHERE seq = 1"],
        ["PRAGMA user_version = 2"],
        ["PRAGMA application_id = 7"],
        ["CREATE TRIGGER ignore BEFORE INSERT ON charges BEGIN SELECT RAISE(IGNORE); END"],
        ["CREATE TABLE more (x)"],
        ["CREATE INDEX other ON charges (epsilon)"],
        ["DELETE FROM charges WHERE seq = 3"],
        ["DELETE FROM charges WHERE seq = 5"],
        ["DELETE FROM charges WHERE seq > 2"],
        ["DELETE FROM charges"],
        ["DELETE FROM charges WHERE seq = 3", "UPDATE charges SET seq = seq - 1 WHERE seq > 3"],
        [
            "UPDATE charges SET seq = 9 WHERE seq = 2",
            "UPDATE charges SET seq = 2 WHERE seq = 3",
            "UPDATE charges SET seq = 3 WHERE seq = 9",
        ],
        ["DELETE FROM charges WHERE seq = 5", "UPDATE head SET rows = 4"],
        ["DELETE FROM head"],
        ["UPDATE head SET rows = 99"],
        ["DROP TABLE head"],
        ["UPDATE identity SET id = '0123456789abcdef0123456789abcdef'"],
        ["UPDATE identity SET purpose = 'simulation'"],
        ["UPDATE identity SET purpose = 'anything'"],
        ["DELETE FROM identity"],
        ["UPDATE charges SET dimension = 1 WHERE seq = 4"],
    ],
    ids=lambda tampering: tampering[0],
)  # fmt: skip
def test_tampering_shows(tmp_path, tampering):
    ledger, seal = filled(tmp_path / "l.db"), tmp_path / "seal"
    sealed = SqliteLedger(tmp_path / "l.db", seal=seal)
    assert seal.exists()
    edit(tmp_path / "l.db", *tampering)
    for use in (lambda: SqliteLedger(tmp_path / "l.db", seal=seal), sealed.read_back, sealed.verify):
        with pytest.raises(LedgerError):
            use()
    with pytest.raises(LedgerError, match="release nothing"):
        ledger.reserve("a", "next", SCHEDULE)
    with pytest.raises(LedgerError, match="release nothing"):
        ledger.verify()
    with pytest.raises(LedgerError):
        SqliteLedger(tmp_path / "l.db")


@pytest.mark.parametrize("tampering", ["DELETE FROM charges WHERE seq > 3", "UPDATE head SET rows = 3"])
def test_a_cut_tail_stops_an_open_ledger_too(tmp_path, tampering):
    ledger = filled(tmp_path / "l.db")
    edit(tmp_path / "l.db", tampering)
    with pytest.raises(LedgerError, match=r"head|not the file"):
        ledger.reserve("a", "next", SCHEDULE)


@pytest.mark.parametrize("when", ["other tables", "while it runs"])
def test_a_row_that_is_not_taken_is_not_charged(tmp_path, monkeypatch, when):
    """A trigger that swallows the row: seen beforehand, and if that check were gone, by the count of rows."""
    ledger = filled(tmp_path / "l.db")
    with closing(sqlite3.connect(tmp_path / "l.db")) as connection:
        connection.execute("CREATE TRIGGER swallow BEFORE INSERT ON charges BEGIN SELECT RAISE(IGNORE); END")
    if when == "while it runs":
        monkeypatch.setattr(sqlite_check, "check_schema", lambda connection: None)
    with pytest.raises(LedgerError, match="triggers" if when == "other tables" else "did not take"):
        ledger.reserve("a", "next", SCHEDULE)


def forge(ledger: SqliteLedger, **changes: dict[int, object]) -> None:
    """Write other values into rows, and chain them anew: what somebody with the source code can do."""
    charges = ledger.charges("a")
    previous, rows = chain.start_of(ledger.id, "deployment"), []
    for place, charge in enumerate(charges, 1):
        there = {name: by_row[place] for name, by_row in changes.items() if place in by_row}
        rows.append(chain.row_of(previous, place, replace(charge, **there)))
        previous = rows[-1][-1]
    with closing(sqlite3.connect(ledger.path)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        connection.executescript(";".join(f"DROP TRIGGER {name}" for name, _ in triggers) + "; DELETE FROM charges")
        connection.executemany(sqlite_file.INSERT, rows)
        connection.execute("UPDATE head SET hash = ?", (previous,))
        connection.commit()
        connection.executescript(";".join(sql for _, sql in triggers))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"epsilon": {2: -1.0}}, "impossible"),
        ({"epsilon": {2: 0.0}}, "impossible"),
        ({"delta": {2: -1e-9}}, "impossible"),
        ({"dimension": {2: -1}}, "impossible"),
        ({"delta": dict.fromkeys(range(1, 6), 3e-4)}, "limit of delta"),
        ({"epsilon": {2: 0.5}}, "not charged what its schedule says"),
        ({"play": {2: 7}}, "gap"),
        ({"time": {2: float("inf")}}, "impossible"),
        ({"unit": {2: "update"}}, "unit of 'a' changes at play 2"),
        ({"release": {2: "retired"}}, "after it was retired"),
        ({"release": {5: "retired"}}, "other values"),
        ({"release": {5: "retired"}, "epsilon": {5: 30.0}}, "other values"),
        ({"schedule": {2: "Geometric(budget=41.0, decay=0.04)"}}, "changes"),
        ({"budget": dict.fromkeys(range(1, 6), 400.0)}, "not its schedule's"),
        (
            {"schedule": dict.fromkeys(range(1, 6), "Mine()"), "budget": dict.fromkeys(range(1, 6), 5.0)},
            "more than its",
        ),
    ],
    ids=repr,
)
def test_impossible_values_show_though_every_hash_fits(tmp_path, changes, why):
    forge(filled(tmp_path / "l.db"), **changes)
    with pytest.raises(LedgerError, match=why):
        SqliteLedger(tmp_path / "l.db")


def test_a_forged_chain_shows_to_whoever_has_it_open(tmp_path):
    ledger = filled(tmp_path / "l.db")
    forge(ledger, time={1: 3.0})
    SqliteLedger(tmp_path / "l.db")
    with pytest.raises(LedgerError, match="not the file that was opened"):
        ledger.reserve("a", "next", SCHEDULE)


def test_two_open_ledgers_take_turns(tmp_path):
    """Each sees that the other has written, and reads what is new."""
    ledgers = [filled(tmp_path / "l.db", 1), SqliteLedger(tmp_path / "l.db")]
    plays = [ledgers[i % 2].reserve("a", f"turn/{i}", SCHEDULE).play for i in range(20)]
    assert plays == list(range(2, 22)) and ledgers[0].verify() == ledgers[1].verify()


class Counted:
    """Counts the connections to a ledger's file, and the hashes of rows."""

    def __init__(self, monkeypatch) -> None:
        self.connections = self.hashes = 0
        connect, digest = sqlite3.connect, chain._digest

        def counted_connect(database, **more):
            self.connections += database != ":memory:"
            return connect(database, **more)

        def counted_digest(previous, values):
            self.hashes += len(values) > 2  # not the start of the chain, which is short
            return digest(previous, values)

        monkeypatch.setattr(sqlite3, "connect", counted_connect)
        monkeypatch.setattr(chain, "_digest", counted_digest)


def test_a_release_opens_the_file_twice_and_hashes_each_row_once(tmp_path, monkeypatch):
    filled(tmp_path / "l.db", 20)
    seen = Counted(monkeypatch)
    ledger = SqliteLedger(tmp_path / "l.db")
    assert ledger.checked_releases() == {"a": 20}
    assert ledger.reserve("a", "next", SCHEDULE).play == 21
    assert ledger.checked_releases() == {"a": 21}
    assert (seen.connections, seen.hashes) == (2, 21)
    with pytest.raises(AlreadyReservedError):
        ledger.reserve("a", "next", SCHEDULE)
    assert (seen.connections, seen.hashes) == (3, 21)


def test_a_refusal_has_seen_what_others_wrote(tmp_path):
    mine, other = filled(tmp_path / "l.db", 1), SqliteLedger(tmp_path / "l.db")
    other.reserve("b", "theirs", SCHEDULE)
    other.reserve("a", "theirs", SCHEDULE)
    assert mine.checked_releases() == {"a": 1} and mine.subjects() == ("a", "b")
    with pytest.raises(AlreadyReservedError):
        mine.reserve("a", "theirs", SCHEDULE)
    assert mine.checked_releases() == {"a": 2, "b": 1}


def test_creation_leaves_nothing_half_made(tmp_path, monkeypatch):
    def crash(*_):
        raise OSError("power cut")

    monkeypatch.setattr(sqlite_file.os, "link", crash)
    with pytest.raises(LedgerError, match="power cut"):
        SqliteLedger.create(tmp_path / "l.db")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    SqliteLedger.create(tmp_path / "l.db")
    assert [found.name for found in tmp_path.iterdir()] == ["l.db"]


def test_what_a_killed_creation_leaves_does_not_stay(tmp_path, monkeypatch):
    """Killed before the link, after it, and while SQLite was writing."""
    for name in (".l.db.x1.new", ".other.db.x1.new", ".l.db", "l.db.new"):
        (tmp_path / name).mkdir()
        for file in ("made.db", "made.db-journal"):
            (tmp_path / name / file).touch()
    ledger = filled(tmp_path / "l.db", 1)
    others = {".other.db.x1.new", ".l.db", "l.db.new"}
    assert {path.name for path in tmp_path.iterdir()} == {"l.db", *others}
    for name in (".l.db.x2.new", ".l.db.x3.new"):
        (tmp_path / name).mkdir()
    os.link(ledger.path, tmp_path / ".l.db.x2.new" / "made.db")
    assert SqliteLedger(tmp_path / "l.db").reserve("a", "next", SCHEDULE).play == 2
    assert {path.name for path in tmp_path.iterdir()} == {"l.db", *others}
    (tmp_path / f".{ledger.id}.x4.new").mkdir()
    ledger.backup(tmp_path / "copy.db")
    assert {path.name for path in tmp_path.iterdir()} == {"l.db", "copy.db", *others}


def test_a_backup_is_whole_private_and_cannot_be_charged(tmp_path):
    ledger = filled(tmp_path / "l.db", 3)
    head = ledger.backup(tmp_path / "copy.db")
    assert head == ledger.head and (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    copy = SqliteLedger(tmp_path / "copy.db")
    assert copy.is_backup and not ledger.is_backup and copy.charges("a") == ledger.charges("a")
    assert (copy.id, copy.head, copy.verify(), copy.simulation) == (ledger.id, head, head, False)
    for use in (lambda: copy.reserve("a", "next", SCHEDULE), lambda: copy.retire("a")):
        with pytest.raises(LedgerError, match=r"is a backup.*`pausefl ledger restore`"):
            use()
    before = copy.path.read_bytes()
    for target in ("copy.db", "l.db"):
        with pytest.raises(LedgerError, match="exists"):
            ledger.backup(tmp_path / target)
    assert copy.path.read_bytes() == before
    again = copy.backup(tmp_path / "second.db")
    assert again == head and SqliteLedger(tmp_path / "second.db").is_backup
    with pytest.raises(LedgerError, match="cannot be made"):
        ledger.backup(tmp_path / "nowhere" / "copy.db")


def test_a_backup_comes_back_as_a_new_file_only(tmp_path):
    ledger = filled(tmp_path / "l.db", 3)
    ledger.backup(tmp_path / "copy.db")
    with pytest.raises(LedgerError, match="exists"):
        SqliteLedger.restore(tmp_path / "copy.db", tmp_path / "l.db")
    with pytest.raises(LedgerError, match="is a ledger itself"):
        SqliteLedger.restore(tmp_path / "l.db", tmp_path / "new.db")
    late = ledger.reserve("a", "late", SCHEDULE)
    assert not SqliteLedger(tmp_path / "copy.db").contains(ledger.head)  # so nobody restores an old one unawares
    restored = SqliteLedger.restore(tmp_path / "copy.db", tmp_path / "new.db")
    assert not restored.is_backup and SqliteLedger(tmp_path / "copy.db").is_backup
    assert restored.reserve("a", "late", SCHEDULE).play == late.play == 4


def test_a_broken_ledger_has_no_backup(tmp_path):
    ledger = filled(tmp_path / "l.db")
    edit(ledger.path, "UPDATE charges SET epsilon = 0.001 WHERE seq = 2")
    with pytest.raises(LedgerError, match="row 2"):
        ledger.backup(tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir()] == ["l.db"]


def test_nothing_is_made_where_everybody_could_exchange_it(tmp_path):
    ledger = filled(tmp_path / "l.db")
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    for make in (ledger.backup, SqliteLedger.create):
        with pytest.raises(NotPrivateError, match=f"copy.db' can be replaced.*chmod o-w {folder}"):
            make(folder / "copy.db")
    assert list(folder.iterdir()) == []


def test_a_copy_that_differs_does_not_stay(tmp_path, monkeypatch):
    """A disk that keeps other bytes than it was given."""
    ledger = filled(tmp_path / "l.db")

    def damaged(connection, source, kind):
        sqlite_file.copy_into(connection, source, kind)
        connection.executescript("DROP TRIGGER no_delete; DELETE FROM charges WHERE seq = 3")

    monkeypatch.setattr(sqlite_ledger, "copy_into", damaged)
    with pytest.raises(LedgerError, match="cannot be trusted"):
        ledger.backup(tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir()] == ["l.db"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_journal_of_another_user_is_not_used(tmp_path):
    """In a folder such as /tmp others can put a journal beside a ledger: SQLite would roll the ledger back with it."""
    ledger = filled(tmp_path / "l.db")
    tmp_path.chmod(0o1777)
    Path(f"{ledger.path}-journal").touch(mode=0o600)
    os.chown(f"{ledger.path}-journal", 12345, -1)
    with pytest.raises(NotPrivateError, match="journal of the ledger"):
        ledger.reserve("a", "next", SCHEDULE)


def test_a_journal_that_names_a_file_does_not_remove_it(tmp_path):
    """A ledger sent for an audit: SQLite rolls back by the journal beside it, and removes the file that this names."""
    ledger, other = filled(tmp_path / "l.db"), tmp_path / "of-the-auditor.txt"
    other.write_text("kept")
    content, name, magic = ledger.path.read_bytes(), bytes(other), bytes.fromhex("d9d505f920a163d7")
    size = int.from_bytes(content[16:18], "big")

    def numbers(*values: int) -> bytes:
        return b"".join(value.to_bytes(4, "big") for value in values)

    head = magic + numbers(1, 0, len(content) // size, 512, size)
    page = numbers(1) + content[:size] + numbers(sum(content[place] for place in range(size - 200, 0, -200)))
    named = numbers(2**30 // size + 1) + name + numbers(len(name), sum(name)) + magic
    Path(f"{ledger.path}-journal").write_bytes(head.ljust(512, b"\0") + page + named)
    for use in (SqliteLedger, lambda _: ledger.reserve("a", "next", SCHEDULE)):
        with pytest.raises(LedgerError, match="its journal names another file"):
            use(ledger.path)
        assert other.exists()


def making(folder: Path, run: int, told: int) -> None:
    """Make ledgers and their backups, for ever."""
    count = 0
    while True:
        count += 1
        ledger = SqliteLedger.create(folder / f"{run}-{count}.db")
        ledger.reserve("a", "first", SCHEDULE)
        ledger.backup(folder / f"{run}-{count}.copy")
        os.write(told, b".")


def test_whatever_is_made_is_whole_and_no_stray_file_outlives_the_next_attempt(tmp_path):
    """Kill the maker at 40 instants; what has a name is sound, and doing it again removes what was left."""
    draw, strays = random.Random(7), 0
    for run in range(40):
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                making(tmp_path, run, writes)
            finally:
                os._exit(3)
        os.close(writes)
        begun = time.monotonic()
        done = len(os.read(reads, 1))
        took = time.monotonic() - begun
        time.sleep(draw.random() * took)
        os.kill(child, signal.SIGKILL)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        while more := os.read(reads, 100):
            done += len(more)
        os.close(reads)
        strays += len(list(tmp_path.glob(".*")))
        with suppress(LedgerError):  # it was made
            SqliteLedger.create(tmp_path / f"{run}-{done + 1}.db")
        ledger = SqliteLedger(tmp_path / f"{run}-{done + 1}.db")
        with suppress(LedgerError):
            ledger.backup(tmp_path / f"{run}-{done + 1}.copy")
        ledger.backup(tmp_path / f"{run}-again.copy")
        assert list(tmp_path.glob(".*")) == []
        for path in tmp_path.iterdir():
            if path.suffix in (".db", ".copy"):  # else it is the journal of a charge that was cut off
                assert SqliteLedger(path).is_backup == (path.suffix == ".copy")
        for path in tmp_path.iterdir():
            path.unlink()
    assert strays > 0


def test_a_backup_in_the_midst_of_charges_is_of_one_moment(tmp_path):
    path = str(filled(tmp_path / "l.db", 1).path)
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    worker = context.Process(target=hammer, args=(path, 1, 60, out))
    worker.start()
    ledger, heads = SqliteLedger(path), []
    while not heads or worker.is_alive():
        heads.append(ledger.backup(tmp_path / f"{len(heads)}.db"))
    out.get(timeout=600)
    worker.join()
    ledger.verify()
    assert worker.exitcode == 0 and all(ledger.contains(head) for head in heads)


@pytest.mark.parametrize("version", [2, 3, 5])
def test_another_version_is_refused_with_what_to_do(tmp_path, version):
    ledger = filled(tmp_path / "l.db", 1)
    edit(ledger.path, f"PRAGMA user_version = {version}")
    with pytest.raises(LedgerError, match=f"has version {version}, but this pausefl reads version 4; release nothing"):
        SqliteLedger(ledger.path)


def test_a_journal_without_its_ledger_is_no_new_ledger(tmp_path):
    (tmp_path / "l.db-journal").write_bytes(b"what is left of a ledger")
    for door in (SqliteLedger, SqliteLedger.create):
        with pytest.raises(LedgerError, match="journal"):
            door(tmp_path / "l.db")
    assert not (tmp_path / "l.db").exists()


def test_rows_cannot_be_changed_by_accident(tmp_path):
    filled(tmp_path / "l.db")
    with closing(sqlite3.connect(tmp_path / "l.db")) as connection:
        for statement in ("UPDATE charges SET epsilon = 0", "DELETE FROM charges"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)


def test_a_noted_head_shows_an_older_copy(tmp_path):
    ledger = filled(tmp_path / "l.db", 3)
    shutil.copy(tmp_path / "l.db", tmp_path / "old.db")
    early = ledger.verify()
    ledger.reserve("a", "late", SCHEDULE)
    late = ledger.verify()
    assert ledger.verify(early.hash) == ledger.verify(late.hash) == late
    shutil.copy(tmp_path / "old.db", tmp_path / "l.db")
    for open_one in (ledger.verify, lambda: ledger.reserve("a", "next", SCHEDULE)):
        with pytest.raises(LedgerError, match="older copy"):
            open_one()
    fresh = SqliteLedger(tmp_path / "l.db")
    assert fresh.verify() == early  # a chain alone cannot see this
    with pytest.raises(LedgerError, match="older copy"):
        fresh.verify(late.hash)


def test_a_locked_database_charges_nothing(tmp_path):
    ledger = filled(tmp_path / "l.db")
    with closing(sqlite3.connect(tmp_path / "l.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match="locked"):
            ledger.reserve("a", "next", SCHEDULE)
    assert ledger.verify().rows == 5


@contextmanager
def soft_limit(size: int):
    """No file may grow past ``size``: what a full disk looks like to SQLite."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize("size", [0, 600, 4096])
def test_a_full_disk_charges_nothing(tmp_path, size):
    ledger = filled(tmp_path / "l.db")
    with soft_limit(size), pytest.raises(LedgerError, match=r"full|I/O"):
        ledger.reserve("a", "next", SCHEDULE)
    assert ledger.verify().rows == 5
    assert ledger.reserve("a", "next", SCHEDULE).play == 6


@contextmanager
def nobody():
    """Root may write anywhere: be somebody else for a moment."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_read_only_database_charges_nothing(what):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "l.db"
        ledger = filled(path)
        path.chmod(0o444 if what == "file" else 0o600)
        Path(folder).chmod(0o1777 if what == "file" else 0o555)
        if os.geteuid() == 0 and what == "folder":
            os.chown(path, 65534, -1)
        with nobody(), pytest.raises(LedgerError, match=r"readonly|unable to open"):
            ledger.reserve("a", "next", SCHEDULE)
        Path(folder).chmod(0o700)
        os.chown(path, os.geteuid(), -1)
        assert ledger.verify().rows == 5


@pytest.mark.parametrize("mode", [0o660, 0o606, 0o666])
def test_a_ledger_that_others_can_write_charges_nothing(tmp_path, mode):
    ledger = filled(tmp_path / "l.db", 2)
    ledger.path.chmod(mode)
    for use in (lambda: ledger.reserve("a", "next", SCHEDULE), lambda: SqliteLedger(ledger.path)):
        with pytest.raises(NotPrivateError, match=f"chmod go-w {ledger.path}"):
            use()
    ledger.path.chmod(0o640)
    assert ledger.reserve("a", "next", SCHEDULE).play == 3
    tmp_path.chmod(0o777)
    for use in (lambda: ledger.reserve("a", "more", SCHEDULE), lambda: SqliteLedger(ledger.path)):
        with pytest.raises(NotPrivateError, match=f"chmod o-w {tmp_path}"):
            use()


@pytest.mark.parametrize("what", ["header", "in use", "stray wal", "stray shm"])
def test_a_switch_to_wal_charges_nothing(tmp_path, what):
    """In WAL mode a ledger is three files: a copy of one of them forgets releases."""
    ledger = filled(tmp_path / "l.db", 2)
    with closing(sqlite3.connect(ledger.path)) as other:
        if what.startswith("stray"):
            Path(f"{ledger.path}-{what.split()[1]}").touch()
        else:
            other.execute("PRAGMA journal_mode = WAL")
            assert ledger.path.read_bytes()[18:20] == b"\x02\x02"
        if what == "header":
            other.close()
        elif what == "in use":
            other.execute("UPDATE head SET rows = 0")
            other.commit()
        for use in (lambda: ledger.reserve("a", "next", SCHEDULE), lambda: SqliteLedger(ledger.path)):
            with pytest.raises(LedgerError, match=r"WAL mode.*`sqlite3 .*l\.db '.*'`") as refused:
                use()
    if what != "in use":
        with closing(sqlite3.connect(ledger.path)) as other:
            for statement in str(refused.value).split("'")[-2].split(";"):
                other.execute(statement).fetchall()
        assert ledger.reserve("a", "next", SCHEDULE).play == 3


@pytest.mark.parametrize("damage", ["garbage", "truncated", "flipped", "empty", "foreign", "newer"])
def test_a_damaged_database_charges_nothing(tmp_path, damage):
    path = tmp_path / "l.db"
    ledger = filled(path, 40)
    data = bytearray(path.read_bytes())
    if damage == "garbage":
        path.write_bytes(b"no database at all" * 500)
    elif damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "flipped":
        data[data.index(b"run/7")] ^= 1
        path.write_bytes(data)
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA application_id = 7" if damage == "foreign" else "PRAGMA user_version = 99")
    with pytest.raises(LedgerError, match="not a pausefl ledger" if damage in ("garbage", "foreign") else None):
        ledger.verify()
    with pytest.raises(LedgerError):
        ledger.reserve("a", "next", SCHEDULE)
    with pytest.raises(LedgerError):
        SqliteLedger(path)


def test_a_missing_ledger_is_not_created(tmp_path):
    """A volume that is not mounted, or another folder: a ledger made there would be a second budget."""
    for path in (tmp_path / "l.db", tmp_path / "nowhere" / "l.db"):
        with pytest.raises(
            LedgerError, match=r"no such file.*`pausefl ledger restore LEDGER --from.*`pausefl owner init` or Sqlite"
        ):
            SqliteLedger(path)
    with pytest.raises(LedgerError, match="cannot be made"):
        SqliteLedger.create(tmp_path / "nowhere" / "l.db")
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_is_made_once(tmp_path):
    ledger = filled(tmp_path / "l.db", 2)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "link.db").symlink_to(ledger.path)
    for name in ("l.db", "other/link.db"):
        with pytest.raises(LedgerError, match="exists"):
            SqliteLedger.create(tmp_path / name)
    linked = SqliteLedger(tmp_path / "other" / "link.db")
    assert (linked.path, linked.id, linked.head) == (ledger.path, ledger.id, ledger.head)
    linked.reserve("a", "next", SCHEDULE)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["l.db", "link.db", "other"]


def test_two_ledgers_are_never_alike(tmp_path):
    """The id is random, and the first row follows it: rows of one ledger fit no other, not even an empty one."""
    one, two = (SqliteLedger.create(tmp_path / name, simulation=name == "two.db") for name in ("one.db", "two.db"))
    assert len(one.id) == 32 and int(one.id, 16) >= 0 and one.id != two.id and one.head != two.head
    assert (one.simulation, two.simulation, SqliteLedger(two.path).simulation) == (False, True, True)
    assert SqliteLedger(one.path).id == one.id and one.contains(one.head) and not two.contains(one.head)
    shutil.copy(two.path, one.path)
    with pytest.raises(LedgerError, match="another id"):
        one.reserve("a", "next", SCHEDULE)


def test_heads_tell_what_a_ledger_contains(tmp_path):
    ledger = SqliteLedger.create(tmp_path / "l.db")
    heads = [ledger.head]
    for i in range(4):
        ledger.reserve("a", f"run/{i}", SCHEDULE)
        heads.append(ledger.head)
    assert [head.rows for head in heads] == list(range(5)) and ledger.verify() == heads[-1]
    assert all(ledger.contains(head) for head in heads)
    strange = [chain.Head(5, heads[4].hash), chain.Head(-1, heads[4].hash), chain.Head(3, heads[4].hash)]
    assert not any(ledger.contains(head) for head in [*strange, chain.Head(0, "0" * 64), chain.Head(4, "")])


def test_a_ledger_deleted_under_an_open_one_is_not_reborn(tmp_path):
    ledger = filled(tmp_path / "l.db")
    (tmp_path / "l.db").unlink()
    with pytest.raises(LedgerError):
        ledger.reserve("a", "next", SCHEDULE)
    assert not (tmp_path / "l.db").exists()


def test_a_bad_clock_charges_nothing(tmp_path):
    ledger = SqliteLedger.create(tmp_path / "l.db", clock=lambda: float("nan"))
    with pytest.raises(ValueError, match="clock"):
        ledger.reserve("a", "next", SCHEDULE)
    assert ledger.verify().rows == 0
