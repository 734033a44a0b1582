"""``pausefl ledger restore``: what is put back has forgotten nothing, or it is refused and nothing changes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pausefl.cli import main
from pausefl.errors import PauseError
from pausefl.owner.gate import Gate
from pausefl.owner.kept_replies import replies_folder
from pausefl.owner.ledger_identity import charging, note_head, retire_for_ever
from pausefl.owner.ledger_restore import restore_ledger
from pausefl.owner.noted_heads import node_lock, note_path, read_note, witness_path
from pausefl.owner.owner_file import read_owner
from pausefl.owner.owner_init import init_owner
from pausefl.owner.request_and_reply import Refused, TrainingRequest
from pausefl.privacy import SqliteLedger
from pausefl.system.lock import only_writer

MODEL = {"w": np.zeros(5)}


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """The ledger of an owner that has released three times."""
    path = init_owner(tmp_path / "home", "clinic").ledger
    for number in (1, 2, 3):
        release(path, number)
    return path


def release(ledger: Path, number: int) -> Any:
    owner = read_owner(ledger.with_name("owner.toml"))
    return Gate(owner, "run").train(TrainingRequest("run", number), MODEL, lambda: (MODEL, {}))


def unready(ledger: Path) -> bool:
    with pytest.raises(Refused) as caught:
        release(ledger, 9)
    return caught.value.reason == "unready"


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def refused(ledger: Path, said: str, *arguments: Any) -> None:
    before = everything(ledger.parent)
    with pytest.raises(PauseError, match=said) as caught:
        restore_ledger(ledger, *arguments)
    assert "\n" not in str(caught.value)
    assert everything(ledger.parent) == before


@pytest.fixture
def backup(ledger: Path, tmp_path: Path) -> Path:
    SqliteLedger(ledger).backup(tmp_path / "backup.db")
    return tmp_path / "backup.db"


@pytest.fixture
def elsewhere(ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine, or another user: what was noted outside the owner's folder is not there."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))


def test_a_lost_ledger_comes_back_and_goes_on_where_it_ended(ledger: Path, backup: Path) -> None:
    ledger.unlink()
    assert unready(ledger)
    assert restore_ledger(ledger, backup).head.rows == 3
    assert release(ledger, 4).releases == 4
    assert ledger.stat().st_mode & 0o077 == 0


def test_a_second_note_on_another_disk_tells_what_a_log_does_not(ledger: Path, backup: Path, tmp_path: Path) -> None:
    """The machine is lost with its folder, and the state folder was elsewhere: a backup from before is refused."""
    release(ledger, 4)
    shutil.rmtree(ledger.parent)
    new = tmp_path / "new" / "ledger.db"
    new.parent.mkdir()
    for releases in (None, 3, 4):
        with pytest.raises(PauseError, match="not the head of row 4"):
            restore_ledger(new, backup, releases)


def test_a_name_that_was_restored_elsewhere_gets_no_second_ledger(
    ledger: Path, backup: Path, elsewhere: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    restored = tmp_path / "new" / "ledger.db"
    restored.parent.mkdir()
    restore_ledger(restored, backup, 3)
    with pytest.raises(SystemExit):
        main(["owner", "init", str(tmp_path / "again"), "--name", "clinic"])
    assert f"has made a ledger for 'clinic' before, at '{restored}'" in capsys.readouterr().err


def test_a_backup_that_would_forget_a_release_is_refused(ledger: Path, backup: Path) -> None:
    release(ledger, 4)
    ledger.unlink()
    refused(ledger, "misses a release.*budget counts as spent, so never take part", backup)
    assert unready(ledger)


def test_no_ledger_is_restored_while_its_node_runs(ledger: Path, backup: Path) -> None:
    with only_writer(node_lock(ledger), ledger, "wait"):
        refused(ledger, "is being used by another process; wait for it, or stop the node first", backup)
    assert restore_ledger(ledger, backup).id == SqliteLedger(ledger).id


def test_a_folder_that_was_moved_is_accepted_in_place(ledger: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved" / "ledger.db"
    shutil.copytree(ledger.parent, moved.parent)
    shutil.rmtree(ledger.parent)
    assert unready(moved)
    assert restore_ledger(moved).head.rows == 3
    assert release(moved, 4).releases == 4


def test_an_older_copy_in_place_is_not_accepted(ledger: Path) -> None:
    older = ledger.read_bytes()
    release(ledger, 4)
    ledger.write_bytes(older)
    refused(ledger, "misses a release")


def test_backups_of_others_and_of_simulations_are_refused(ledger: Path, tmp_path: Path) -> None:
    other = init_owner(tmp_path / "other", "clinic").ledger
    SqliteLedger(other).backup(tmp_path / "other.db")
    ledger.unlink()
    refused(ledger, "put back the ledger with the noted id", tmp_path / "other.db")
    SqliteLedger.create(tmp_path / "sim.db", simulation=True).backup(tmp_path / "simulated.db")
    refused(ledger, "made for a simulation", tmp_path / "simulated.db")
    refused(ledger, "no such file", tmp_path / "nowhere.db")


def test_a_backup_cannot_be_used_as_it_is(ledger: Path, backup: Path) -> None:
    ledger.unlink()
    shutil.copy(backup, ledger)
    assert unready(ledger)
    refused(ledger, "is a backup; move it to another place and pass it with --from")


def called(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_the_command_says_where_the_ledger_ends(ledger: Path, backup: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = SqliteLedger(ledger).head
    ledger.unlink()
    code, out, _ = called(capsys, "ledger", "restore", ledger, "--from", backup)
    assert (code, out) == (0, f"restored {ledger}: 3 rows; head {head.hash}\n")
    code, _, err = called(capsys, "ledger", "restore", ledger, "--releases", "4")
    assert (code, f"releases is 4, but {ledger} has 3; put back a newer backup" in err) == (2, True)


def test_a_copy_from_before_its_end_does_not_bring_a_retired_subject_back(
    ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = ledger.read_bytes()
    assert called(capsys, "ledger", "retire", ledger, "--yes")[0] == 0
    with pytest.raises(Refused) as caught:
        release(ledger, 4)
    assert caught.value.reason == "exhausted"
    note = read_note(ledger)
    assert note is not None and note.rows == 4
    ledger.write_bytes(before)
    assert unready(ledger)


@pytest.mark.parametrize("retired", [False, True])
@pytest.mark.parametrize("emptied", [False, True])
def test_an_older_copy_of_the_whole_folder_is_found_by_the_note_outside(
    ledger: Path, tmp_path: Path, emptied: bool, retired: bool
) -> None:
    """Whatever put it back, cp over it or tar: the copy's own note is as old as the copy, and its inode may fit."""
    shutil.copytree(ledger.parent, tmp_path / "older")
    if retired:
        retire_for_ever(SqliteLedger(ledger), "clinic")
    else:
        release(ledger, 4)
    if emptied:
        shutil.rmtree(ledger.parent)
    shutil.copytree(tmp_path / "older", ledger.parent, dirs_exist_ok=True)
    note = note_path(ledger)
    note.write_text(json.dumps(json.loads(note.read_text()) | {"inode": ledger.stat().st_ino}))
    assert unready(ledger)
    refused(ledger, "misses a release")
    refused(ledger, "misses a release", None, 3)


