"""Replies kept on the owner's disk: a repeated request gets the very bytes that left before, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import numpy as np

from pausefl.errors import StateFileError
from pausefl.owner.request_and_reply import Reply
from pausefl.system.lock import only_writer
from pausefl.system.state_file import read_state, write_state

_KIND, _LOCK = "reply", "lock"
_PATIENCE = 30.0
"""Seconds that a client waits for another of the same owner: as long as it waits for their ledger."""


def replies_folder(ledger: Path) -> Path:
    """Return where the replies of a ledger are kept: beside it."""
    return ledger.with_name(f"{ledger.name}-replies")


@contextmanager
def writing_in(folder: Path) -> Iterator[None]:
    """Be the only one that writes in a folder of replies; what a killed client left half-written is removed first."""
    lock = folder / _LOCK
    with only_writer(lock, folder, "end that process", wait=_PATIENCE):
        lock.chmod(0o600)
        for stale in folder.glob(".*"):
            stale.unlink(missing_ok=True)
        yield


class ReplyStore:
    """The last few replies, a file each.

    Law: ``load`` returns what ``store`` was given for this subject, release and request, to the bit, or None.  What is
    kept here has been noised and charged: it may be sent to anybody.
    """

    __slots__ = ("_folder", "_keep")

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder, self._keep = folder, keep

    def store(self, subject: str, release: str, request: str, reply: Reply) -> None:
        """Keep a reply durably, and forget the oldest beyond ``keep`` of this subject."""
        if not self._keep:
            return
        header = {
            "subject": subject, "release": release, "request": request,
            "metrics": dict(reply.numbers), "releases": reply.releases, "seconds": reply.seconds,
            "shapes": {name: list(tensor.shape) for name, tensor in reply.arrays.items()},
        }  # fmt: skip
        # By number: a tensor's name may be anything.
        arrays = {str(place): tensor for place, tensor in enumerate(reply.arrays.values())}
        path = self._folder / f"{_name(subject)}-{reply.releases:012d}-{_name(release)}.reply"
        with writing_in(self._folder):
            write_state(path, _KIND, header, arrays)
            path.chmod(0o600)
            kept = sorted(self._folder.glob(f"{_name(subject)}-*.reply"))
            for old in kept[: -self._keep]:
                old.unlink(missing_ok=True)

    def load(self, subject: str, release: str, request: str) -> Reply | None:
        """Return the reply to this very request; None if it is not kept, damaged, or was to another request."""
        for path in self._folder.glob(f"{_name(subject)}-*-{_name(release)}.reply"):
            try:
                header, arrays = read_state(path, _KIND)
            except (OSError, StateFileError):
                continue
            if (header["subject"], header["release"], header["request"]) == (subject, release, request):
                shapes = header["shapes"].items()
                tensors = {name: np.array(arrays[str(i)]).reshape(shape) for i, (name, shape) in enumerate(shapes)}
                return Reply(tensors, header["metrics"], header["releases"], header["seconds"], replayed=True)
        return None


def _name(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
