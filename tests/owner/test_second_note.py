"""The note outside the owner's folder: whatever is wrong with it, nothing is charged, and an older copy shows."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pausefl.cli import main
from pausefl.errors import ConfigError, PauseError
from pausefl.owner import noted_heads
from pausefl.owner.gate import Gate
from pausefl.owner.ledger_restore import restore_ledger
from pausefl.owner.noted_heads import NotedHead, note_path, read_note, read_witness, witness_path
from pausefl.owner.owner_check import check_owner
from pausefl.owner.owner_file import read_owner
from pausefl.owner.owner_init import init_owner
from pausefl.owner.request_and_reply import Refused, TrainingRequest
from pausefl.privacy import SqliteLedger

MODEL = {"w": np.zeros(5)}
NOBODY = 65534


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that another user can reach, with a state folder in it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "state").mkdir(mode=0o700)
        monkeypatch.setenv("XDG_STATE_HOME", f"{folder}/state")
        yield Path(folder)


@pytest.fixture
def rolled_back(shared: Path) -> Path:
    """The owner's file of a ledger with two releases, after a copy with one release was put back in place."""
    file = init_owner(shared / "clinic", "clinic").ledger.with_name("owner.toml")
    release(file, 1)
    shutil.copytree(file.parent, shared / "older")
    release(file, 2)
    shutil.copytree(shared / "older", file.parent, dirs_exist_ok=True)  # the inodes stay
    return file


def release(file: Path, number: int) -> Any:
    return Gate(read_owner(file), "run").train(TrainingRequest("run", number), MODEL, lambda: (MODEL, {}))


