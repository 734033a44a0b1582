"""When a round is closed: more clients are asked than are waited for, or the round ends at a learned deadline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pausefl.errors import is_finite, require
from pausefl.sim.network import Outcome
from pausefl.types import BoolArray, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """How many are asked, how many answers close a round, and what becomes of those that come later.

    ``over_select`` times as many clients as a round has are asked, rounded up.  ``close_after`` answers close it; left
    out, as many as a round has where more are asked, and all where not.  Policies that take everybody ask everybody,
    and wait for all unless ``close_after`` is given.  ``deadline_quantile`` and ``deadline_slack`` are those of a
    :class:`~pausefl.selector.deadline.Deadline`.  ``late`` answers are ``"waste"``, or come into ``"use"`` in
    the round in which they arrive.  Everybody who was asked has paid.
    """

    over_select: float = 1.0
    close_after: int | None = None
    deadline_quantile: float | None = None
    deadline_slack: float = 1.5
    late: Literal["waste", "use"] = "waste"

    def __post_init__(self) -> None:
        fine = is_finite(self.over_select) and self.over_select >= 1.0
        require(fine, "over_select", self.over_select, "a finite number from 1", "1.3 is common")
        fine = self.close_after is None or self.close_after >= 1
        require(fine, "close_after", self.close_after, "a whole number from 1", "leave it out to wait for all")
        require(
            self.late in ("waste", "use"),
            "late",
            self.late,
            "'waste' or 'use'",
            "'waste' drops late answers, 'use' takes them in the next round",
        )

    def asked(self, per_round: int) -> int:
        """Return how many clients are asked.

        >>> Closing(over_select=1.1).asked(10), Closing(over_select=1.3).asked(5)
        (11, 7)
        """
        return math.ceil(self.over_select * per_round * (1.0 - 1e-12))  # 1.1 x 10 is a bit more than 11 in floats

    def awaited(self, per_round: int, *, everybody: bool) -> int | None:
        """Return after how many answers a round is closed; None: when all are there."""
        if self.close_after is not None:
            return self.close_after
        return per_round if self.over_select > 1.0 and not everybody else None


def closed(
    outcome: Outcome, awaited: int | None, deadline: Seconds | None, added: Seconds = 0.0
) -> tuple[Outcome, BoolArray]:  # fmt: skip
    """Return how a round goes that is closed after so many answers, or at a deadline, and who was still out then.

    Answers that arrive at the very moment of closing are taken.  Fewer answers than ``awaited`` close a round when
    nobody is left to wait for.  At the deadline a round without an answer goes on to its first one: all have paid.
    ``added`` is what the round takes beside the wait, such as congestion; it stays.

    >>> four = Outcome(np.array([0.4, 0.1, np.nan, 0.2]), np.array([True, True, False, True]), 0.4)
    >>> ended, out = closed(four, awaited=2, deadline=None)
    >>> ended.seconds, ended.arrived.tolist(), out.tolist()
    (0.2, [False, True, False, True], [True, False, False, False])
    """
    answers = np.sort(outcome.latency[outcome.arrived])
    end = math.inf if awaited is None or len(answers) < awaited else float(answers[awaited - 1])
    end = min(end, math.inf if deadline is None else max(deadline, float(answers.min(initial=math.inf))))
    if end >= outcome.seconds - added:
        return outcome, np.zeros(len(outcome.arrived), dtype=np.bool_)
    out = np.asarray(outcome.latency > end)  # False for those of whom nothing will be heard
    return Outcome(outcome.latency, outcome.arrived & ~out, end + added), out
