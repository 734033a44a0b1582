"""One writer at a time: a lock that goes with its process, however that ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from pausefl.errors import ConfigError


@contextmanager
def only_writer(lock: Path, what: Path, remedy: str) -> Iterator[None]:
    """Hold the file ``lock`` while ``what`` is written; if another process does, refuse at once."""
    held = FileLock(lock)
    try:
        lock.parent.stat()  # refuse a missing folder here, because filelock would create it
        held.acquire(blocking=False)
    except Timeout:
        raise ConfigError(f"{what} is being written by another process; wait for it, or {remedy}") from None
    except OSError as error:
        raise ConfigError(f"{what} cannot be written ({error.strerror}); make its folder, or {remedy}") from None
    try:
        yield
    finally:
        held.release()
