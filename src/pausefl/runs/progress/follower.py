"""What follows a run: it reads on where it ended, in bounded memory, whatever becomes of the files meanwhile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from pausefl.errors import PauseError
from pausefl.runs.progress.progress import Progress

CHUNK = 1 << 22
"""Bytes that are read at a time; no line of a round is longer."""

Stamp = tuple[int, int, int]


class Follower(ABC):
    """Follows one run; ``poll`` reads what is new of it and never raises for what a file may look like.

    ``progress`` is None until something is known of the run.  ``fault`` says in a sentence why nothing can be read, or
    why nothing more can; it is empty while all is well.  ``now`` is the round under way and who is asked in it, where
    that is known.  ``changes`` grows whenever one of them does.

    A file may be cut in mid-line, replaced by that of another run, deleted, or not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.progress: Progress | None = None
        self.fault = ""
        self.now: tuple[int, list[str]] | None = None
        self.changes = 0

    def poll(self) -> bool:
        """Read what is new, at most a few megabytes; return whether there is more to read at once."""
        try:
            more = self._read_on()
            self.say("")
        except Exception as error:  # a damaged file can make any of them, and the page must outlive it
            said = " ".join(str(error).split())[:500]
            known = isinstance(error, PauseError | OSError)
            self.say(
                said if known else f"{self.path} is damaged or of another version ({type(error).__name__}: {said})"
            )
            return False
        return more

    @abstractmethod
    def _read_on(self) -> bool:
        """Read the next piece; raise whatever says why that is not possible."""

    def say(self, fault: str) -> None:
        """Take note of what is wrong; nothing if all is well."""
        if fault != self.fault:
            self.fault, self.changes = fault, self.changes + 1


def stamp_of(path: Path) -> Stamp | None:
    """Return what changes when a file is written or replaced; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
