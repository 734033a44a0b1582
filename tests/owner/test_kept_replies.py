"""Kept replies give way to a new one where the disk is full, if that is enough, and otherwise stay."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pausefl.owner.kept_replies import ReplyStore
from pausefl.owner.request_and_reply import Reply


def reply(releases: int) -> Reply:
    return Reply({"w": np.full(5000, float(releases))}, {}, releases)


def keep(store: ReplyStore, number: int) -> None:
    with store.place("clinic", f"run/{number}", "request", reply(0)) as place:
        place.keep(reply(number))


def kept(store: ReplyStore) -> list[int]:
    return [number for number in range(1, 9) if store.load("clinic", f"run/{number}", "request")]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """A disk that has room for so many bytes beside the replies that are kept on it, whatever the real one has."""
    size, real = SimpleNamespace(bytes=1 << 30), os.posix_fallocate

    def free() -> int:
        return size.bytes - sum(path.stat().st_blocks * 512 for path in tmp_path.glob("*.reply"))

    def fallocate(handle: int, start: int, length: int) -> None:
        if length > free():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle, start, length)

    monkeypatch.setattr(os, "posix_fallocate", fallocate)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=max(0, free()), f_frsize=1))
    return size


def test_the_oldest_replies_give_way_on_a_full_disk(tmp_path: Path, disk: SimpleNamespace) -> None:
    store = ReplyStore(tmp_path, 3)
    for number in (1, 2, 3):
        keep(store, number)
    assert kept(store) == [1, 2, 3]
    disk.bytes = 240_000  # one of them, and the room for another
    keep(store, 4)
    assert kept(store) == [3, 4]
    keep(store, 5)
    assert kept(store) == [4, 5]


def test_nothing_is_given_up_for_a_reply_that_does_not_fit_anyway(tmp_path: Path, disk: SimpleNamespace) -> None:
    store = ReplyStore(tmp_path, 3)
    for number in (1, 2):
        keep(store, number)
    disk.bytes = 150_000
    with pytest.raises(OSError, match="No space left"):
        keep(store, 3)
    assert kept(store) == [1, 2]
    assert not list(tmp_path.glob(".reply-*"))


def test_nothing_gives_way_to_a_request_that_was_answered_before(tmp_path: Path, disk: SimpleNamespace) -> None:
    store = ReplyStore(tmp_path, 3)
    for number in (1, 2, 3):
        keep(store, number)
    disk.bytes = 240_000
    with pytest.raises(OSError, match="No space left"):
        store.place("clinic", "run/3", "request", reply(0))
    with pytest.raises(OSError, match="No space left"):
        store.place("clinic", "run/4", "request", reply(0), give_way=False)
    assert kept(store) == [1, 2, 3]
