"""The note beside the replies: it only ever grows, and it finds a ledger that is not the one of its data."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pausefl.errors import ConfigError
from pausefl.owner.ledger_identity import NotedHead, make_ledger, note_head, read_note
from pausefl.privacy import FixedHorizon, SqliteLedger

HORIZON = FixedHorizon(8.0, 64)


def charge(path: Path, number: int) -> SqliteLedger:
    ledger = SqliteLedger(path)
    ledger.reserve("clinic", f"run/{number}", HORIZON)
    return ledger


def test_a_later_head_is_never_replaced_by_an_earlier_one(tmp_path: Path) -> None:
    path = make_ledger(tmp_path / "ledger.db").path
    first, second = charge(path, 1), charge(path, 2)
    note_head(second)
    note_head(first)  # another client that was slower to note its charge
    assert read_note(path) == NotedHead.of(second)


def test_many_clients_at_once_leave_the_note_of_the_last_row(tmp_path: Path) -> None:
    path = make_ledger(tmp_path / "ledger.db").path
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: note_head(charge(path, number)), range(24)))
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
    with pytest.raises(ConfigError, match="cannot be read; put it back") as caught:
        read_note(path)
    assert "\n" not in str(caught.value)
