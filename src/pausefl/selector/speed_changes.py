"""Whether a client has become faster or slower: its answers are compared with their mean, which is replaced if it has.

Reference: Page, "Continuous inspection schemes", Biometrika 41 (1954): the cumulative sum test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from pausefl.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from pausefl.selector.cohort import Cohort

_LEAST = 10
"""How many timings a client must have before its answers are compared with their mean."""
_ALLOWANCE = 0.5
_LIMIT = 10.0
_OUTLIER = 3.0
_SMALLEST = 0.1
"""The standard deviation is taken to be at least a tenth of the mean: smaller changes do not matter."""


def believed_timings(cohort: Cohort, number: int, memory: int | None, rows: IntArray | slice = slice(None)) -> IntArray:
    """Return how often each client was timed; 0 if it was not picked in the ``memory`` rounds before round ``number``.

    A client that was not picked for so long is tried again as if it were new: it may have become faster.
    """
    if memory is None:
        return cohort.timings[rows]
    return np.where(number - cohort.last[rows] > memory, 0, cohort.timings[rows])


class SpeedChanges:
    """The test for changes, for the clients that answered in a round, after their means were updated.

    Each answer is measured in standard deviations from the client's mean (at most 3, so that one outlier is no change).
    What exceeds 0.5 is added up, for as long as the answers lie on one side.  At 10 the client has changed: its mean
    becomes that of the answers on that side.  A large change takes four answers of a client with 30 timings, and seven
    of one with 10, since they also widen the deviation that they are measured in.

    - A client that became *slower* keeps its number of timings.  Its bonus stays small, so it is not explored anew.
    - A client that became *faster* has as many timings as answers on that side.  It is explored like a new one.
    - A client that was ``stale`` (not picked for ``memory`` rounds) is new with a single answer that is faster by 3
      standard deviations.

    False alarms: with normal answers, one in about 70,000 answers (Siegmund's approximation).  One that makes a client
    too slow lasts for at most ``memory`` rounds, since the client is then tried again.
    """

    FRESH: ClassVar[dict[str, float]] = {"spread": 0.0, "drift": 0.0, "drift_answers": 0.0, "drift_rate": 0.0,
                                         "drift_seconds": 0.0}  # fmt: skip
    """Its columns: the sum of squared deviations, the sum of the test, and number and means of the answers in it."""

    def __init__(
        self, cohort: Cohort, rows: IntArray, before: FloatArray, rate: FloatArray, seconds: FloatArray
    ) -> None:
        self._cohort, self._rows = cohort, rows
        self._before, self._rate, self._seconds = before, rate, seconds

    def notice(self, stale: BoolArray) -> None:
        """Compare each answer with the mean before it, and replace the means of those that have changed."""
        cohort, rows = self._cohort, self._rows
        timings = cohort.timings[rows] - 1  # without this answer
        columns = {name: cohort.column(name)[rows] for name in self.FRESH}
        variance = columns["spread"] / np.maximum(timings - 1, 1)
        deviation = np.maximum(np.sqrt(variance), np.maximum(_SMALLEST * self._before, 1e-300))
        known = timings >= _LEAST
        away = np.where(known, np.clip((self._rate - self._before) / deviation, -_OUTLIER, _OUTLIER), 0.0)
        columns["spread"] += (self._rate - self._before) * (self._rate - cohort.rate[rows])
        self._add_up(columns, away)
        slower, faster = columns["drift"] <= -_LIMIT, columns["drift"] >= _LIMIT
        sudden: Final = stale & (away >= _OUTLIER)
        for name, own in (("drift_answers", 1.0), ("drift_rate", self._rate), ("drift_seconds", self._seconds)):
            columns[name] = np.where(sudden, own, columns[name])
        changed = slower | faster | sudden
        at = rows[changed]
        cohort.rate[at], cohort.seconds[at] = columns["drift_rate"][changed], columns["drift_seconds"][changed]
        anew = faster | sudden
        cohort.timings[rows[anew]] = columns["drift_answers"][anew].astype(np.int64)
        scaled = (deviation * columns["drift_rate"] / np.maximum(self._before, 1e-300)) ** 2
        columns["spread"] = np.where(changed, scaled * np.maximum(cohort.timings[rows] - 1, 0), columns["spread"])
        for name in ("drift", "drift_answers", "drift_rate", "drift_seconds"):
            columns[name] = np.where(changed, 0.0, columns[name])
        for name, column in columns.items():
            cohort.write(name, rows, column)

    def _add_up(self, columns: dict[str, FloatArray], away: FloatArray) -> None:
        """Bring the sums up to date: towards the side of this answer, and back to 0 where that is reached."""
        moved = columns["drift"] + away
        moved = np.sign(moved) * np.maximum(np.abs(moved) - _ALLOWANCE, 0.0)
        goes_on = np.sign(moved) == np.sign(columns["drift"])
        answers = np.where(moved == 0.0, 0.0, np.where(goes_on, columns["drift_answers"], 0.0) + 1.0)
        for name, new in (("drift_rate", self._rate), ("drift_seconds", self._seconds)):
            mean = np.where(goes_on, columns[name], 0.0)
            columns[name] = np.where(moved == 0.0, 0.0, mean + (new - mean) / np.maximum(answers, 1.0))
        columns["drift"], columns["drift_answers"] = moved, answers
