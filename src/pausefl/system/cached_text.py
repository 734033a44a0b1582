"""Texts that take long to make, kept in the user's cache folder under a hash of what they were made from."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import numpy as np

from pausefl.errors import StateFileError
from pausefl.system.private_file import require_private, require_private_folder, require_private_place
from pausefl.system.state_file import read_state, write_state

_KIND = "cached text"


def user_cache() -> Path:
    """Return the folder of pausefl in the user's cache; what is in it can be deleted at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pausefl"


def cached_text(name: str, made_from: str, make: Callable[[], str]) -> str:
    """Return a text that depends on ``made_from`` alone: the one that was kept, or else made and kept.

    A file that is damaged, or that another user could have written, is made again: the text may be code.  A folder that
    cannot be written, or that is not this user's alone, is no fault: then nothing is kept.
    """
    path = user_cache() / "texts" / f"{name}-{blake2b(made_from.encode(), digest_size=16).hexdigest()}.state"
    with suppress(OSError, ValueError, KeyError):  # a state file that is missing or damaged is a ValueError
        _require_own_folder(path.parent)
        require_private(path, "the cached text")
        return read_state(path, _KIND)[1]["text"].tobytes().decode()
    text = make()
    with suppress(OSError, StateFileError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_own_folder(path.parent)
        write_state(path, _KIND, {}, {"text": np.frombuffer(text.encode(), dtype=np.uint8)})
        path.chmod(0o600)
    return text


def _require_own_folder(folder: Path) -> None:
    require_private_folder(folder, "the cache")
    require_private_place(folder, "the cache")
