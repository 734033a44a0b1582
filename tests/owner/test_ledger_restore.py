"""``pausefl ledger restore``: what is put back has forgotten nothing, or it is refused and nothing changes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pausefl.cli import main
from pausefl.errors import PauseError
from pausefl.owner.gate import Gate
from pausefl.owner.kept_replies import replies_folder
from pausefl.owner.ledger_identity import read_note
from pausefl.owner.ledger_restore import restore_ledger
from pausefl.owner.owner_file import read_owner
from pausefl.owner.owner_init import init_owner
from pausefl.owner.request_and_reply import Refused, TrainingRequest
from pausefl.privacy import SqliteLedger

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


def test_a_lost_ledger_comes_back_and_goes_on_where_it_ended(ledger: Path, backup: Path) -> None:
    ledger.unlink()
    assert unready(ledger)
    assert restore_ledger(ledger, backup).head.rows == 3
    assert release(ledger, 4).releases == 4
    assert ledger.stat().st_mode & 0o077 == 0


def test_a_backup_that_would_forget_a_release_is_refused(ledger: Path, backup: Path) -> None:
    release(ledger, 4)
    ledger.unlink()
    refused(ledger, "forgotten a release.*budget counts as spent.*pausefl ledger retire", backup)
    assert unready(ledger)


def test_a_damaged_ledger_is_set_aside_with_its_journal(ledger: Path, backup: Path) -> None:
    ledger.write_bytes(b"nonsense")
    ledger.with_name("ledger.db-journal").write_bytes(b"old")
    restore_ledger(ledger, backup)
    assert ledger.with_name("ledger.db.damaged").read_bytes() == b"nonsense"
    assert not ledger.with_name("ledger.db-journal").exists()
    assert release(ledger, 4).releases == 4


def test_a_sound_ledger_that_is_ahead_of_the_backup_stays(ledger: Path, backup: Path) -> None:
    """Ahead of its note too, as after a kill: only the ledger itself knows of the last release."""
    note = replies_folder(ledger) / "head"
    older = note.read_bytes()
    release(ledger, 4)
    note.write_bytes(older)
    refused(ledger, "has 4 rows, and not all are in", backup)
    assert release(ledger, 5).releases == 5


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
    refused(ledger, "forgotten a release")


def test_without_a_note_a_head_from_elsewhere_is_needed(ledger: Path, backup: Path) -> None:
    head = SqliteLedger(ledger).head.hash
    for lost in (ledger, replies_folder(ledger)):
        lost.unlink() if lost.is_file() else shutil.rmtree(lost)
    refused(ledger, "nothing tells whether.*--head HASH.*budget counts as spent", backup)
    refused(ledger, "does not contain the head", backup, "f" * 64)
    assert restore_ledger(ledger, backup, head).head.rows == 3
    assert release(ledger, 4).releases == 4
    assert replies_folder(ledger).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "{}"])
def test_a_damaged_note_is_as_good_as_none(ledger: Path, text: str) -> None:
    (replies_folder(ledger) / "head").write_text(text)
    assert unready(ledger)
    refused(ledger, "nothing tells whether")
    restore_ledger(ledger, None, SqliteLedger(ledger).head.hash)
    assert release(ledger, 4).releases == 4


def test_a_head_from_elsewhere_counts_beside_the_note(ledger: Path, backup: Path) -> None:
    refused(ledger, "does not contain the head", backup, "f" * 64)


def test_backups_of_others_and_of_simulations_are_refused(ledger: Path, tmp_path: Path) -> None:
    other = init_owner(tmp_path / "other", "clinic").ledger
    SqliteLedger(other).backup(tmp_path / "other.db")
    ledger.unlink()
    refused(ledger, "put back the ledger that belongs here", tmp_path / "other.db")
    SqliteLedger.create(tmp_path / "sim.db", simulation=True).backup(tmp_path / "simulated.db")
    refused(ledger, "made for a simulation", tmp_path / "simulated.db")
    refused(ledger, "no such file", tmp_path / "nowhere.db")


def test_a_backup_cannot_be_used_as_it_is(ledger: Path, backup: Path) -> None:
    ledger.unlink()
    shutil.copy(backup, ledger)
    assert unready(ledger)
    refused(ledger, "is a backup; put it elsewhere and name it with --from")


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
    code, _, err = called(capsys, "ledger", "restore", ledger, "--head", "0" * 64)
    assert (code, "does not contain the head" in err) == (2, True)


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
