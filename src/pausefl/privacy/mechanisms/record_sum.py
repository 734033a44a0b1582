"""The sum of what single records contribute, each clipped first: exact, so that one record never moves it too far.

Floats lose bits when many of them are added, and which bits depends on the other records: a sum that is merely close
can move by more than the clip allows (Casacuberta et al., 2022).  Here every number is cut to a grid so coarse that all
sums on it are exact, in any order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from pausefl.errors import require
from pausefl.privacy.mechanisms.tensor_rules import Layers, Tensor, Update, checked_tensors
from pausefl.privacy.schedule import SHAVE
from pausefl.types import FloatArray

_BLOCK = 1 << 17
"""Numbers that are looked at together: few enough for the memory that a gate holds, whatever training has taken."""
_LEAST = 1e-280
"""A clip below it leaves nothing of a record: the grid would be finer than floats are."""
MOST_RECORDS = 2**40
"""Records of one client: with more, the grid would be coarser than what a record may contribute needs."""


class RecordSum:
    """A sum to which rows are added, each scaled to an L2 norm of at most ``bound``; one that is not finite adds 0.

    Use it where rows come one after the other, and there is no memory for all of them.

    Args:
        dimension: How many numbers a row has.
        bound: The largest norm of a row.
        count: The public number of records, and the most rows that can be added.

    Law: replacing one row changes the sum by at most 2 x ``bound`` in L2 norm, exactly, whatever the others are, and in
    whatever order and pieces they come.

    >>> total = RecordSum(dimension=2, bound=1.0, count=3)
    >>> for row in ([3.0, 4.0], [0.0, 0.5], [np.nan, 1.0]):
    ...     total.add([np.array([row])])
    >>> total.value.round(6).tolist()
    [0.6, 1.3]
    """

    __slots__ = ("_grid", "_left", "_steps", "bound", "count")

    def __init__(self, dimension: int, bound: float, count: int) -> None:
        check_count(count)
        self.bound, self.count, self._left = bound, count, count
        # A power of two; up to ``count`` rows of numbers up to ``bound`` then add up to less than 2^53 steps of it.
        self._grid = 2.0 ** (math.frexp(bound * count)[1] - 52) if bound >= _LEAST else 0.0
        self._steps = np.full(dimension, 0.0)  # written to: the memory is there before the first row comes

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Add a row for each record, in the pieces of all ``tensors`` together; refuse more rows than the count."""
        rows = len(tensors[0])
        require(
            rows <= self._left, "records", self.count - self._left + rows, f"at most {self.count}, the public count",
            "give each record one row",
        )  # fmt: skip
        self._left -= rows
        step = max(1, _BLOCK // self._steps.size)
        for start in range(0, rows if self._grid else 0, step):
            # Cut first: to lay out rows anew that lie in another order would take as much memory as all of them.
            parts = [tensor[start : start + step] for tensor in tensors]
            # One row after the other, however they lay: only then does numpy add up long rows without losing digits.
            block = np.empty((len(parts[0]), self._steps.size))
            np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1, out=block)
            _clip_rows(block, self.bound)
            block /= self._grid
            # Towards zero: no row gets longer.
            self._steps += np.trunc(block, out=block).sum(axis=0)

    @property
    def value(self) -> FloatArray:
        """The sum so far."""
        return self._steps * self._grid


def clipped_sum(records: Update, bound: float, count: int, layers: Layers | None = None) -> FloatArray:
    """Return the sum of all rows, by the law of :class:`RecordSum`.

    >>> clipped_sum(np.array([[3.0, 4.0], [0.0, 0.5], [np.nan, 1.0]]), bound=1.0, count=3).round(6).tolist()
    [0.6, 1.3]
    """
    tensors = checked_tensors(records, layers, rows=True)
    total = RecordSum(row_size(tensors), bound, count)
    total.add(tensors)
    return total.value


def row_size(tensors: Sequence[Tensor]) -> int:
    """Return how many numbers a row has."""
    return sum(tensor.size // len(tensor) for tensor in tensors)


def check_count(count: object) -> None:
    """Refuse a public count that is none."""
    fine = isinstance(count, int) and 1 <= count <= MOST_RECORDS
    require(fine, "count", count, f"a whole number from 1 to {MOST_RECORDS}", "pass the number of records")


def first_record(records: Update) -> Update:
    """Return tensors of the shape and type of one record's contribution; their values are of no account."""
    if isinstance(records, Mapping):
        return {name: _template(tensor) for name, tensor in records.items()}
    return _template(records)


def _template(tensor: Tensor) -> Tensor:
    return np.zeros(tensor.shape[1:], tensor.dtype)


def _clip_rows(block: FloatArray, bound: float) -> None:
    """Scale each row in place to a norm of at most ``bound``, for certain; one that is not finite becomes 0."""
    block[~np.isfinite(block).all(axis=1)] = 0.0
    top = np.abs(block).max(axis=1)
    # Divided by the largest entry, nothing overflows.
    unit = block / np.where(top > 0.0, top, 1.0)[:, None]
    norm = np.sqrt(np.square(unit).sum(axis=1))
    with np.errstate(over="ignore"):  # infinitely long is too long
        long = top * norm > bound * SHAVE
    block[long] = unit[long] * (bound * SHAVE / norm[long])[:, None]
