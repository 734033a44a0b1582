"""One writer at a time: a lock that goes with its process, however that ends."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from pausefl.errors import ConfigError


@contextmanager
def only_writer(
    lock: Path, what: Path, remedy: str, *, wait: float = 0.0, doing: str = "written"
) -> Iterator[None]:  # fmt: skip
    """Hold the file ``lock`` while ``what`` is written; if another process does, refuse after ``wait`` seconds.

    ``doing`` is another word for what is done to it.
    """
    held = FileLock(lock)
    try:
        lock.parent.stat()  # refuse a missing folder here, because filelock would create it
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # without file locks filelock warns, and keeps nobody off
                held.acquire(blocking=False)
        except Timeout:
            held.acquire(timeout=wait)
    except Timeout:
        raise ConfigError(f"{what} is being {doing} by another process; wait for it, or {remedy}") from None
    except (OSError, UserWarning) as error:
        todo = (
            "create its folder"
            if isinstance(error, FileNotFoundError)
            else f"let {lock} be a file that you can write and lock"
        )
        raise ConfigError(f"{what} cannot be written ({getattr(error, 'strerror', error)}); {todo}") from None
    try:
        yield
    finally:
        held.release()
