"""The three aims as a number per client: speed (an upper confidence bound), generalization and privacy left.

Reference: PAUSE, eq. (ucb definition) with zeta from its large-network study; eq. (generalization reward), after
Ben Ami et al. (2023); eq. (privacy reward function).
"""

from __future__ import annotations

import math

import numpy as np

from pausefl.types import BudgetSchedule, FloatArray, IntArray


def upper_confidence(mean_speed: FloatArray, picks: IntArray, rounds: int, m: int, zeta: float = 1.0) -> FloatArray:
    """Return zeta·mean + sqrt((m+1) log t / T) after ``rounds`` rounds; infinity for clients never picked.

    >>> upper_confidence(np.array([0.5, 0.0]), np.array([4, 0]), rounds=10, m=3).round(3).tolist()
    [2.017, inf]
    """
    return zeta * mean_speed + speed_bonus(picks, rounds, m)  # PAUSE, eq. (ucb definition)


def speed_bonus(picks: IntArray, rounds: int, m: int) -> FloatArray:
    """Return sqrt((m+1) log t / T), by which a client may be faster than its mean; infinity if never picked."""
    if rounds == 0:
        return np.full(len(picks), np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        bonus = np.sqrt((m + 1) * math.log(rounds) / picks)
    bonus[picks == 0] = np.inf  # also in round 1, where the logarithm is 0 and 0/0 no number
    return bonus


def underuse(shares: FloatArray, picks: IntArray, rounds: int, m: int, beta: float) -> FloatArray:
    """Return g_k = |d|^beta sign(d) with d = m·share - T/t; T/t is 0 before the first round.

    Deviation: the paper bounds g by 1, which fails for a client that holds more than 1/m of all data; the formula is
    kept, and whoever needs the range (the regret bound, the annealer) takes it from the data.

    >>> underuse(np.array([0.25, 0.75]), np.array([1, 0]), rounds=2, m=1, beta=2.0).tolist()
    [-0.0625, 0.5625]
    """
    gap = m * shares - (picks / rounds if rounds else 0.0)
    return np.sign(gap) * np.abs(gap) ** beta


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