def test_on_another_machine_the_servers_count_must_be_that_of_the_backup(
    ledger: Path, backup: Path, elsewhere: None
) -> None:
    for lost in (ledger, replies_folder(ledger)):
        lost.unlink() if lost.is_file() else shutil.rmtree(lost)
    refused(ledger, "nothing here tells whether.*--releases N.*budget counts as spent", backup)
    refused(ledger, "releases is 4, but .*backup.db has 3; put back a newer backup", backup, 4)
    refused(ledger, "releases is 1, but .*backup.db has 3; your number is too small, .*, also older ones$", backup, 1)
    # Killed after the charge and before the line of the log.
    refused(ledger, "releases is 2, but .* has 3; .* before it could write its last line, so pass 3$", backup, 2)
    assert not replies_folder(ledger).exists()
    assert restore_ledger(ledger, backup, 3).head.rows == 3
    assert release(ledger, 4).releases == 4
    assert replies_folder(ledger).stat().st_mode & 0o077 == 0


def test_the_owner_is_not_told_to_believe_the_server(ledger: Path, backup: Path, elsewhere: None) -> None:
    """The server is the adversary: a count below the truth would give it the forgotten releases a second time."""
    shutil.rmtree(replies_folder(ledger))
    with pytest.raises(Refused, match=r"has no head noted.* where N counts all releases"):
        release(ledger, 9)
    ledger.unlink()
    refused(
        ledger,
        "your node's own log .*do not take the server's word .* if N is too small, the server gets a second budget",
        backup,
    )


def test_a_folder_that_came_from_another_machine_needs_the_count_too(
    ledger: Path, tmp_path: Path, elsewhere: None
) -> None:
    copy = tmp_path / "copy" / "ledger.db"
    shutil.copytree(ledger.parent, copy.parent)
    assert unready(copy)
    refused(copy, "nothing here tells whether")
    assert restore_ledger(copy, None, 3).head.rows == 3
    assert release(copy, 4).releases == 4


def test_a_retirement_is_no_release_of_the_servers_count(ledger: Path, tmp_path: Path, elsewhere: None) -> None:
    retire_for_ever(SqliteLedger(ledger), "clinic")
    SqliteLedger(ledger).backup(tmp_path / "retired.db")
    ledger.unlink()
    assert restore_ledger(ledger, tmp_path / "retired.db", 3).head.rows == 4
    with pytest.raises(Refused) as caught:
        release(ledger, 4)
    assert caught.value.reason == "exhausted"


@pytest.mark.parametrize("text", ["", "{}", "\0" * 200])
def test_a_damaged_note_tells_nothing(ledger: Path, text: str) -> None:
    """Whoever sees the second note's file believes that it is asked, and so takes the number from the backup."""
    witness = witness_path(SqliteLedger(ledger).id)
    note_path(ledger).write_text(text)
    assert unready(ledger)
    assert restore_ledger(ledger, None, 3).head.rows == 3  # the second note agrees
    for note in (witness, note_path(ledger)):
        note.write_text(text)
        assert unready(ledger)
    for releases in (None, 3):
        refused(ledger, "is damaged, so it tells nothing; find N", None, releases)
    witness.unlink()
    refused(ledger, "nothing here tells whether")
    restore_ledger(ledger, None, 3)
    assert release(ledger, 4).releases == 4


