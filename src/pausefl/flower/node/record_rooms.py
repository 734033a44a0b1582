"""A room for each record: the app trains on one record at a time, in a process that sees no other; seen from outside.

What a row holds then follows from its own record, from the model and from the app's settings:
there is nothing of another record in its reach.  The box is one for the whole training.  In it a process of our own,
which runs no code of the app and never reads a record, starts a process for each record, in a room of its own.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from logging import INFO
from typing import Self

from flwr.app import Context, Message
from flwr.common.serde import context_to_proto, message_to_proto
from flwr.supercore import log

from pausefl.flower.client import tell_trained
from pausefl.flower.node.app_request import app_request
from pausefl.flower.node.array_bytes import from_bytes, size_of
from pausefl.flower.node.box import PYTHON, Box, BoxError, Lines, pack
from pausefl.flower.node.shared_limits import memory_there
from pausefl.owner.data_records import MOST_BYTES, DataRecord, DataRecords
from pausefl.owner.gate import Rows
from pausefl.privacy.mechanisms.tensor_rules import Tensor

READY, DONE, FAILED = b"r", b"d", b"f"
"""What the process in the box tells: that it waits for a record, and how the training on one has ended."""

ROOM, ROOM_WITH_CLOCK = b"1", b"2"
"""What a trial finds: a room; and one in which the time of day is the machine's."""

LEAST_SECONDS = 0.05
"""For one record at least: to start a process and to load the app takes about 0.01."""
_BESIDE, _BESIDE_PACED, _LEAST_BESIDE, _PATIENCE = 0.1, 0.5, 0.05, 20.0
"""The share of the time for what happens between two records, and seconds for it; and for a process to answer.

Paced, it is so large that the memory of a process that was stopped is free again before the next record begins: to free
memory takes less time than to fill it."""
_ROOM_SHARE = 4
"""Which part of the machine's memory a room can have, beside what it begins with.  The SuperNode has half of it."""
_ON_ITS_WAY = 2
"""How often a record is in memory outside its room: as it was read, and as it is handed over."""
_MOST_WORDS = 4096
"""Bytes that are logged of what an app says about one record."""


def rows_from_rooms(
    box: Box, bundle: bytes, message: Message, context: Context, model: Mapping[str, Tensor], records: DataRecords,
    *, began: float, end: float, paced: bool = False,
) -> Rows:  # fmt: skip
    """Hand on a row for each record, in a random order: what the app adds to the model for it; None where it fails.

    Law: each record has the same time, whatever the others take, and however long the packages took to load.  If they
    are ``paced``, a record also begins at its own time before ``end``, whatever the others take: an app could ask a
    clock.  The time of day in a room is that at which the training ``began``: to open the data takes the longer, the
    longer it is.
    """
    asked, given = app_request(message, context, began)
    parts = [part.SerializeToString() for part in (message_to_proto(asked), context_to_proto(given))]
    failed, order, lines = 0, records.in_random_order(), Lines(lambda line: log(INFO, "app says: %s", line))
    left = _after_loading(box.time_limit)
    end = end if math.isfinite(end) else time.monotonic() + box.time_limit
    # By the number in the owner's file, which is public: that of the records is not, if there are fewer.
    slot, seconds = left / records.most, seconds_each(left, records.most, paced=paced)
    with _RecordMemory() as held, _rooms(box, pack(bundle, *parts), lines.take, began, end) as channel:
        for place, number in enumerate(order):
            if paced:
                time.sleep(max(0.0, end - left + place * slot - time.monotonic()))
            with held.lent(records.size(number)):
                patience = max(seconds + _PATIENCE, end - time.monotonic())
                row = _row_of(records, number, channel, size_of(model), seconds, lines.take, patience)
            if row is None:
                failed += 1
                yield None
            else:
                yield from_bytes(model, row)
                del row
    tell_trained(failed, len(order))


