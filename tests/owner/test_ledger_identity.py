"""The note beside the replies: it only ever grows, and it finds a ledger that is not the one of its data."""

from __future__ import annotations

import errno
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pausefl.errors import ConfigError, LedgerError
from pausefl.owner.gate import Gate
from pausefl.owner.kept_replies import is_retired, replies_folder
from pausefl.owner.ledger_identity import charging, make_ledger, note_head, retire_for_ever
from pausefl.owner.noted_heads import NotedHead, node_lock, note_path, noting, read_note, read_witness, witness_path
from pausefl.owner.owner_init import init_owner
from pausefl.owner.request_and_reply import Refused, TrainingRequest
from pausefl.privacy import FixedHorizon, SqliteLedger
from pausefl.system.lock import only_writer

HORIZON = FixedHorizon(8.0, 64)


def charge(path: Path, number: int) -> SqliteLedger:
    ledger = SqliteLedger(path)
    ledger.reserve("clinic", f"run/{number}", HORIZON)
    return ledger


def charged_and_noted(path: Path, number: int) -> None:
    ledger = SqliteLedger(path)
    with charging(ledger):
        ledger.reserve("clinic", f"run/{number}", HORIZON)
        note_head(ledger)


def make_folder(tmp_path: Path) -> Path:
    (tmp_path / "original").mkdir()
    return make_ledger(tmp_path / "original" / "ledger.db").path


def live_copy(path: Path) -> Path:
    """A second folder with the same ledger that no note beside it betrays: as if the inode were the same."""
    copy = path.parent.with_name("copy") / path.name
    shutil.copytree(path.parent, copy.parent)
    note = note_path(copy)
    note.write_text(json.dumps(json.loads(note.read_text()) | {"inode": copy.stat().st_ino}))
    return copy


def test_a_client_that_was_killed_before_its_note_stops_no_other_that_had_opened_the_ledger(tmp_path: Path) -> None:
    path = make_folder(tmp_path)
    charged_and_noted(path, 1)
    waiting = SqliteLedger(path)
    killed = SqliteLedger(path)
    with charging(killed):
        killed.reserve("clinic", "run/2", HORIZON)
    with charging(waiting):
        waiting.reserve("clinic", "run/3", HORIZON)
        note_head(waiting)
    charged_and_noted(path, 4)
    assert read_note(path) == NotedHead.of(SqliteLedger(path)) == read_witness(waiting.id)


def test_a_later_head_is_never_replaced_by_an_earlier_one(tmp_path: Path) -> None:
    path = make_ledger(tmp_path / "ledger.db").path
    first = charge(path, 1)
    note_head(first)
    second = charge(path, 2)
    note_head(second)
    note_head(first)  # another client that was slower to note its charge
    assert read_note(path) == NotedHead.of(second)


def test_many_clients_at_once_leave_the_note_of_the_last_row(tmp_path: Path) -> None:
    path = make_ledger(tmp_path / "ledger.db").path
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(charged_and_noted, [path] * 24, range(24)))
    assert read_note(path) == NotedHead.of(SqliteLedger(path))


def test_a_ledger_beside_replies_of_another_is_not_made(tmp_path: Path) -> None:
    make_ledger(tmp_path / "ledger.db").path.unlink()
    with pytest.raises(ConfigError, match="there was a ledger here before"):
        make_ledger(tmp_path / "ledger.db")
    assert not (tmp_path / "ledger.db").exists()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"ledger_id": 1, "rows": 1, "hash": "x", "inode": 1}', "\xff"]
)
def test_a_note_that_makes_no_sense_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = make_ledger(tmp_path / "ledger.db").path
    (tmp_path / "ledger.db-replies" / "head").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match="is damaged; move it away, and run 'pausefl ledger restore LEDGER") as caught:
        read_note(path)
    assert "\n" not in str(caught.value)


def test_of_two_copies_only_the_one_that_was_charged_first_goes_on(tmp_path: Path) -> None:
    path = make_folder(tmp_path)
    copy = live_copy(path)
    charged_and_noted(copy, 1)
    with pytest.raises(
        ConfigError, match=r"has 0 rows, but not the head of row 1 that is noted in .*/ledgers/"
    ) as caught:
        charged_and_noted(path, 2)
    assert "\n" not in str(caught.value)
    charged_and_noted(copy, 3)
    assert (SqliteLedger(path).head.rows, SqliteLedger(copy).head.rows) == (0, 2)


def test_two_copies_that_are_charged_at_once_end_as_one(tmp_path: Path) -> None:
    """Whoever is charged without a look at the other cannot note it, so nothing leaves."""
    path = make_folder(tmp_path)
    copy = live_copy(path)
    first, second = charge(path, 1), charge(copy, 2)
    note_head(first)
    with pytest.raises(ConfigError, match="misses a release"):
        note_head(second)
    assert read_witness(first.id) == NotedHead.of(first)


def test_many_clients_of_two_copies_never_release_more_than_the_witness_knows(tmp_path: Path) -> None:
    path = make_folder(tmp_path)
    copy = live_copy(path)

    def fine(number: int) -> bool:
        try:
            charged_and_noted((path, copy)[number % 2], number)
        except ConfigError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        released = sum(pool.map(fine, range(12)))
    witness = read_witness(SqliteLedger(path).id)
    assert witness is not None and released == witness.rows == 6