def refusal(shared: Path, file: Path) -> str:
    """Ask for a release, as a user for whom permissions count: not as root; return why it was refused."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                for path in (shared, *shared.rglob("*")):
                    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
                os.setuid(NOBODY)
            release(file, 3)
            os.write(into, b"released")
        except Refused as error:
            os.write(into, f"{error.reason}: {error}".encode())
        except BaseException as error:
            os.write(into, repr(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(into)
    with os.fdopen(out, "r") as said:
        return said.read()


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        ("nothing", "misses a release"), ("state deleted", "has 1 rows, but no head is noted in"),
        ("another home", "misses a release"), ("no home", "set XDG_STATE_HOME"),
        ("note 000", "cannot be read (Permission denied)"), ("folder 000", "cannot write in"),
        ("folder 500", "cannot write in"), ("folder 777", "chmod go-w"), ("note 666", "chmod go-w"),
        ("note empty", "is damaged"), ("note a folder", "cannot be read (it is no plain file)"),
        ("state a file", "cannot write in"), ("state a dangling link", "No such file"),
    ],
)  # fmt: skip
def test_an_older_copy_is_refused_whatever_became_of_the_second_note(
    shared: Path, rolled_back: Path, loss: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = witness_path(read_owner(rolled_back).ledger_id)
    what, _, how = loss.rpartition(" ")
    place = {"note": note, "folder": note.parent}.get(what, shared / "state")
    if loss in ("another home", "no home"):
        monkeypatch.delenv("XDG_STATE_HOME")
        monkeypatch.setenv("HOME", str(shared / "other"))
        if loss == "another home":
            (shared / "other").mkdir()
    elif how.isdigit():
        place.chmod(int(how, 8))
    elif how == "empty":
        note.write_text("")
    elif loss == "note a folder":
        note.unlink()
        note.mkdir()
    elif what.startswith("state"):
        shutil.rmtree(place)
        if how == "file":
            place.touch()
        elif how == "link":
            place.symlink_to(shared / "nowhere")
    ledger = rolled_back.with_name("ledger.db")
    before = ledger.read_bytes()
    why = refusal(shared, rolled_back)
    assert why.startswith("unready: ") and said in why and "\n" not in why, why
    assert ledger.read_bytes() == before


def test_the_owner_s_own_count_brings_back_a_ledger_whose_second_note_is_lost(shared: Path) -> None:
    file = init_owner(shared / "clinic", "clinic").ledger.with_name("owner.toml")
    ledger = file.with_name("ledger.db")
    release(file, 1)
    shutil.rmtree(shared / "state")
    with pytest.raises(Refused, match=r"ledger restore .*ledger.db --releases N"):
        release(file, 2)
    with pytest.raises(ConfigError, match="--releases N"):
        restore_ledger(ledger)
    restored = restore_ledger(ledger, None, 1)
    assert read_note(ledger) == read_witness(restored.id) == NotedHead.of(restored)
    assert release(file, 2).releases == 2


def test_the_first_use_by_another_user_is_noted_with_the_first_charge(
    shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    owner = init_owner(shared / "clinic", "clinic")
    file = owner.ledger.with_name("owner.toml")
    monkeypatch.setenv("XDG_STATE_HOME", str(shared / "of another user"))
    place = shared / "of another user" / "pausefl" / "ledgers" / owner.ledger_id
    assert check_owner(file).second_note == str(place)
    with pytest.raises(SystemExit):
        main(["ledger", "verify", str(owner.ledger)])
    assert (
        f"row 0 is noted beside its replies, and the first charge will be noted in {place}" in capsys.readouterr().out
    )
    assert not place.exists()
    release(file, 1)
    assert read_witness(owner.ledger_id) == NotedHead.of(SqliteLedger(owner.ledger))
    with pytest.raises(SystemExit):
        main(["ledger", "verify", str(owner.ledger)])
    assert f"row 1 is noted beside its replies, and row 1 in {place}" in capsys.readouterr().out


def test_a_second_note_that_is_not_written_lets_nothing_out(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = init_owner(shared / "clinic", "clinic").ledger.with_name("owner.toml")
    real = noted_heads._write

    def full(path: Path, text: str) -> None:
        if path.is_relative_to(shared / "state"):
            raise OSError(28, "No space left on device")
        real(path, text)

    monkeypatch.setattr(noted_heads, "_write", full)
    called: list[int] = []
    with pytest.raises(Refused) as caught:
        Gate(read_owner(file), "run").train(TrainingRequest("run", 1), MODEL, lambda: called.append(1) or (MODEL, {}))
    assert (caught.value.reason, called) == ("failed", [])


def test_a_full_disk_under_the_second_note_is_found_before_the_charge(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = init_owner(shared / "clinic", "clinic").ledger.with_name("owner.toml")
    real = os.statvfs

    def full(path: Any) -> Any:
        found = real(path)
        names = ("f_blocks", "f_bavail", "f_frsize", "f_files", "f_favail")
        told = SimpleNamespace(**{name: getattr(found, name) for name in names})
        told.f_bavail = 1 if str(path).startswith(str(shared / "state")) else told.f_bavail
        return told

    monkeypatch.setattr(os, "statvfs", full)
    with pytest.raises(Refused, match="no space left; free space on its disk") as caught:
        release(file, 1)
    assert caught.value.reason == "unready" and SqliteLedger(file.with_name("ledger.db")).head.rows == 0


@pytest.mark.parametrize("home", ["none", "", "."])
def test_without_a_place_outside_nothing_is_made(shared: Path, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "")
    none = shared / "none"
    monkeypatch.setenv("HOME", str(none) if home == "none" else home)
    monkeypatch.setattr("pwd.getpwuid", lambda number: SimpleNamespace(pw_name="clinic", pw_dir=str(none)))
    with pytest.raises(PauseError, match=r"no place outside .* for a second note.*set XDG_STATE_HOME") as caught:
        init_owner(shared / "clinic", "clinic")
    assert "\n" not in str(caught.value)
    assert not (shared / "clinic").exists() and not none.exists()


def test_a_place_inside_the_owner_s_folder_is_none(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older copy of the folder would bring its own second note."""
    (shared / "clinic").mkdir(mode=0o700)
    (shared / "link").symlink_to(shared / "clinic")
    for place in ("clinic", "clinic/state", "link/state"):
        monkeypatch.setenv("XDG_STATE_HOME", str(shared / place))
        with pytest.raises(PauseError, match=r"no place outside .*clinic for a second note"):
            init_owner(shared / "clinic", "clinic")
    assert list((shared / "clinic").iterdir()) == []


