"""What only the durable ledger promises: crashes, processes, forks, damage, tampering, full and read-only disks."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pausefl.errors import LedgerError
from pausefl.privacy import Geometric, SqliteLedger

SCHEDULE = Geometric(40.0, 0.04)


def filled(path: Path, rows: int = 5) -> SqliteLedger:
    ledger = SqliteLedger(path, clock=lambda: 1.0, timeout=0.2)
    for i in range(rows):
        ledger.reserve("a", f"run/{i}", SCHEDULE)
    return ledger


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("DROP TRIGGER no_update; DROP TRIGGER no_delete;" + ";".join(statements))


def test_killed_at_200_random_instants(tmp_path):
    """After each kill every released item has its row, the chain holds and the budget is kept."""
    child = Path(__file__).with_name("crash_child.py")
    done = subprocess.run([sys.executable, child, tmp_path, "200"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    kills, in_flight, released, rows = map(int, done.stdout.split())
    # Kills must have hit the work, some of them in mid-transaction; a release is at most one per kill behind its row.
    assert kills == 200 and in_flight > 0 and released > 200
    assert released <= rows <= released + kills


def hammer(path: str, who: int, count: int, out: multiprocessing.Queue[list[int]]) -> None:
    ledger = SqliteLedger(path)
    out.put([ledger.reserve("a", f"{who}/{i}", SCHEDULE).play for i in range(count)])


def test_processes_never_share_a_play(tmp_path):
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    # The file does not exist yet: creating it is raced for too.
    workers = [context.Process(target=hammer, args=(str(tmp_path / "l.db"), who, 60, out)) for who in range(2)]
    for worker in workers:
        worker.start()
    plays = [play for _ in workers for play in out.get(timeout=60)]
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
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
    with SqliteLedger(tmp_path / "l.db")._transaction() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@pytest.mark.parametrize(
    "tampering",
    [
        ["UPDATE charges SET epsilon = 0.001 WHERE seq = 2"],
        ["UPDATE charges SET release = 'other' WHERE seq = 5"],
        ["UPDATE charges SET time = 2.0 WHERE seq = 1"],
        ["UPDATE charges SET budget = 400.0"],
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
    ],
    ids=lambda tampering: tampering[0],
)  # fmt: skip
def test_tampering_shows(tmp_path, tampering):
    ledger = filled(tmp_path / "l.db")
    edit(tmp_path / "l.db", *tampering)
    with pytest.raises(LedgerError, match="release nothing"):
        ledger.verify()
    with pytest.raises(LedgerError):
        SqliteLedger(tmp_path / "l.db")


@pytest.mark.parametrize("tampering", ["DELETE FROM charges WHERE seq > 3", "UPDATE head SET rows = 3"])
def test_a_cut_tail_stops_an_open_ledger_too(tmp_path, tampering):
    ledger = filled(tmp_path / "l.db")
    edit(tmp_path / "l.db", tampering)
    with pytest.raises(LedgerError, match="head"):
        ledger.reserve("a", "next", SCHEDULE)


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
    assert ledger.verify() == early  # a chain alone cannot see this
    with pytest.raises(LedgerError, match="older copy"):
        ledger.verify(late.hash)


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
        path.chmod(0o444 if what == "file" else 0o666)
        Path(folder).chmod(0o777 if what == "file" else 0o555)
        with nobody(), pytest.raises(LedgerError, match=r"readonly|unable to open"):
            ledger.reserve("a", "next", SCHEDULE)
        Path(folder).chmod(0o700)
        assert ledger.verify().rows == 5


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
    with pytest.raises(LedgerError):
        ledger.verify()
    if damage in ("garbage", "truncated", "empty"):
        with pytest.raises(LedgerError):
            ledger.reserve("a", "next", SCHEDULE)
    if damage != "empty":  # an empty file is a new ledger to whoever opens it: only a noted head can tell
        with pytest.raises(LedgerError):
            SqliteLedger(path)


def test_a_missing_ledger_is_not_created_for_readers(tmp_path):
    with pytest.raises(LedgerError, match="no such file"):
        SqliteLedger(tmp_path / "l.db", create=False)
    with pytest.raises(LedgerError):
        SqliteLedger(tmp_path / "nowhere" / "l.db")
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_deleted_under_an_open_one_is_not_reborn(tmp_path):
    ledger = filled(tmp_path / "l.db")
    (tmp_path / "l.db").unlink()
    with pytest.raises(LedgerError):
        ledger.reserve("a", "next", SCHEDULE)
    assert not (tmp_path / "l.db").exists()


def test_a_bad_clock_charges_nothing(tmp_path):
    ledger = SqliteLedger(tmp_path / "l.db", clock=lambda: float("nan"))
    with pytest.raises(ValueError, match="clock"):
        ledger.reserve("a", "next", SCHEDULE)
    assert ledger.verify().rows == 0
