"""Replies kept on the owner's disk: a repeated request gets the very bytes that left before, or nothing."""

from __future__ import annotations

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
_SHARE, _FREE = 16, 1 << 31
"""Which share of a disk must be free, and so many bytes at most.  Replies can take half of it."""


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

    def place(self, subject: str, release: str, request: str, blank: Reply) -> Place:
        """Make room for a reply that is not known yet, as large as ``blank``; refuse it where there is too little."""
        with writing_in(self._folder):
            return Place(self._folder, self._keep, (subject, release, request), blank)

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
    training has used up what there was.  It never replaces a reply.  Without it, nothing is left behind.  Whether there
    is room does not depend on the size of a reply, if it fits this disk at all.  Otherwise a server could ask for
    replies of many sizes, and so find how much is left, which may depend on the data.
    """

    __slots__ = ("_asked", "_folder", "_held", "_old", "_room", "_temporary")

    def __init__(self, folder: Path, keep: int, asked: tuple[str, str, str], blank: Reply) -> None:
        self._asked, self._folder, self._held = asked, folder.absolute(), ExitStack()
        self._room: mmap.mmap | None = None
        if not keep:
            return
        kept = sorted(self._folder.glob(f"{_name(asked[0])}-*.reply"))
        size = sum(map(len, self._parts(blank))) + _MORE
        self._require_room(size, keep)
        with ExitStack() as held:
            handle, path = tempfile.mkstemp(prefix=".reply-", dir=self._folder)
            self._temporary = Path(path)
            held.callback(self._temporary.unlink, missing_ok=True)
            with os.fdopen(handle, "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                os.posix_fallocate(file.fileno(), 0, size + _LEDGER)
                file.truncate(size)
                # A map of it stays, with its lock, whatever becomes of the descriptors.
                self._room = held.enter_context(mmap.mmap(file.fileno(), size))
            self._held = held.pop_all()
        self._old = kept[: max(0, len(kept) + 1 - keep)]

    def _require_room(self, size: int, keep: int) -> None:
        """Refuse a reply that is too large for the disk, and a disk with too little room for any reply.

        What this folder holds counts as room: it depends on the server alone.
        """
        disk = os.statvfs(self._folder)
        least = min(disk.f_blocks * disk.f_frsize // _SHARE, _FREE)
        most = least // 2 // (keep + 1)
        if size > most:
            raise ConfigError(
                f"a reply of {_mib(size)} is too large: {keep} of them are kept, and one more is made, so on this disk "
                f"each may have {_mib(most)}; lower keep in the section [replies], or ask for a smaller model"
            )
        room = disk.f_bavail * disk.f_frsize
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):  # another client's, which has just ended
                taken = path.stat().st_blocks * 512
                if path.suffix == ".reply" and taken > most + _MORE:  # of a time when larger ones were kept
                    path.unlink()
                room += taken
        if room < least:
            raise ConfigError(
                f"the disk of {self._folder} has {_mib(room)} for replies, but must have {_mib(least)}; free some"
            )

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


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def _name(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