def test_a_home_of_another_user_is_not_written(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under sudo: the files of root would lock the user out."""
    file = init_owner(shared / "clinic", "clinic").ledger.with_name("owner.toml")
    owner = read_owner(file)
    me = os.geteuid()
    monkeypatch.setattr("pausefl.owner.second_note_place.os.geteuid", lambda: me + 1)
    with pytest.raises(PauseError, match=f"belongs to user .*{me}"):
        noted_heads.require_second_note_folder(owner.ledger)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_second_note_that_was_left_behind_does_not_vouch_for_an_older_copy(
    shared: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made in a shell, used by a service with a state folder of its own, put back, and used from the shell again."""
    file = init_owner(shared / "clinic", "clinic").ledger.with_name("owner.toml")
    monkeypatch.setenv("XDG_STATE_HOME", str(shared / "of the service"))
    for number in range(1, 4):
        if rows == number - 1:
            shutil.copytree(file.parent, shared / "older")
        release(file, number)
    shutil.copytree(shared / "older", file.parent, dirs_exist_ok=True)  # the inodes stay
    for name in ("of the service", "state"):
        monkeypatch.setenv("XDG_STATE_HOME", str(shared / name))
        with pytest.raises(Refused, match=r"misses a release|belongs to a second note that") as caught:
            release(file, 4)
        assert caught.value.reason == "unready" and SqliteLedger(file.with_name("ledger.db")).head.rows == rows
        with pytest.raises(ConfigError, match=r"misses a release|pass --releases N"):
            restore_ledger(file.with_name("ledger.db"))
    if rows:
        assert f"{shared / 'of the service'}/pausefl/ledgers" in str(caught.value)


def test_a_second_note_can_miss_one_row_and_no_more(shared: Path) -> None:
    """A client may be killed between a charge and its notes; a state folder that was put back misses more."""
    file = init_owner(shared / "clinic", "clinic").ledger.with_name("owner.toml")
    note = witness_path(read_owner(file).ledger_id)
    release(file, 1)
    old = note.read_text()
    release(file, 2)
    note.write_text(old)  # as if killed
    release(file, 3)
    assert read_witness(read_owner(file).ledger_id) == NotedHead.of(SqliteLedger(file.with_name("ledger.db")))
    note.write_text(old)
    with pytest.raises(Refused, match=r"has 3 rows, but the note in .* counts 1; .*so it is an older copy") as caught:
        release(file, 4)
    assert caught.value.reason == "unready" and "--releases N" in str(caught.value)
    restore_ledger(file.with_name("ledger.db"), None, 3)
    assert release(file, 4).releases == 4


def test_a_kill_before_the_note_is_made_good_before_the_next_charge(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two kills would leave a note two rows behind, which is refused."""
    file = init_owner(shared / "clinic", "clinic").ledger.with_name("owner.toml")
    for number in (1, 2, 3):
        with monkeypatch.context() as killed:
            killed.setattr("pausefl.owner.gate.note_head", lambda ledger: 1 / 0)
            with pytest.raises(Refused):
                release(file, number)
    assert release(file, 4).releases == 4


def test_the_notes_get_a_new_mark_when_a_ledger_is_put_back_elsewhere(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = init_owner(shared / "clinic", "clinic").ledger.with_name("owner.toml")
    ledger = file.with_name("ledger.db")
    release(file, 1)
    before = read_note(ledger)
    monkeypatch.setenv("XDG_STATE_HOME", str(shared / "new"))
    restored = restore_ledger(ledger, None, 1)
    after, witness = read_note(ledger), read_witness(restored.id)
    assert before and after and witness and after.fits(witness) and not after.fits(before)
    monkeypatch.setenv("XDG_STATE_HOME", str(shared / "state"))
    with pytest.raises(Refused, match="belongs to a second note that was last written to"):
        release(file, 2)


@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("count", [False, True])
def test_a_void_second_note_does_not_vouch_for_a_backup(
    shared: Path, first: int, count: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger went to two other state folders since, and the owner's folder is lost: the backup is from before."""
    file = init_owner(shared / "clinic", "clinic").ledger.with_name("owner.toml")
    for number in range(first):
        release(file, number + 1)
    ledger, backup = file.with_name("ledger.db"), shared / "backup.db"
    SqliteLedger(ledger).backup(backup)
    for place in ("service", "other-service"):
        monkeypatch.setenv("XDG_STATE_HOME", str(shared / place))
        (shared / place).mkdir(mode=0o700)
        rows = SqliteLedger(ledger).head.rows
        if rows:
            restore_ledger(ledger, releases=rows)
        release(file, rows + 1)
    shutil.rmtree(ledger.with_name("ledger.db-replies"))
    ledger.unlink()
    monkeypatch.setenv("XDG_STATE_HOME", str(shared / "state"))
    with pytest.raises(ConfigError, match=f"but not the head of row {first + 1} that is noted in .*service"):
        restore_ledger(ledger, backup, first if count else None)
    assert not ledger.exists()
    for place in ("service", "other-service"):
        shutil.rmtree(shared / place)  # nobody knows more than the owner now
    for releases in (None, first):
        with pytest.raises(ConfigError, match=r"was left behind when the ledger's note moved to .*/service/.*mounted"):
            restore_ledger(ledger, backup, releases)
    for left in (shared / "state" / "pausefl" / "ledgers").glob(SqliteLedger(backup).id):
        left.unlink()
    with pytest.raises(ConfigError, match="nothing here tells"):
        restore_ledger(ledger, backup)
    assert restore_ledger(ledger, backup, first).head.rows == first


def test_a_void_second_note_does_not_vouch_for_an_empty_ledger(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = init_owner(shared / "clinic", "clinic").ledger.with_name("owner.toml")
    ledger, older = file.with_name("ledger.db"), file.with_name("ledger.db").read_bytes()
    (shared / "service").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_STATE_HOME", str(shared / "service"))
    release(file, 1)
    monkeypatch.setenv("XDG_STATE_HOME", str(shared / "state"))
    shutil.rmtree(ledger.with_name("ledger.db-replies"))
    file.unlink()
    ledger.write_bytes(older)  # the inode stays
    with pytest.raises(ConfigError, match="is an older copy, or it was moved"):
        init_owner(shared / "clinic", "clinic")


@pytest.mark.parametrize("odd", ["deep", "pipe"])
def test_a_note_that_cannot_be_one_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = init_owner(tmp_path / "clinic", "clinic").ledger.with_name("owner.toml")
    note = note_path(tmp_path / "clinic" / "ledger.db")
    note.unlink()
    if odd == "pipe":
        os.mkfifo(note, 0o600)
    else:
        note.write_text("[" * 200_000)
        note.chmod(0o600)
    with pytest.raises(PauseError, match="is damaged" if odd == "deep" else r"cannot be read \(it is no plain file\)"):
        check_owner(file)


def test_a_copy_that_another_state_folder_knows_nothing_of_is_refused_by_the_note_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One user, one machine: the copy was put to use in the shell, and a service starts on the old folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "shell"))
    init_owner(tmp_path / "clinic", "clinic")
    shutil.copytree(tmp_path / "clinic", tmp_path / "copy")
    restore_ledger(tmp_path / "copy" / "ledger.db")
    model = {"w": np.zeros(3)}
    for number in (1, 2):
        owner = read_owner(tmp_path / "copy" / "owner.toml")
        Gate(owner, "run").train(TrainingRequest("run", number), model, lambda: (model, {}))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "service"))
    with pytest.raises(PauseError, match="misses a release"):
        check_owner(tmp_path / "clinic" / "owner.toml")


