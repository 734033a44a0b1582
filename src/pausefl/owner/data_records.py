"""The records of an owner's data, cut by pausefl itself: the lines of a file, or the files of a folder.

An app that gets one record at a time cannot mix two of them, whatever it does.
"""

from __future__ import annotations

import codecs
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Self

import numpy as np

from pausefl.errors import ConfigError
from pausefl.types import IntArray

MOST_BYTES = 1 << 26
"""Of one record.  A longer one counts as a record that cannot be read, so that it takes no memory from the others."""
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class DataRecord:
    """One record of an owner's data.

    Attributes:
        data: Its bytes: those of a line without its end, or of a file.
        name: In a folder, the path of the file below it, with slashes; else empty.
    """

    data: bytes
    name: str = ""


class DataRecords:
    r"""All records of a file or a folder, read one at a time; close it after use.

    In a file every line is a record, whatever is in it, also a line with titles or an empty one.  A byte order mark at
    its beginning is left out: programs write it before the first line of a file, whoever's line that is.  In a folder
    every file at any depth is a record.

    Law: a record depends on its own bytes alone, and never on another record.  Whatever cannot be read is None, and
    stays in its place, and so is every line of a file that has changed since it was opened.

    Attributes:
        most: How many records there may be: a public number, which tells nothing of how many there are.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "patients.csv")
    ...     _ = path.write_bytes(b"71,0.5\n34,0.25\n")
    ...     with DataRecords(path) as records:
    ...         [record.data for record in records]
    [b'71,0.5', b'34,0.25']
    """

    def __init__(self, path: Path, most: int | None = None) -> None:
        self._path = path
        self._version: tuple[int, int] | None = None
        self._names: list[str] | None = None
        self._file: BufferedReader | None = None
        self._ends: IntArray = np.zeros(0, dtype=np.int64)
        try:
            if path.is_dir():
                self._names = sorted(files_below(path))
            else:
                # Open for as long as this lives: a file that takes its place meanwhile has other lines.
                self._file = _opened(path)
                self._version = _version(self._file)  # first: what changes while its lines are looked for shows, too
                self._ends = _line_ends(self._file)
        except OSError as error:
            raise ConfigError(
                f"records.path {path} cannot be read ({error.strerror}); let it be a file with a record in each line, "
                "or a folder with a record in each file"
            ) from None
        self.most = len(self) if most is None else most

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def __len__(self) -> int:
        return len(self._ends) if self._names is None else len(self._names)

    def __iter__(self) -> Iterator[DataRecord | None]:
        return map(self.read, range(len(self)))

    def in_random_order(self) -> list[int]:
        """Return the numbers of all records in a new order, so that its place tells a record nothing of others.

        If there are more than there may be, some are left out at random.  To train on none would tell the server that
        there is one more, because the noise does not hide that all are missing.
        """
        order = list(range(len(self)))
        secrets.SystemRandom().shuffle(order)
        return order[: self.most]

    def size(self, number: int) -> int:
        """Return how many bytes one record has; 0 if it cannot be told."""
        if self._names is None:
            return int(self._ends[number] - (self._ends[number - 1] + 1 if number else 0))
        try:
            return (self._path / self._names[number]).stat().st_size
        except OSError:
            return 0

    def read(self, number: int) -> DataRecord | None:
        """Return one record; None if it is too long, or cannot be read."""
        try:
            if self._names is not None:
                return _file_record(self._path, self._names[number])
            size = self.size(number)
            if size > MOST_BYTES or self._file is None:
                return None
            self._file.seek(int(self._ends[number]) - size)
            data = self._file.read(size).removeprefix(codecs.BOM_UTF8).removesuffix(b"\r")
            # Written over in its place, the file has its lines elsewhere, and one would be cut into two records.
            return DataRecord(data) if _version(self._file) == self._version else None
        except (OSError, MemoryError):
            return None


def count_records(path: Path) -> int:
    """Return how many records a path has; refuse none."""
    with DataRecords(path) as records:
        count = len(records)
    if not count:
        raise ConfigError(f"records.path {path} has 0 records, but must have 1 or more; check the path")
    return count


def _opened(path: Path, more: int = 0) -> BufferedReader:
    """Open a plain file; a named pipe would make the reader wait."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | more)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise OSError(errno.EINVAL, "it is no plain file")


def _version(file: BufferedReader) -> tuple[int, int]:
    """Return what changes with the content of a file: its size, and when it was last written."""
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def _line_ends(file: BufferedReader) -> IntArray:
    """Return where each line ends; the last one may end with the file."""
    found, place, last = [np.zeros(0, dtype=np.int64)], 0, b"\n"
    while chunk := file.read(_CHUNK):
        found.append(np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + place)
        place, last = place + len(chunk), chunk[-1:]
    if last != b"\n":
        found.append(np.array([place]))
    return np.concatenate(found)


def files_below(top: Path) -> Iterator[str]:
    """Return the path of each file below a folder."""
    waiting = [str(top)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield Path(entry.path).relative_to(top).as_posix()
                else:
                    raise ConfigError(
                        f"records.path has {entry.path}, but must have folders and plain files only, and no links; put "
                        "the file itself there"
                    )


def _file_record(top: Path, name: str) -> DataRecord | None:
    with _opened(top / name, os.O_NOFOLLOW) as file:  # a link that has come since would lead to another record
        data = file.read(MOST_BYTES + 1)
    return DataRecord(data, name) if len(data) <= MOST_BYTES else None