def test_a_sound_ledger_that_is_ahead_of_the_backup_stays(ledger: Path, backup: Path) -> None:
    """Ahead of its notes too, as after a kill: only the ledger itself knows of the last charge."""
    owner = read_owner(ledger.with_name("owner.toml"))
    SqliteLedger(ledger).reserve("clinic", "run/4", owner.schedule, mechanism=owner.mechanism)
    refused(ledger, "has 4 rows, and some of them are not in", backup)
    refused(ledger, "has 4 rows, and some of them are not in", backup, 3)
    assert release(ledger, 5).releases == 5


def test_damaged_ledgers_are_set_aside_under_new_names(ledger: Path, backup: Path) -> None:
    for number in (1, 2):
        ledger.write_bytes(b"nonsense %d" % number)
        restore_ledger(ledger, backup)
    for number in (1, 2):
        assert ledger.with_name(f"ledger.db.damaged-{number}").read_bytes() == b"nonsense %d" % number
    assert release(ledger, 4).releases == 4


def test_the_journal_of_a_lost_ledger_is_set_aside(ledger: Path, backup: Path) -> None:
    ledger.unlink()
    ledger.with_name("ledger.db-journal").write_bytes(b"old")
    restore_ledger(ledger, backup)
    assert ledger.with_name("ledger.db.damaged-1-journal").read_bytes() == b"old"
    assert not ledger.with_name("ledger.db-journal").exists()


def test_what_is_not_damaged_is_not_set_aside(ledger: Path, backup: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("PRAGMA user_version = 5")
    refused(ledger, "has version 5", backup)
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("PRAGMA user_version = 4")
    ledger.chmod(0o666)
    refused(ledger, "chmod go-w", backup)
    ledger.chmod(0o600)
    shutil.copy(ledger, tmp_path / "plain-copy.db")
    ledger.write_bytes(b"nonsense")
    refused(ledger, "is a ledger, not a backup", tmp_path / "plain-copy.db")


def test_a_ledger_that_is_in_use_is_not_set_aside(ledger: Path, backup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteLedger.__init__, "__kwdefaults__", {"clock": time.time, "timeout": 0.0, "seal": None})
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        refused(ledger, "database is locked", backup)
    assert restore_ledger(ledger, backup).head.rows == 3


def test_a_restore_waits_for_a_client_between_its_charge_and_its_note(ledger: Path, backup: Path) -> None:
    """Otherwise the charge would go into a file that is replaced, and be forgotten."""
    mine = SqliteLedger(ledger)
    owner = read_owner(ledger.with_name("owner.toml"))
    with ThreadPoolExecutor(1) as pool:
        with charging(mine):
            restoring = pool.submit(restore_ledger, ledger, backup)
            mine.reserve("clinic", "run/4", owner.schedule, mechanism=owner.mechanism)
            assert not restoring.done() or restoring.exception() is not None
            note_head(mine)
        with pytest.raises(PauseError, match=r"misses a release|some of them are not in"):
            restoring.result()
    assert [charge.release for charge in SqliteLedger(ledger).charges("clinic")][-1] == "run/4"
    assert release(ledger, 5).releases == 5


def test_another_user_restores_nothing(ledger: Path, backup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root has other notes outside, and its files would lock the owner out."""
    opened = SqliteLedger(backup)
    monkeypatch.setattr("pausefl.owner.ledger_restore.SqliteLedger", lambda path: opened)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    refused(ledger, f"belongs to user {me}, but", backup)


def test_verify_says_what_the_node_would_say(
    ledger: Path, backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(capsys, "ledger", "verify", ledger)[0] == 0
    code, out, _ = called(capsys, "ledger", "verify", backup)
    assert (code, "3 rows, all in order; this is a backup, so nothing can be charged to it" in out) == (0, True)
    copy = tmp_path / "copy" / "ledger.db"
    shutil.copytree(ledger.parent, copy.parent)
    code, _, err = called(capsys, "ledger", "verify", copy)
    assert (code, "is a copy, or was put back without pausefl" in err) == (2, True)
    note_path(copy).unlink()
    code, _, err = called(capsys, "ledger", "verify", copy)
    assert (code, "has no head noted in" in err) == (2, True)
    os.link(ledger, tmp_path / "second.db")
    code, _, err = called(capsys, "ledger", "verify", ledger)
    assert (code, "has 2 names" in err) == (2, True)


def test_a_disk_that_is_full_is_told_in_one_line(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pausefl.owner.ledger_restore.write_notes", full)
    with pytest.raises(PauseError, match="cannot be restored: No space left on device; free space on its disk"):
        restore_ledger(ledger)
    monkeypatch.undo()
    assert restore_ledger(ledger).head.rows == 3