def test_a_state_folder_with_two_paths_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ledger = SqliteLedger(init_owner(tmp_path / "clinic", "clinic").ledger)
    before = read_witness(ledger.id)
    same = tmp_path / "other"
    same.symlink_to(tmp_path / "state")
    note = noted_heads.NotedHead.of(ledger, "mark")
    noted_heads._make_void(same / "pausefl" / "ledgers" / ledger.id, note)
    after = read_witness(ledger.id)
    assert before is not None and after is not None and after.mark == before.mark


def test_a_note_left_behind_that_cannot_be_made_void_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "old"))
    path = init_owner(tmp_path / "clinic", "clinic").ledger
    left = witness_path(SqliteLedger(path).id)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "new"))
    write = noted_heads._write

    def full(place: Path, text: str) -> None:
        if place == left:
            raise OSError(28, "No space left on device")
        write(place, text)

    monkeypatch.setattr(noted_heads, "_write", full)
    with pytest.raises(ConfigError, match="cannot be made void"):
        restore_ledger(path, None, 0)
    monkeypatch.setattr(noted_heads, "_write", write)
    restore_ledger(path, None, 0)
    void = noted_heads._read(left)
    assert void is not None and void.is_void


def test_a_new_ledger_is_refused_if_its_second_note_is_lost(shared: Path) -> None:
    """It may be one that was left behind: its folder was moved, made releases in its new place, and then lost."""
    file = init_owner(shared / "clinic", "clinic").ledger.with_name("owner.toml")
    shutil.rmtree(shared / "state")
    (shared / "state").mkdir(mode=0o700)
    with pytest.raises(Refused, match=r"has 0 rows, but no head is noted in .*, so it may be an older copy"):
        release(file, 1)
    restore_ledger(file.with_name("ledger.db"), None, 0)
    assert release(file, 1).releases == 1


