"""A policy of your own, with an option: the clients with the most budget left times speed.

pausefl study examples/own_policy.toml --scale full --out runs/own
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pausefl.selection import Candidates, Policy
from pausefl.types import IntArray


@dataclass(frozen=True)
class BudgetTimesSpeed(Policy):
    """Clients that were never picked come first."""

    name: ClassVar[str] = "budget-times-speed"
    speed_power: float = 1.0

    def pick(self, candidates: Candidates) -> IntArray:
        worth = candidates.budget_left * candidates.mean_speed**self.speed_power
        luck = candidates.tickets(np.arange(len(candidates)))  # breaks ties
        return np.lexsort((luck, -worth, candidates.picks > 0))[: candidates.m]
