"""Room for replies: whether there is any does not depend on the size of a reply that fits the disk at all."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pausefl.errors import ConfigError
from pausefl.owner.kept_replies import ReplyStore
from pausefl.owner.request_and_reply import Reply

SIZES = [1, 100, 5_000, 20_000, 100_000]
DISK = 64 << 20


def reply(releases: int, size: int = 5000) -> Reply:
    return Reply({"w": np.full(size, float(releases))}, {}, releases)


def keep(store: ReplyStore, number: int, size: int = 5000) -> None:
    with store.place("clinic", f"run/{number}", "request", reply(0, size)) as place:
        place.keep(reply(number, size))


def kept(store: ReplyStore) -> list[int]:
    return [number for number in range(1, 9) if store.load("clinic", f"run/{number}", "request")]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """A disk on which others leave so many bytes to us, whatever the real one has."""
    ours = SimpleNamespace(left=DISK // 2)

    def statvfs(_: object) -> SimpleNamespace:
        used = sum(path.stat().st_blocks * 512 for path in tmp_path.iterdir())
        return SimpleNamespace(f_blocks=DISK, f_bavail=max(0, ours.left - used), f_frsize=1)

    monkeypatch.setattr(os, "statvfs", statvfs)
    return ours


def fits(store: ReplyStore, size: int) -> bool:
    try:
        with store.place("clinic", "run/8", "request", reply(0, size)):
            return True
    except ConfigError as error:
        assert "MiB for replies, but must have 4.0 MiB" in str(error)
        return False


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_server_cannot_find_what_is_left_by_replies_of_many_sizes(
    tmp_path: Path, disk: SimpleNamespace, before: int
) -> None:
    """Also not after replies of its own: they count as room."""
    store = ReplyStore(tmp_path, 2)
    for number in range(before):
        keep(store, number + 1, 20_000)
    for left in (DISK // 2, DISK // 16 + 8192, DISK // 16 - 8192, 0):
        disk.left = left
        assert [fits(store, size) for size in SIZES[:-1]] == [left > DISK // 16] * (len(SIZES) - 1)


def test_a_reply_that_is_too_large_for_the_disk_is_refused_whatever_is_left(
    tmp_path: Path, disk: SimpleNamespace
) -> None:
    for disk.left in (DISK, DISK // 2, 0):
        with pytest.raises(ConfigError, match=r"a reply of 0.8 MiB is too large: 2 of them .* each may have 0.7 MiB"):
            ReplyStore(tmp_path, 2).place("clinic", "run/1", "request", reply(0, SIZES[-1]))
    disk.left = DISK
    with ReplyStore(tmp_path, 1).place("clinic", "run/1", "request", reply(0, SIZES[-1])):
        assert not kept(ReplyStore(tmp_path, 2))


def test_the_last_few_replies_are_kept(tmp_path: Path, disk: SimpleNamespace) -> None:
    store = ReplyStore(tmp_path, 3)
    for number in (1, 2, 3, 4, 5):
        keep(store, number)
    assert kept(store) == [3, 4, 5]
    disk.left = 0
    with pytest.raises(ConfigError, match="free some"):
        keep(store, 6)
    assert kept(store) == [3, 4, 5]
    assert not list(tmp_path.glob(".reply-*"))
