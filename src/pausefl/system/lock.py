"""One writer at a time: a lock that goes with its process, however that ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pausefl.errors import ConfigError


@contextmanager
def only_writer(lock: Path, what: Path, remedy: str) -> Iterator[None]:
    """Hold the file ``lock`` while ``what`` is written; if another process does, refuse at once."""
    try:
        opened = lock.open("a", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{what} cannot be written ({error.strerror}); make its folder, or {remedy}") from None
    with opened as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{what} is being written by another process; wait for it, or {remedy}") from None
        yield
