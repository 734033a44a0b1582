"""Virtual queues: how far each client is behind the share of rounds that it was promised."""

from __future__ import annotations

import numpy as np

from pausefl.types import FloatArray, IntArray


class WaitingQueues:
    """A number from 0 for each client, by row; clients that join later begin at 0.

    Law: after each round a queue is [queue + promise - 1{took part}]⁺.

    >>> queues = WaitingQueues()
    >>> queues.move(np.array([0.5, 0.5]), np.array([1]))
    >>> queues.of(2).tolist()
    [0.5, 0.0]
    """

    __slots__ = ("lengths",)

    def __init__(self, lengths: FloatArray | None = None) -> None:
        self.lengths: FloatArray = np.empty(0) if lengths is None else np.array(lengths, dtype=np.float64)

    def of(self, clients: int) -> FloatArray:
        """Return the queues of this many clients."""
        return np.concatenate([self.lengths, np.zeros(clients - len(self.lengths))])

    def move(self, promised: FloatArray, members: IntArray) -> None:
        """Add what each client was promised of a round, and take away 1 from its members."""
        grown = self.of(len(promised)) + promised
        grown[members] -= 1.0
        self.lengths = np.maximum(grown, 0.0)
