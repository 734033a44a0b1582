"""Files that are whole or not there: a header and arrays, checksummed, written beside the old file and swapped in."""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pausefl.errors import StateFileError

VERSION = 1
_MAGIC = "pausefl state"
_HEADER = "header"


def write_state(path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write atomically: after a crash the file holds the old state or the new one, never a mixture."""
    body = io.BytesIO()
    text = json.dumps({"kind": kind, **header}, allow_nan=False).encode()
    np.savez(body, allow_pickle=False, **{_HEADER: np.frombuffer(text, dtype=np.uint8)}, **arrays)
    payload = body.getbuffer()
    first = f"{_MAGIC} {VERSION} {_digest(payload)}\n".encode()
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(first)
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def read_state(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return header and arrays; a file that is damaged, cut short or of another version or kind is refused."""
    content = Path(path).read_bytes()
    first, _, payload = content.partition(b"\n")
    words = first[:200].decode("ascii", errors="replace").rsplit(" ", 2)
    if len(words) != 3 or words[0] != _MAGIC:
        raise StateFileError(f"{path} is not a pausefl state file; name a file that save() wrote")
    if words[1] != str(VERSION):
        raise StateFileError(
            f"{path} has state version {words[1]}, but this release reads version {VERSION}; load it with the release "
            "that wrote it"
        )
    if words[2] != _digest(payload):
        raise StateFileError(f"{path} is damaged or cut short (checksum differs); go back to an older copy")
    try:
        with np.load(io.BytesIO(payload), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        header = json.loads(arrays.pop(_HEADER).tobytes())
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise StateFileError(f"{path} cannot be read ({error}); go back to an older copy") from error
    if header.get("kind") != kind:
        raise StateFileError(f"{path} holds a {header.get('kind')!r}, but a {kind!r} is wanted; name another file")
    return header, arrays


def _digest(payload: bytes | memoryview) -> str:
    return blake2b(payload, digest_size=20).hexdigest()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