@pytest.mark.parametrize("newer", ["home", "service"])
def test_the_note_in_the_home_is_asked_and_made_void_if_the_replies_are_lost(
    shared: Path, newer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing says then where the second note was, but without XDG_STATE_HOME it was in the home."""
    (shared / "service").mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(shared))
    monkeypatch.delenv("XDG_STATE_HOME")
    file = init_owner(shared / "clinic", "clinic").ledger.with_name("owner.toml")
    ledger, replies, backup = file.with_name("ledger.db"), file.with_name("ledger.db-replies"), shared / "backup.db"
    release(file, 1)
    SqliteLedger(ledger).backup(backup)
    shutil.copytree(file.parent, shared / "older")
    if newer == "home":
        release(file, 2)
    ledger.unlink()
    shutil.rmtree(replies)
    monkeypatch.setenv("XDG_STATE_HOME", str(shared / "service"))
    if newer == "home":
        with pytest.raises(ConfigError, match=r"not the head of row 2 that is noted in .*/\.local/state/"):
            restore_ledger(ledger, backup, 1)
        return
    restore_ledger(ledger, backup, 1)
    release(file, 2)
    monkeypatch.delenv("XDG_STATE_HOME")
    shutil.rmtree(file.parent)
    shutil.copytree(shared / "older", file.parent)
    with pytest.raises(Refused):
        release(file, 3)


def test_a_state_folder_that_is_no_whole_path_is_refused(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard says to ignore it, and an owner would believe that the second note is on the second disk."""
    monkeypatch.setenv("XDG_STATE_HOME", "~/disk2/state")
    with pytest.raises(ConfigError, match=r"XDG_STATE_HOME is '~/disk2/state', but must be an absolute path"):
        init_owner(shared / "clinic", "clinic")
    assert not (shared / "clinic").exists()
