"""Named random streams: every random number is a function of (seed, purpose, round, client), never of what ran before.

So a resumed run continues to the bit, and reordering the clients reorders the outcome without changing it.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, cast

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from pausefl.errors import require
from pausefl.types import ClientId, KeyArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_LONGEST_ID = 4096
"""Bits of a client id.  Python writes no more than 4,300 digits of a number, so a longer one could not be saved."""


def stream(seed: int, purpose: str, *path: ClientId) -> np.random.Generator:
    """Return the generator that belongs to this name, the same one whenever it is asked for.

    >>> stream(0, "latency", 3).random() == stream(0, "latency", 3).random()
    True
    """
    # numpy takes any ISeedSequence, which its types do not say.
    return np.random.Generator(np.random.Philox(cast(Any, _Key(_digest(seed, purpose, *path)))))


def tickets(seed: int, purpose: str, round_number: int, keys: KeyArray) -> KeyArray:
    """Draw one 64-bit lottery number per client key; a client's number does not depend on who else draws."""
    salt = np.uint64(int.from_bytes(_digest(seed, purpose, round_number)[:8], "little"))
    return _mix(keys ^ salt)


def client_keys(ids: Iterable[ClientId]) -> KeyArray:
    """Map client ids to 64-bit keys that stay the same across processes and orderings."""
    return np.fromiter((_digest_id(i) for i in ids), dtype=np.uint64)


def number_keys(start: int, stop: int) -> KeyArray:
    """Return the keys of the ids ``start … stop-1``, as :func:`client_keys` would, without a Python loop."""
    return _mix(np.arange(start, stop, dtype=np.int64).view(np.uint64))


def _digest_id(client: ClientId) -> int:
    if isinstance(client, str):
        return int.from_bytes(blake2b(client.encode(errors="surrogatepass"), digest_size=8).digest(), "little")
    if -(2**63) <= client < 2**63:
        return int(_mix(np.array([client], dtype=np.int64).view(np.uint64))[0])
    # Flower's node ids go up to 2^64.  Bits of their own, so that 2^64 is not the text "18446744073709551616".
    bits = int(client).bit_length()
    require(
        bits <= _LONGEST_ID, "client id", f"a number of {bits} bits", f"of {_LONGEST_ID} at most", "use a string id"
    )
    whole = int(client).to_bytes(bits // 8 + 1, "little", signed=True)
    return int.from_bytes(blake2b(whole, digest_size=8, person=b"whole number").digest(), "little")


class _Key(ISeedSequence):
    """The key of a Philox generator, given to it as its seed.

    ``Philox(key=...)`` does the same in more than twice the time: it asks the system for a seed that it does not use.
    """

    def __init__(self, digest: bytes) -> None:
        self._words = np.frombuffer(digest, dtype="<u8").astype(np.uint64, copy=False)

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        """Return the two words that Philox asks for."""
        return self._words


def _digest(seed: int, purpose: str, *path: ClientId) -> bytes:
    plain = (part if isinstance(part, str) else int(part) for part in path)  # numpy integers print differently
    name = repr((int(seed), purpose, *plain)).encode(errors="surrogatepass")
    return blake2b(name, digest_size=16).digest()


def _mix(x: KeyArray) -> KeyArray:
    # The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): a bijection that passes as random.
    # In place, since a million clients may draw in each round.
    with np.errstate(over="ignore"):
        x = x + _GOLDEN
        shifted = x >> np.uint64(30)
        x ^= shifted
        x *= _MIX_1
        x ^= np.right_shift(x, np.uint64(27), out=shifted)
        x *= _MIX_2
        x ^= np.right_shift(x, np.uint64(31), out=shifted)
    return x
