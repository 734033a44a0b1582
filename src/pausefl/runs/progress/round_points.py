"""Any number of rounds in a fixed number of points: when these are full, neighbours are merged."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pausefl.types import FloatArray, IntArray


class RoundPoints:
    """Numbers per round in at most ``capacity`` points of equally many rounds each; the last one may have fewer.

    ``added`` names the columns that a point sums up, ``newest`` those of which it keeps the latest value (NaN before
    there is one), ``largest`` those of which it keeps the largest.

    Law: the sums over all points are the sums over all rounds, however many there were.

    >>> points = RoundPoints(4, added=("rounds",), newest=("accuracy",))
    >>> for number in range(1, 11):
    ...     points.add({"rounds": 1}, {"accuracy": float(number)})
    >>> points["rounds"].tolist(), points["accuracy"].tolist(), points.ends.tolist()
    ([4.0, 4.0, 2.0], [4.0, 8.0, 10.0], [4, 8, 10])
    """

    def __init__(
        self, capacity: int, *, added: tuple[str, ...], newest: tuple[str, ...] = (), largest: tuple[str, ...] = ()
    ) -> None:
        self._place = {name: place for place, name in enumerate((*added, *newest, *largest))}
        self._newest = slice(len(added), len(added) + len(newest))
        self._largest = slice(len(added) + len(newest), len(self._place))
        self._table = np.zeros((capacity + capacity % 2, len(self._place)))
        self._table[:, self._newest] = np.nan
        self._ends = np.zeros(len(self._table), dtype=np.int64)
        self._used, self._in_last, self.stride = 0, 0, 1

    def __len__(self) -> int:
        return self._used

    def __getitem__(self, name: str) -> FloatArray:
        """Return a column: a number per point."""
        return self._table[: self._used, self._place[name]].copy()

    @property
    def ends(self) -> IntArray:
        """The last round of each point."""
        return self._ends[: self._used].copy()

    @property
    def full(self) -> bool:
        """Whether the last point has all its rounds."""
        return self._in_last == self.stride

    def add(
        self, added: Mapping[str, float], newest: Mapping[str, float], largest: Mapping[str, float] | None = None
    ) -> None:
        """Take up the next round."""
        if self._used == 0 or self.full:
            if self._used == len(self._table):
                self._merge()
            self._used, self._in_last = self._used + 1, 0
            if self._used > 1:
                self._table[self._used - 1, self._newest] = self._table[self._used - 2, self._newest]
        last = self._table[self._used - 1]
        for name, value in added.items():
            last[self._place[name]] += value
        for name, value in (largest or {}).items():
            last[self._place[name]] = max(last[self._place[name]], value)
        self._in_last += 1
        self._ends[self._used - 1] = (0 if self._used == 1 else self._ends[self._used - 2]) + self._in_last
        self.settle(newest)

    def settle(self, newest: Mapping[str, float]) -> None:
        """Say what the latest values are, once there is a round."""
        for name, value in newest.items():
            if self._used:
                self._table[self._used - 1, self._place[name]] = value

    def _merge(self) -> None:
        one, other = self._table[0::2], self._table[1::2]
        merged = one + other
        merged[:, self._newest] = other[:, self._newest]
        merged[:, self._largest] = np.maximum(one[:, self._largest], other[:, self._largest])
        half = len(merged)
        self._table[:half], self._table[half:] = merged, 0.0
        self._table[half:, self._newest] = np.nan
        self._ends[:half] = self._ends[1::2].copy()
        self._used, self.stride = half, 2 * self.stride
        self._in_last = self.stride
