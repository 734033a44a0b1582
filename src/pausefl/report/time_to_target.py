"""The time to a target accuracy over several seeds: a median in which a seed that never gets there counts as never.

A mean over the seeds that reached the target would look better when the slow seeds fail.  This median cannot: each
seed's time grows with the target, and so does their median.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

EXPLAINED = (
    "A run reaches a target when the mean accuracy of its last ten rounds first reaches it. A time in the table is the "
    'median over all seeds. It is "never" if half of the seeds or more never get there. The numbers in brackets say '
    "how many seeds got there."
)
"""What every table of such times says below it."""


@dataclass(frozen=True, slots=True)
class TimeToTarget:
    """The seconds that a policy needs to reach an accuracy.

    Attributes:
        median: over all seeds; None if half of them or more never got there.
        earliest: that of the fastest seed; None if no seed got there.
        latest: that of the slowest seed; None if some seed never got there.
        count: how many seeds got there.
        seeds: how many seeds there are.

    >>> print(time_to_target([3.0, 5.0, None]), time_to_target([3.0, None]), time_to_target([3.0]), sep="; ")
    5.0 (2/3); never (1/2); 3.0
    """

    median: float | None
    earliest: float | None
    latest: float | None
    count: int
    seeds: int

    def __str__(self) -> str:
        time = "never" if self.median is None else f"{self.median:.1f}"
        return f"{time} ({self.count}/{self.seeds})" if self.seeds > 1 else time


def time_to_target(times: Iterable[float | None]) -> TimeToTarget:
    """Return the time over seeds from that of each seed; None or infinity stands for never."""
    each = sorted(math.inf if time is None else time for time in times)
    median = float(np.median(each)) if each else math.inf
    earliest, latest = (each[0], each[-1]) if each else (math.inf, math.inf)
    there = sum(map(math.isfinite, each))
    return TimeToTarget(_finite(median), _finite(earliest), _finite(latest), there, len(each))


def _finite(time: float) -> float | None:
    return time if math.isfinite(time) else None
