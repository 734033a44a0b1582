"""How long a round may take, learned from the latencies seen so far: a quantile of them, with some slack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pausefl.errors import is_finite, require
from pausefl.types import FloatArray, Seconds

_LEAST = 5
_KEPT = 500


@dataclass(slots=True, eq=False)
class Deadline:
    """A deadline that follows the clients: ``slack`` times the ``quantile`` of the last 500 latencies.

    Args:
        quantile: The share of the last 500 latencies that the deadline must cover before ``slack``.
        slack: By how much that latency is multiplied.

    There is no deadline before five latencies are known.  Tell it of every answer, and of late answers with their true
    seconds.  Otherwise it would only know answers below the deadline, and the deadline could only get shorter.  A
    client that never answered counts as one that took as long as the deadline.  So once more than 1 - ``quantile`` of
    the last 500 have missed it, the next deadline is ``slack`` times as long.

    >>> deadline = Deadline(quantile=0.5, slack=3.0)
    >>> deadline.seconds is None
    True
    >>> deadline.learn([0.1, 0.2, 0.3, 0.4, 0.5])
    >>> round(deadline.seconds, 3)
    0.9
    """

    quantile: float = 0.9
    slack: float = 2.0
    _seen: FloatArray = field(default_factory=lambda: np.empty(0), init=False, repr=False)

    def __post_init__(self) -> None:
        share = is_finite(self.quantile) and 0.0 < self.quantile <= 1.0
        require(share, "quantile", self.quantile, "above 0 and at most 1", "0.9 is the default")
        fine = is_finite(self.slack) and self.slack >= 1.0
        require(fine, "slack", self.slack, "a finite number from 1", "2.0 is the default")

    @property
    def seconds(self) -> Seconds | None:
        """How long the next round may take; None while too little is known."""
        if len(self._seen) < _LEAST:
            return None
        # An answer that was given, rather than a number between two: with few answers the two can be far apart.
        return float(np.quantile(self._seen, self.quantile, method="inverted_cdf")) * self.slack

    def learn(self, latencies: Iterable[Seconds], missed: int = 0) -> None:
        """Take note of a round.

        Args:
            latencies: How many seconds each client took that answered in time.
            missed: How many clients missed the deadline.
        """
        limit = self.seconds
        late = [] if limit is None else [limit] * missed
        self._seen = np.concatenate([self._seen, np.array([*latencies, *late], dtype=np.float64)])[-_KEPT:]

    def state(self) -> dict[str, FloatArray]:
        """Return what it has learned, as arrays."""
        return {"latencies": self._seen}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what ``state`` returned."""
        self._seen = np.array(state.get("latencies", ()), dtype=np.float64)
