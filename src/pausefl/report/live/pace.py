"""How fast rounds come, by the watcher's own clock: when the run will end, and whether it has gone quiet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from pausefl.types import Seconds

_GAPS = 50
_QUIET, _LEAST_QUIET = 10.0, 60.0
"""A run is quiet after so many times its usual gap between rounds, and not before so many seconds."""


class Pace:
    """Notes when rounds come; rounds that were there before the watch began say nothing of their pace.

    >>> now = [0.0]
    >>> pace = Pace(lambda: now[0])
    >>> pace.seen(10)
    >>> now[0] = 8.0
    >>> pace.seen(14)
    >>> pace.per_round, pace.remaining(34), pace.remaining(None)
    (2.0, 40.0, None)
    """

    def __init__(self, clock: Callable[[], Seconds]) -> None:
        self._clock = clock
        self._seen: deque[tuple[Seconds, int]] = deque(maxlen=_GAPS)

    def seen(self, rounds: int) -> None:
        """Note that there are so many rounds now."""
        if self._seen and rounds < self._seen[-1][1]:
            self._seen.clear()  # another run
        if not self._seen or rounds > self._seen[-1][1]:
            self._seen.append((self._clock(), rounds))

    @property
    def per_round(self) -> Seconds | None:
        """Seconds between two rounds of late; None before there were two."""
        if len(self._seen) < 2:
            return None
        (start, first), (end, last) = self._seen[0], self._seen[-1]
        return (end - start) / (last - first)

    def remaining(self, planned: int | None) -> Seconds | None:
        """Return how long the run will still take; None if nobody can tell."""
        if planned is None or (gap := self.per_round) is None:
            return None
        return max(0.0, gap * (planned - self._seen[-1][1]) - self.since())

    def since(self) -> Seconds:
        """Return how long ago the latest round was seen."""
        return self._clock() - self._seen[-1][0] if self._seen else 0.0

    @property
    def quiet(self) -> bool:
        """Whether the next round is long overdue."""
        gap = self.per_round
        return gap is not None and self.since() > max(_LEAST_QUIET, _QUIET * gap)
