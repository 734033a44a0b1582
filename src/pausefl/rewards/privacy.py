"""The privacy term: the part of its budget that a client has not yet spent.

Reference: PAUSE, eq. (privacy reward function).
"""

from __future__ import annotations

import numpy as np

from pausefl.types import BudgetSchedule, FloatArray, IntArray


def budget_left(schedule: BudgetSchedule, releases: IntArray) -> FloatArray:
    """Return p_k = 1 - spent/budget, which is 1 for a client that released nothing.

    >>> from pausefl.privacy import Geometric
    >>> budget_left(Geometric(budget=40.0, decay=0.04), np.array([0, 50])).round(4).tolist()
    [1.0, 0.1353]
    """
    most = int(releases.max())
    if most < len(releases):  # few distinct counts: one table instead of K evaluations
        return (1.0 - schedule.spent(np.arange(most + 1)) / schedule.budget)[releases]
    return 1.0 - schedule.spent(releases) / schedule.budget
