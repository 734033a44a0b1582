"""Replies kept on the owner's disk: a repeated request gets the very bytes that left before, or nothing."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np

from pausefl.errors import ConfigError, StateFileError
from pausefl.owner.request_and_reply import Reply
from pausefl.privacy.mechanisms.base import NoiseLevel
from pausefl.system.lock import only_writer
from pausefl.system.state_file import read_state, state_parts, sync_folder

_KIND, LOCK = "reply", "lock"
"""The kind of file, and the name of the lock in a folder of replies."""
_PATIENCE = 30.0
"""Seconds that a client waits for another of the same owner: as long as it waits for their ledger."""
_MORE, _LEDGER = 1 << 16, 1 << 16
"""Bytes of room beside the arrays of a reply: for its numbers, and for the charge and its note."""


def replies_folder(ledger: Path) -> Path:
    """Return where the replies of a ledger are kept: beside it."""
    return ledger.with_name(f"{ledger.name}-replies")


def send_no_more(folder: Path, subject: str) -> None:
    """Keep replies of a subject from leaving, also those to trainings that go on: it was retired."""
    _end_of(folder, subject).touch(mode=0o600)
    sync_folder(folder)


def is_retired(folder: Path, subject: str) -> bool:
    """Whether replies of a subject may not leave any more; nothing has to be opened for that."""
    return _end_of(folder, subject).exists()


@contextmanager
def writing_in(folder: Path) -> Iterator[None]:
    """Be the only one that makes files in a folder of replies; what a killed client left half-written is removed."""
    lock = folder / LOCK
    with only_writer(lock, folder, "end that process", wait=_PATIENCE):
        lock.chmod(0o600)
        for stale in filter(Path.is_file, folder.glob(".*")):
            with suppress(OSError), stale.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while a client that lives has it
                stale.unlink(missing_ok=True)
        yield


class ReplyStore:
    """The last few replies, a file each.

    Law: ``load`` returns what was kept for this subject, release and request, to the bit, or None.  What is kept here
    has been noised and charged: it may be sent to anybody.
    """

    __slots__ = ("_folder", "_keep")

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder, self._keep = folder, keep

    def place(self, subject: str, release: str, request: str, blank: Reply, *, give_way: bool = True) -> Place:
        """Make room for a reply that is not known yet, as large as ``blank``; older replies may give way."""
        with writing_in(self._folder):
            return Place(self._folder, self._keep, (subject, release, request), blank, give_way)

    def load(self, subject: str, release: str, request: str) -> Reply | None:
        """Return the reply to this very request; None if it is not kept, damaged, or was to another request."""
        for path in self._folder.glob(f"{_name(subject)}-*-{_name(release)}.reply"):
            with suppress(OSError, StateFileError, LookupError, TypeError, ValueError):  # damaged, or nobody's reply
                header, arrays = read_state(path, _KIND)
                if (header["subject"], header["release"], header["request"]) == (subject, release, request):
                    return _kept_reply(header, arrays)
        return None


class Place:
    """Room on the disk for one reply, made and opened before the reply is known.

    Law: ``keep`` needs no block of the disk that is not taken yet, no descriptor and no lock, so it does not fail if
    training has used up what there was.  It never replaces a reply.  Without it, nothing is left behind.
    """

    __slots__ = ("_asked", "_folder", "_gives_way", "_held", "_old", "_room", "_temporary")

    def __init__(self, folder: Path, keep: int, asked: tuple[str, str, str], blank: Reply, give_way: bool) -> None:
        self._asked, self._folder, self._held, self._gives_way = asked, folder.absolute(), ExitStack(), give_way
        self._room: mmap.mmap | None = None
        if not keep:
            return
        kept = sorted(self._folder.glob(f"{_name(asked[0])}-*.reply"))
        # A request that was answered before needs no room, and its own reply must not give way.
        self._gives_way &= not any(path.name.endswith(f"-{_name(asked[1])}.reply") for path in kept)
        size = sum(map(len, self._parts(blank))) + _MORE
        with ExitStack() as held:
            handle, path = tempfile.mkstemp(prefix=".reply-", dir=self._folder)
            self._temporary = Path(path)
            held.callback(self._temporary.unlink, missing_ok=True)
            with os.fdopen(handle, "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                self._take_room(file.fileno(), size + _LEDGER, kept)
                file.truncate(size)
                # A map of it stays, with its lock, whatever becomes of the descriptors.
                self._room = held.enter_context(mmap.mmap(file.fileno(), size))
            self._held = held.pop_all()
        self._old = kept[: max(0, len(kept) + 1 - keep)]

    def _take_room(self, handle: int, size: int, kept: list[Path]) -> None:
        """Take so many bytes of the disk; the oldest replies give way, but only if that is enough.

        Otherwise a server could fill a small disk with two large replies, and nothing would ever be answered again.
        """
        while True:
            try:
                os.posix_fallocate(handle, 0, size)
                return
            except OSError as error:
                disk = os.statvfs(self._folder)
                free = disk.f_bavail * disk.f_frsize + os.fstat(handle).st_blocks * 512
                theirs = sum(path.stat().st_blocks * 512 for path in kept if path.stat().st_nlink == 1)
                enough = free + theirs >= size
                if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not kept or not (self._gives_way and enough):
                    raise
                kept.pop(0).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # what training broke must not hide why nothing was sent
            self._held.close()

    def keep(self, reply: Reply) -> None:
        """Keep a reply durably, and forget the oldest beyond as many as are kept of this subject.

        Refuse it if the subject was retired while training went on: then it must not leave, whether or not it is kept.
        """
        if is_retired(self._folder, self._asked[0]) or not self._folder.exists():  # it may be retired in a new place
            raise ConfigError(f"{self._asked[0]!r} was retired while training went on, so nothing is sent")
        if self._room is None:
            return
        for part in self._parts(reply):
            self._room.write(part)
        os.truncate(self._temporary, self._room.tell())
        self._room.flush()
        subject, release, _ = self._asked
        name = f"{_name(subject)}-{reply.releases:012d}-{_name(release)}.reply"
        os.link(self._temporary, self._folder / name)
        with suppress(OSError):  # it needs a descriptor; a name that is lost with the power is a reply that is not kept
            sync_folder(self._folder)
        for old in self._old:
            old.unlink(missing_ok=True)

    def _parts(self, reply: Reply) -> list[Any]:
        subject, release, request = self._asked
        header = {
            "subject": subject, "release": release, "request": request,
            "metrics": dict(reply.numbers), "releases": reply.releases, "seconds": reply.seconds,
            "level": reply.level and asdict(reply.level),
            "shapes": {name: list(tensor.shape) for name, tensor in reply.arrays.items()},
        }  # fmt: skip
        # By number: a tensor's name may be anything.
        return state_parts(_KIND, header, {str(place): tensor for place, tensor in enumerate(reply.arrays.values())})


def _kept_reply(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> Reply:
    shapes = header["shapes"].items()
    tensors = {name: np.array(arrays[str(i)]).reshape(shape) for i, (name, shape) in enumerate(shapes)}
    level = header.get("level")  # replies of before have none
    return Reply(
        tensors, header["metrics"], header["releases"], header["seconds"], replayed=True,
        level=level and NoiseLevel(**level),
    )  # fmt: skip


def _end_of(folder: Path, subject: str) -> Path:
    return folder / f"{_name(subject)}.retired"


def _name(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
