"""Time in the simulator: it passes only when a round says so."""

from __future__ import annotations

from pausefl.errors import require
from pausefl.types import Seconds


class VirtualClock:
    """Adds up the latencies of rounds.

    >>> clock = VirtualClock()
    >>> clock.advance(0.25)
    0.25
    """

    __slots__ = ("now",)

    def __init__(self, now: Seconds = 0.0) -> None:
        self.now = now

    def advance(self, seconds: Seconds) -> Seconds:
        """Let time pass; return what the clock shows."""
        require(seconds >= 0.0, "seconds", seconds, "0 or more", "time does not run backwards")
        self.now += seconds
        return self.now
