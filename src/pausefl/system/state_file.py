"""Files that are whole or not there: a header and arrays, checksummed, written beside the old file and swapped in."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Collection, Mapping
from hashlib import blake2b
from io import BufferedReader, BufferedWriter
from math import prod
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pausefl.errors import StateFileError, StateMissingError

VERSION = 1
_MAGIC = "pausefl state"
_DIMENSIONS = 32
"""The most that every numpy allows an array."""
_BUFFER = 1 << 20
"""Bytes that are gathered before they are written: small arrays go to the disk together."""


def state_parts(kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> list[Any]:
    """Return the bytes of a state file, in parts.

    Layout: a line with version and checksum, a line of JSON that describes the rest, then the arrays' bytes in order.
    """
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    shapes = {name: [array.dtype.str, list(array.shape)] for name, array in plain.items()}
    text = json.dumps({"kind": kind, "header": dict(header), "arrays": shapes}, allow_nan=False).encode() + b"\n"
    parts: list[Any] = [text, *(array.reshape(-1).view(np.uint8).data for array in plain.values())]
    return [f"{_MAGIC} {VERSION} {_digest(*parts)}\n".encode(), *parts]


def write_state(path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write atomically: after a crash the file holds the old state or the new one, never a mixture."""
    parts = state_parts(kind, header, arrays)
    target = Path(os.path.realpath(path))  # a link stays a link
    if target.is_dir() or not target.parent.is_dir():
        raise StateFileError(f"{path} cannot be written; pass the path of a file in a folder that exists")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb", buffering=_BUFFER) as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(target.stat().st_mode if target.exists() else 0o666 & ~_umask())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def read_state(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return header and arrays; a file that is damaged, cut short or of another version or kind is refused."""
    with _opened(path) as file:
        checksum = _first_line(path, file)
        payload = bytearray(os.fstat(file.fileno()).st_size - file.tell())
        file.readinto(payload)
    if checksum != _digest(payload):
        raise StateFileError(f"{path} is damaged or cut short (checksum differs); use an older copy")
    start = payload.index(b"\n") + 1
    described = _described(path, bytes(payload[:start]), kind)
    arrays = {}
    for name, dtype, shape, size in _layout(path, described, len(payload) - start):
        array = np.frombuffer(payload, dtype=dtype, count=size // dtype.itemsize, offset=start).reshape(shape)
        # A view where alignment allows it: large data sets load without a copy.
        arrays[name] = array if array.flags.aligned else array.copy()
        start += size
    return described["header"], arrays


def glance_at_state(
    path: str | os.PathLike[str], kind: str, wanted: Collection[str]
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the header and a few arrays without reading the rest, and so without its checksum.

    For showing what a file says, however large its model is.  What decides anything must come from ``read_state``.
    """
    with _opened(path) as file:
        _first_line(path, file)
        described = _described(path, file.readline(), kind)
        arrays, start = {}, file.tell()
        for name, dtype, shape, size in _layout(path, described, os.fstat(file.fileno()).st_size - start):
            if name in wanted:
                file.seek(start)
                arrays[name] = np.frombuffer(file.read(size), dtype=dtype).reshape(shape)
            start += size
    return described["header"], arrays


def is_state(path: str | os.PathLike[str], kind: str) -> bool:
    """Say whether a file is a state file of this kind; it may be damaged all the same."""
    try:
        with _opened(path) as file:
            _first_line(path, file)
            _described(path, file.readline(), kind)
    except StateFileError:
        return False
    return True


def arrays_under(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays whose names begin with ``prefix`` and a dot, under the rest of their names.

    >>> arrays_under("model", {"model.w": np.zeros(2), "online": np.ones(3)})
    {'w': array([0., 0.])}
    """
    start = f"{prefix}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def write_whole(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a text file whole or not at all."""
    write_whole_bytes(path, text.encode(), mode)


def write_whole_bytes(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with new_file(temporary, mode) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)  # of a disk that was full


def new_file(path: Path, mode: int) -> BufferedWriter:
    """Return a file that was not there before: what has its name goes, and a link that somebody put there, too."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb")


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: those of files that were created or renamed."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _opened(path: str | os.PathLike[str]) -> BufferedReader:
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        raise StateMissingError(f"{path} does not exist; pass a file that save() wrote") from None
    except OSError as error:
        raise StateFileError(f"{path} cannot be read ({error.strerror}); pass a file that save() wrote") from None


def _first_line(path: str | os.PathLike[str], file: BufferedReader) -> str:
    """Return the checksum that a state file claims for the rest of it; another kind of file is refused."""
    words = file.readline(200).decode("ascii", errors="replace").rstrip("\n").rsplit(" ", 2)
    if len(words) != 3 or words[0] != _MAGIC:
        raise StateFileError(f"{path} is not a pausefl state file; pass a file that save() wrote")
    if words[1] != str(VERSION):
        raise StateFileError(
            f"{path} has state version {words[1]}, but this release reads version {VERSION}; load it with the "
            "release that wrote it"
        )
    return words[2]


def _described(path: str | os.PathLike[str], line: bytes, kind: str) -> dict[str, Any]:
    """Return what the second line says of the rest; a state of another kind is refused."""
    try:
        described: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise _damaged(path) from None
    kinds = {"kind": str, "header": dict, "arrays": dict}
    if not isinstance(described, dict) or not all(isinstance(described.get(key), of) for key, of in kinds.items()):
        raise _damaged(path)
    if described["kind"] != kind:
        raise StateFileError(f"{path} holds a {described['kind']!r:.100}, but must hold a {kind!r}; pass another file")
    return described


def _layout(
    path: str | os.PathLike[str], described: Mapping[str, Any], there: int
) -> list[tuple[str, np.dtype[Any], list[int], int]]:
    """Return name, type, shape and bytes of each array, in order; refuse what does not fit into the bytes ``there``."""
    found = []
    try:
        for name, (kind_of, shape) in described["arrays"].items():
            dtype, size = np.dtype(str(kind_of)), prod(map(index, shape))
            there -= size * dtype.itemsize
            if (
                dtype.hasobject
                or not dtype.itemsize
                or min(shape, default=0) < 0
                or len(shape) > _DIMENSIONS
                or there < 0
            ):
                raise _damaged(path)
            found.append((name, dtype, shape, size * dtype.itemsize))
    except (TypeError, ValueError, SyntaxError):
        raise _damaged(path) from None
    return found


def _damaged(path: str | os.PathLike[str]) -> StateFileError:
    return StateFileError(f"{path} is damaged or cut short; use an older copy")


def _digest(*parts: bytes | bytearray | memoryview) -> str:
    digest = blake2b(digest_size=20)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