def test_a_charge_whose_file_was_exchanged_is_not_noted(tmp_path: Path) -> None:
    path = make_folder(tmp_path)
    older = path.read_bytes()
    ledger = charge(path, 1)
    path.write_bytes(older)
    with pytest.raises(LedgerError, match="older copy or was rewritten"):
        note_head(ledger)
    noted = read_note(path)
    assert noted is not None and noted.rows == 0


def test_the_witness_is_for_its_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    ledger = SqliteLedger(make_folder(tmp_path))
    witness = tmp_path / "home" / ".local" / "state" / "pausefl" / "ledgers" / ledger.id
    assert witness_path(ledger.id) == witness
    assert witness.stat().st_mode & 0o777 == 0o600 and witness.parent.stat().st_mode & 0o777 == 0o700
    witness.write_text("{}")
    with pytest.raises(ConfigError, match="is damaged"):
        charged_and_noted(ledger.path, 1)


def test_a_ledger_with_two_names_is_refused(tmp_path: Path) -> None:
    """A crash under one name would leave its journal there, and the charge would stay under the other."""
    path = make_folder(tmp_path)
    os.link(path, tmp_path / "second.db")
    with pytest.raises(ConfigError, match=r"has 2 names \(hard links\).*find / -samefile") as caught:
        charged_and_noted(path, 1)
    assert "\n" not in str(caught.value)
    (tmp_path / "second.db").unlink()
    charged_and_noted(path, 1)


def test_a_retirement_is_noted_where_nothing_was(tmp_path: Path) -> None:
    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    retire_for_ever(ledger, "clinic")
    assert read_note(ledger.path) == read_witness(ledger.id) == NotedHead.of(ledger)


def test_a_retirement_that_fails_makes_no_older_copy_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the whole folder, from before a release: the second note knows of it, and must not forget it."""
    path = make_folder(tmp_path)
    charged_and_noted(path, 1)
    before = tmp_path / "before"
    shutil.copytree(path.parent, before)
    charged_and_noted(path, 2)
    shutil.rmtree(path.parent)
    shutil.copytree(before, path.parent)
    note_path(path).unlink()
    ledger = SqliteLedger(path)
    witness = read_witness(ledger.id)
    witness_path(ledger.id).rename(tmp_path / "away")  # as on a disk that is not mounted

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteLedger, "retire", full)
        with pytest.raises(OSError, match="full"):
            retire_for_ever(ledger, "clinic")
    assert read_note(path) is None and read_witness(ledger.id) is None
    (tmp_path / "away").rename(witness_path(ledger.id))
    assert read_witness(ledger.id) == witness
    with pytest.raises(ConfigError):
        charged_and_noted(path, 3)


def test_a_backup_is_not_retired_and_leaves_no_note(tmp_path: Path) -> None:
    path = make_folder(tmp_path)
    charged_and_noted(path, 1)
    noted = read_witness(SqliteLedger(path).id)
    (tmp_path / "kept").mkdir()
    SqliteLedger(path).backup(tmp_path / "kept" / "ledger.db")
    backup = SqliteLedger(tmp_path / "kept" / "ledger.db")
    with pytest.raises(LedgerError, match="backup"):
        retire_for_ever(backup, "clinic")
    assert [one.name for one in (tmp_path / "kept").iterdir()] == ["ledger.db"] and read_witness(backup.id) == noted


def test_folders_on_the_way_to_the_second_note_are_for_its_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_folder(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a" / "b"))
    old = os.umask(0)
    try:
        with noting(path, "0" * 32):
            pass
    finally:
        os.umask(old)
    modes = [
        oct((tmp_path / part).stat().st_mode & 0o777) for part in ("a", "a/b", "a/b/pausefl", "a/b/pausefl/ledgers")
    ]
    assert modes == ["0o700"] * 4


def test_a_second_name_is_refused_also_if_the_ledger_was_opened_before_the_first_charge(tmp_path: Path) -> None:
    first = init_owner(tmp_path / "clinic", "clinic")
    model = {"w": np.zeros(5)}
    gates = [Gate(replace(first, name=name), "run") for name in ("clinic", "other")]
    assert gates[0].train(TrainingRequest("run", 1), model, lambda: (model, {})).releases == 1
    with pytest.raises(Refused, match="; write name = ") as caught:
        gates[1].train(TrainingRequest("run", 1), model, lambda: (model, {}))
    assert caught.value.reason == "unready" and SqliteLedger(first.ledger).head.rows == 1


def test_nothing_is_retired_while_a_node_runs(tmp_path: Path) -> None:
    """A finished reply may wait in it for as long as the server likes: 3 of 3 left up to 69 seconds later."""
    ledger = make_ledger(tmp_path / "ledger.db")
    replies_folder(ledger.path).mkdir(exist_ok=True)
    with (
        only_writer(node_lock(ledger.path), ledger.path, "stop it"),
        pytest.raises(ConfigError, match=r"is being used by another process; wait for it, or stop the node first"),
    ):
        retire_for_ever(ledger, "clinic")
    assert not ledger.charges("clinic") and not is_retired(replies_folder(ledger.path), "clinic")
    retire_for_ever(ledger, "clinic")
    assert is_retired(replies_folder(ledger.path), "clinic")