class _RecordMemory:
    """Memory for the longest record there can be, held while there is none: a record takes its part of it.

    So a long record takes no more of the machine's memory than a short one, outside its room.  A server that leaves
    hardly any would otherwise find by it whether a long record is there: the kernel would end what makes rooms.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _ON_ITS_WAY * MOST_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def __enter__(self) -> Self:
        self._take(len(self._memory))
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.close()

    def _take(self, size: int) -> None:
        for place in range(0, size, mmap.PAGESIZE):
            self._memory[place] = 1

    @contextmanager
    def lent(self, size: int) -> Iterator[None]:
        """Give up memory for a record of so many bytes; take it back afterwards."""
        pages = -(-_ON_ITS_WAY * min(size, MOST_BYTES) // mmap.PAGESIZE) * mmap.PAGESIZE
        if pages:
            self._memory.madvise(mmap.MADV_DONTNEED, 0, pages)
        try:
            yield
        finally:
            self._take(pages)


def _after_loading(limit: float) -> float:
    """Return how much of a time limit is for records: the rest is to load packages, however long that takes."""
    return limit - min(_PATIENCE, limit / 2)


def seconds_each(seconds: float, records: int, *, paced: bool = False) -> float:
    """Return how long the app may take for one record, by public numbers alone."""
    slot = seconds / records
    return slot - max(_LEAST_BESIDE, (_BESIDE_PACED if paced else _BESIDE) * slot)


def time_between(limit: float, *, paced: bool = False) -> float:
    """Return how much of a time limit is at least left for what happens between records, after all packages loaded."""
    return (_BESIDE_PACED if paced else _BESIDE) * _after_loading(limit)


def check_time(limit: float, records: int, *, paced: bool = False) -> None:
    """Refuse a time limit that leaves too little for each record, after all packages were loaded."""
    each = seconds_each(_after_loading(limit), records, paced=paced)
    if each < LEAST_SECONDS:
        slot = max(LEAST_SECONDS + _LEAST_BESIDE, LEAST_SECONDS / (1.0 - (_BESIDE_PACED if paced else _BESIDE)))
        least = math.ceil(slot * records * (1.0 + 1e-9) + _PATIENCE)
        raise BoxError(
            f"a time limit of {limit:g} seconds leaves {max(0.0, each):.3f} for each of {records} records, but must "
            f"leave at least {LEAST_SECONDS:g}; raise --time-limit to {least} or more"
            + (", and --answer-after with it" if paced else "")
        )


def check_rooms(box: Box) -> bool:
    """Refuse a machine on which there can be no room; return whether the time of day in one tells nothing of others.

    Nothing is loaded in it but pausefl itself.
    """
    said: list[str] = []
    lines = Lines(said.append)
    try:
        with _rooms(box, b"", lines.take, time.time(), time.monotonic() + _PATIENCE, "try") as channel:
            row = _row(channel, DataRecord(b""), 1, _PATIENCE, lines.take, 2 * _PATIENCE)
    except BoxError as error:
        said.append(str(error))
        row = None
    if row not in (ROOM, ROOM_WITH_CLOCK):
        raise BoxError("; ".join(said) or "the process for one record can see others")
    return row == ROOM


@contextmanager
def _rooms(
    box: Box, request: bytes, hear: Callable[[bytes], None], began: float, end: float, *words: str
) -> Iterator[socket.socket]:  # fmt: skip
    """Start the process that makes rooms; once it is ready, yield the way to it."""
    box = replace(box, data=(), blind=False, rooms=True)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [PYTHON, "-P", "-m", "pausefl.flower.node", "rooms", str(theirs.fileno())]
    command += [str(box.memory or 0), str(memory_there() // _ROOM_SHARE), str(int(began * 1000))]
    command += ["closed" if box.closed else "open", *words]
    with (
        ours,
        theirs,
        _memory("words") as said,
        box.started(command, request, out=said, words=said, passed=(theirs.fileno(),)),
    ):
        theirs.close()
        try:
            if _told(ours, end - time.monotonic())[0] != READY:
                raise BoxError("the app's box did not begin")
            yield ours
        finally:
            hear(os.pread(said, _MOST_WORDS, 0) + b"\n")


def _row_of(
    records: DataRecords, number: int, channel: socket.socket, size: int, seconds: float,
    hear: Callable[[bytes], None], patience: float,
) -> bytes | None:  # fmt: skip
    """Return the bytes that the app made of a record, which is gone from this process when this returns."""
    record = records.read(number)
    # Also for a record that cannot be read: otherwise the number of rooms would show it to the next ones.
    row = _row(channel, record or DataRecord(b""), size, seconds, hear, patience)
    return None if record is None else row


def _row(
    channel: socket.socket, record: DataRecord, size: int, seconds: float, hear: Callable[[bytes], None],
    patience: float,
) -> bytes | None:  # fmt: skip
    """Return the bytes that the app made of this record; None if it failed, or took too long.

    Once its time is over its process is ended, and that can take long, too: after ``patience`` the training has failed.
    """
    # Memory of its own for each record: an open file that two processes have in common has a place that both can move.
    with _memory("record") as given:
        written = _written(given, record)
        if not written:
            _written(given, DataRecord(b""))  # it has a room all the same, as if it could not be read
        os.lseek(given, 0, os.SEEK_SET)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        try:
            fcntl.fcntl(given, fcntl.F_ADD_SEALS, seals)
        except OSError:  # the kernel is moving its pages: this must fail this record only
            written = False
        socket.send_fds(channel, [struct.pack("!d", seconds)], [given])
    told, files = _told(channel, patience)
    try:
        row, words = (_read(handle, most) for handle, most in zip(files, (size, _MOST_WORDS), strict=True))
    finally:
        for handle in files:
            os.close(handle)
    hear(words + b"\n")
    return row if written and told == DONE and len(row) == size else None


def _written(handle: int, record: DataRecord) -> bool:
    """Write a record down, and tell whether there was room: a limit of the machine must fail this record only."""
    try:
        os.ftruncate(handle, 0)
        # Not buffered: what could not be written would be tried again when the file is closed.
        with os.fdopen(os.dup(handle), "wb", buffering=0) as file:
            file.seek(0)
            for part in (record.name.encode(errors="surrogateescape"), record.data):
                for piece in (struct.pack("!Q", len(part)), part):  # packed together it would take its memory twice
                    rest = memoryview(piece)
                    while rest:
                        rest = rest[file.write(rest) :]
    except (OSError, MemoryError):
        return False
    return True


def _read(handle: int, most: int) -> bytes:
    """Return what a room has written, up to so many bytes; one call reads 2 GiB at most."""
    with os.fdopen(os.dup(handle), "rb") as file:
        file.seek(0)
        return file.read(most)


def _told(channel: socket.socket, seconds: float) -> tuple[bytes, list[int]]:
    """Return what the process that makes rooms tells, and what a room has written."""
    channel.settimeout(max(0.01, seconds))
    try:
        told, files, _, _ = socket.recv_fds(channel, 1, 2)
    except OSError as error:  # also if it takes too long
        raise BoxError(f"the process that makes rooms for records does not answer ({error})") from None
    if not told:
        raise BoxError("the process that makes rooms for records has ended")
    return told, files


@contextmanager
def _memory(name: str) -> Iterator[int]:
    handle = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        yield handle
    finally:
        os.close(handle)
