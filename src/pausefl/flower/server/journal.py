"""The rounds of a run, a line each, in a file beside its checkpoint: what is past is written once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

from pausefl.errors import StateFileError
from pausefl.system.state_file import sync_folder


@dataclass(frozen=True, slots=True)
class Mark:
    """How much of a journal counts: its first ``length`` bytes, which have this ``checksum``."""

    length: int = 0
    checksum: int = 0

    def after(self, line: bytes) -> Mark:
        """Return the mark with one more line."""
        return Mark(self.length + len(line), crc32(line, self.checksum))


class Journal:
    """The file ``NAME.rounds`` of a checkpoint ``NAME``.

    Law: the checkpoint's mark says what counts.  A line is on the disk before the checkpoint that counts it; whatever
    lies beyond the mark is of a round that did not come to its end, or of another run, and is cut off.  So a crash at
    any instant leaves a checkpoint and a journal that fit each other.
    """

    __slots__ = ("_checkpoint", "path")

    def __init__(self, checkpoint: str | os.PathLike[str]) -> None:
        self._checkpoint = checkpoint
        target = Path(os.path.realpath(checkpoint))  # beside the file itself, by whatever link it is called
        self.path = target.with_name(f"{target.name}.rounds")

    def append(self, mark: Mark, entry: Mapping[str, Any]) -> Mark:
        """Write a line after the mark, durably; return the mark that counts it."""
        line = json.dumps(dict(entry), allow_nan=False).encode() + b"\n"
        if mark.length:
            self._check(mark)
        with os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, self._mode()), "r+b") as file:
            file.truncate(mark.length)
            file.seek(mark.length)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if not mark.length:
            sync_folder(self.path.parent)
        return mark.after(line)

    def read(self, mark: Mark) -> list[dict[str, Any]]:
        """Return the entries up to the mark; a file that is missing, too short or altered is refused."""
        if not mark.length:
            return []
        self._check(mark)
        with self.path.open("rb") as file:
            counted = file.read(mark.length)
        if crc32(counted) != mark.checksum:
            raise self._refused("was altered (checksum differs)")
        return [json.loads(line) for line in counted.splitlines()]

    def cut(self, mark: Mark) -> None:
        """Drop what lies beyond the mark."""
        if self.path.exists() and self.path.stat().st_size > mark.length:
            os.truncate(self.path, mark.length)

    def set_aside(self) -> Path | None:
        """Rename what an earlier run left here, so that a new one begins without it; return its new name."""
        if not self.path.exists():
            return None
        names = (self.path.with_name(f"{self.path.name}.old-{number}") for number in count(1))
        return self.path.replace(next(name for name in names if not name.exists()))

    def _mode(self) -> int:
        """Return who may read it: whoever may read the checkpoint."""
        target = Path(self._checkpoint)
        return target.stat().st_mode & 0o777 if target.exists() else 0o600

    def _check(self, mark: Mark) -> None:
        found = self.path.stat().st_size if self.path.exists() else None
        if found is None:
            raise self._refused("is missing")
        if found < mark.length:
            raise self._refused(f"has {found} bytes, fewer than the {mark.length} that count")

    def _refused(self, fault: str) -> StateFileError:
        return StateFileError(
            f"{self.path} {fault}, but {self._checkpoint} needs it; restore both from one backup, or name another file"
        )
