"""The journal beside a checkpoint: a line per round that is written once, and what counts of it; needs no Flower."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedRandom
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

from pausefl.errors import StateFileError
from pausefl.system.state_file import sync_folder
from pausefl.types import ClientId

KIND = "flower run with a journal"
"""What a checkpoint's file says that it is."""
_LONGEST = 1 << 20
"""Bytes of the longest announcement that is read."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How much of a journal counts: its first ``length`` bytes, which have this ``checksum``."""

    length: int = 0
    checksum: int = 0


class Journal:
    """The file ``NAME.rounds`` of a checkpoint ``NAME``.

    Law: the checkpoint's mark says what counts.  A line is on the disk before the checkpoint that counts it; whatever
    lies beyond the mark is of a round that did not come to its end, or of another run, and is cut off.  So a crash at
    any instant leaves a checkpoint and a journal that fit each other.
    """

    __slots__ = ("_checkpoint", "path")

    def __init__(self, checkpoint: str | os.PathLike[str]) -> None:
        self._checkpoint = Path(os.path.realpath(checkpoint))  # beside the file itself, by whatever link it is called
        self.path = self._checkpoint.with_name(f"{self._checkpoint.name}.rounds")

    def append(self, mark: Mark, entry: Mapping[str, Any]) -> Mark:
        """Write a line after the mark, durably; return the mark that counts it."""
        line = json.dumps(dict(entry), allow_nan=False).encode() + b"\n"
        with self._beyond(mark) as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if not mark.length:
            sync_folder(self.path.parent)
        return Mark(mark.length + len(line), crc32(line, mark.checksum))

    def announce(self, mark: Mark, number: int, clients: Sequence[ClientId]) -> None:
        """Note beyond the mark who is asked in the round that begins, for people who watch.

        It never counts: the next line takes its place.  A disk that refuses it is not a reason to end a run.
        """
        line = json.dumps({"begun": number, "asked": [str(client) for client in clients]}).encode() + b"\n"
        with suppress(OSError), self._beyond(mark) as file:
            file.write(line)

    def announced(self, mark: Mark) -> tuple[int, list[str]] | None:
        """Return the round that has begun and who is asked in it; None if nothing whole is said of that."""
        with suppress(OSError, ValueError, KeyError, TypeError), self.path.open("rb") as file:
            file.seek(mark.length)
            line = file.readline(_LONGEST)
            said = json.loads(line) if line.endswith(b"\n") else {}
            return int(said["begun"]), [str(client) for client in said["asked"]]
        return None

    def read(self, mark: Mark) -> list[dict[str, Any]]:
        """Return the entries up to the mark; a file that is missing, too short or altered is refused."""
        self._check(mark)
        if not mark.length:
            return []
        with self.path.open("rb") as file:
            counted = file.read(mark.length)
        if crc32(counted) != mark.checksum:
            raise self._refused("was altered (checksum differs)")
        return [json.loads(line) for line in counted.splitlines()]

    def cut(self, mark: Mark) -> None:
        """Drop what lies beyond the mark; a link is refused, because what it leads to is not ours to cut."""
        if self.path.is_symlink():
            raise self._refused("is a link")
        if self.path.exists() and self.path.stat().st_size > mark.length:
            self._beyond(mark).close()

    def set_aside(self) -> Path | None:
        """Rename what an earlier run left here, so that a new one begins without it; return its new name."""
        if not self.path.exists():
            return None
        names = (self.path.with_name(f"{self.path.name}.old-{number}") for number in count(1))
        return self.path.replace(next(name for name in names if not name.exists()))

    def _beyond(self, mark: Mark) -> BufferedRandom:
        """Return the journal, cut off at the mark and open to be written there."""
        self._check(mark)
        mode = 0o600
        with suppress(FileNotFoundError):  # whoever may read the checkpoint may read the journal
            mode = self._checkpoint.stat().st_mode & 0o777
        file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, mode), "r+b")
        file.truncate(mark.length)
        file.seek(mark.length)
        return file

    def _check(self, mark: Mark) -> None:
        if not mark.length:
            return
        try:
            found = self.path.stat().st_size
        except FileNotFoundError:
            raise self._refused("is missing") from None
        if found < mark.length:
            raise self._refused(f"has {found} bytes, fewer than the {mark.length} that count")

    def _refused(self, fault: str) -> StateFileError:
        return StateFileError(
            f"{self.path} {fault}, but {self._checkpoint} needs it; restore both from one backup, or use another file"
        )
