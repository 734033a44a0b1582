"""What was found when every row of a ledger was checked, and a seal of it, so that they need not be checked again.

The seal holds the SHA-256 of every piece of the ledger's file.  So it fits that very file and no other: whatever was
edited, cut off, put back or damaged since, the rows are checked again one by one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from pausefl.privacy.ledger.accounts import Account
from pausefl.privacy.ledger.charge import Charge
from pausefl.privacy.ledger.hash_chain import Head, values_of
from pausefl.system.private_file import require_private
from pausefl.system.state_file import new_file, read_state, state_parts
from pausefl.system.threads import MOST_THREADS, run_jobs

_KIND = "ledger-seal"
_PIECE, _PIECES_OF_A_JOB = 1 << 16, 64
"""Bytes of a piece, and how many of them one thread reads in a row."""


@dataclass(frozen=True, slots=True)
class WrittenPages:
    """What SQLite is about to change in a file: pages that begin here, and all from the old end on."""

    starts: frozenset[int]
    old_size: int


@dataclass(frozen=True, slots=True)
class Checked:
    """A ledger whose rows were all checked: its id and purpose, where its chain ends, and every account.

    ``pieces`` are the hashes of the file's, or None if they are not known.  ``recomputed`` is how many rows there were
    when every hash of a row was last computed; those that came later were charged by pausefl itself.
    """

    identity: tuple[str, str]
    head: Head
    accounts: Mapping[str, Account]
    pieces: tuple[bytes, ...] | None
    recomputed: int

    @property
    def is_due(self) -> bool:
        """Whether so many rows were added that all hashes are to be computed anew: it costs each of them the same."""
        return self.head.rows - self.recomputed > max(100, self.head.rows // 10)


def hash_pieces(path: Path) -> tuple[bytes, ...] | None:
    """Return the hash of each piece of a file that this process has open, on all cores; None if that cannot be done."""
    with suppress(OSError, RuntimeError):
        number, size = _opened(path)
        starts = range(0, size, _PIECE * _PIECES_OF_A_JOB)
        found: list[list[bytes]] = [[]] * len(starts)

        def add(place: int, start: int) -> None:
            found[place] = _hashes(number, start, min(_PIECE * _PIECES_OF_A_JOB, size - start))

        run_jobs([partial(add, *one) for one in enumerate(starts)], MOST_THREADS * _PIECE)
        return tuple(one for some in found for one in some)
    return None


def hash_again(path: Path, pieces: tuple[bytes, ...] | None, written: WrittenPages | None) -> tuple[bytes, ...] | None:
    """Return the hashes after these pages of the file were written; those of all other pieces stay what they were.

    So whatever else was changed meanwhile does not fit them.
    """
    if pieces is None or written is None:
        return None
    with suppress(OSError, ValueError):
        number, size = _opened(path)
        grown = range(written.old_size // _PIECE, -(-size // _PIECE))
        rewritten = {start // _PIECE for start in written.starts} | set(grown)
        found = dict(enumerate(pieces))
        for place in rewritten:
            [found[place]] = _hashes(number, place * _PIECE, min(_PIECE, size - place * _PIECE))
        return tuple(found[place] for place in sorted(found))
    return None


def _opened(path: Path) -> tuple[int, int]:
    """Return a descriptor that this process has of a file, and its size.

    It must not be opened for this: closing any descriptor of the file would drop the locks that SQLite has on it.
    """
    wanted = path.stat()
    for number in (int(one.name) for one in Path("/proc/self/fd").iterdir()):
        with suppress(OSError):
            found = os.fstat(number)
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                return number, found.st_size
    raise FileNotFoundError(path)


def _hashes(number: int, start: int, size: int) -> list[bytes]:
    # Piece by piece, though it takes more calls: so the bytes are still in the processor's cache when they are hashed.
    return [sha256(os.pread(number, _PIECE, at)).digest() for at in range(start, start + size, _PIECE)]


def read_seal(path: Path) -> Checked | None:
    """Return what was sealed; None if there is no seal, or none that can be trusted: then every row is checked."""
    with suppress(Exception):  # a seal only saves time, so one that is odd in any way must stop nobody
        found = path.lstat()
        # A pipe would never end.  A link could lead to the ledger, and closing it would drop the locks of SQLite.
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            return None
        require_private(path, "seal of a ledger")
        header, arrays = read_state(path, _KIND)
        accounts = {subject: _account(*one) for subject, one in header["accounts"].items()}
        (ledger_id, purpose), (rows, end) = header["identity"], header["head"]
        pieces = tuple(row.tobytes() for row in arrays["pieces"])
        return Checked((ledger_id, purpose), Head(int(rows), end), accounts, pieces, int(header["recomputed"]))
    return None


def _account(first: list[Any], last: list[Any], *sums: list[float]) -> Account:
    epsilons, deltas, rhos = map(tuple, sums)
    return Account(Charge(*first), Charge(*last), epsilons, deltas, rhos)


def _described(account: Account) -> list[Any]:
    ends = values_of(account.first), values_of(account.last)
    return [*ends, account.epsilons, account.deltas, account.rhos]


def write_seal(path: Path, checked: Checked) -> None:
    """Seal what was checked, for this user alone; without a seal, or with an old one, every row is checked again."""
    if checked.pieces is None:
        return
    header = {
        "identity": checked.identity, "head": [checked.head.rows, checked.head.hash], "recomputed": checked.recomputed,
        "accounts": {name: _described(one) for name, one in checked.accounts.items()},
    }  # fmt: skip
    pieces = np.frombuffer(b"".join(checked.pieces), dtype=np.uint8).reshape(len(checked.pieces), -1)
    # One name for all: a process that is killed here leaves one such file, and the next seal takes its place.
    temporary = path.with_name(f".{path.name}.tmp")
    with suppress(OSError):
        try:
            with new_file(temporary, 0o600) as file:
                file.writelines(state_parts(_KIND, header, {"pieces": pieces}))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
