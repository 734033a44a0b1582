"""Texts that take long to make, kept in the user's cache folder under a hash of what they were made from."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import numpy as np

from pausefl.errors import StateFileError
from pausefl.system.state_file import read_state, write_state

_KIND = "cached text"


def user_cache() -> Path:
    """Return the folder of pausefl in the user's cache; what is in it can be deleted at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pausefl"


def cached_text(name: str, made_from: str, make: Callable[[], str]) -> str:
    """Return a text that depends on ``made_from`` alone: the one that was kept, or else made and kept.

    A file that is damaged is made again.  A folder that cannot be written is no fault: then nothing is kept.
    """
    path = user_cache() / f"{name}-{blake2b(made_from.encode(), digest_size=16).hexdigest()}.state"
    with suppress(ValueError, KeyError):  # a state file that is missing or damaged is a ValueError
        return read_state(path, _KIND)[1]["text"].tobytes().decode()
    text = make()
    with suppress(OSError, StateFileError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_state(path, _KIND, {}, {"text": np.frombuffer(text.encode(), dtype=np.uint8)})
    return text
