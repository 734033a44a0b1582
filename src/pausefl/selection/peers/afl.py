"""Active federated learning: clients are drawn in proportion to how much the model has to gain from their data.

Reference: Goetz, Malik, Bui, Moon, Liu and Kumar, "Active Federated Learning" (2019), Alg. 1, with alpha_1 = 0.75,
alpha_2 = 0.01 and alpha_3 = 0.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pausefl.selection.peers.keyed_draws import drawn, highest
from pausefl.selection.peers.option_checks import check_number
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class ActiveFL(Policy):
    """AFL: drops the lowest 75 % by √n·loss; draws 90 % of a round ∝ exp(0.01·√n·loss), and the rest uniformly.

    Members tell their loss with their updates.  The values of all others stay as they were.

    Deviation: a client that has told no loss has the highest value that was told, so that it is tried; the paper does
    not say where first values come from.  (1 - alpha_3)·m is rounded to the nearest whole number, a half to the even
    one.  Where fewer clients are left than that, the rest of the round is drawn uniformly, too.

    Args:
        dropped: Share of the candidates with the lowest values that only the uniform draw can choose: alpha_1.
        sharpness: How much a higher value counts: alpha_2.
        uniform: Share of a round that is drawn uniformly: alpha_3.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=ActiveFL())
    >>> sel.select().members
    ('b', 'c')
    """

    name: ClassVar[str] = "afl"
    needs = frozenset({"sizes", "loss"})
    dropped: float = 0.75
    sharpness: float = 0.01
    uniform: float = 0.1

    def __post_init__(self) -> None:
        check_number("dropped", self.dropped, 0.0, 1.0, 0.75)
        check_number("sharpness", self.sharpness, 0.0, None, 0.01)
        check_number("uniform", self.uniform, 0.0, 1.0, 0.1)

    def pick(self, candidates: Candidates) -> IntArray:
        """Draw by value among those that were kept, and then uniformly among all others."""
        kept, log_weights = self._kept(candidates)
        valued = drawn(candidates, "afl", self._by_value(candidates, kept), kept, log_weights)
        others = np.setdiff1d(np.arange(len(candidates)), valued)
        return np.concatenate([valued, drawn(candidates, "afl, uniform", candidates.m - len(valued), others)])

    def inclusion(self, candidates: Candidates) -> FloatArray | None:
        """Return the chances where at most one is drawn by value, or all values are equal.

        Otherwise they have no closed form.  Which of several clients with the same value is dropped is a matter of
        tickets; the chances are given that.
        """
        kept, log_weights = self._kept(candidates)
        count, first = len(candidates), self._by_value(candidates, kept)
        if first > 1 and first < len(kept) and np.ptp(log_weights) > 0.0:
            return None
        by_value = np.zeros(count)
        if first:
            weights = np.exp(log_weights - log_weights.max())
            by_value[kept] = weights / math.fsum(weights) if first == 1 else first / len(kept)
        rest = (candidates.m - first) / (count - first) if count > first else 0.0
        chances: FloatArray = by_value + (1.0 - by_value) * rest
        return chances

    def _kept(self, candidates: Candidates) -> tuple[IntArray, FloatArray]:
        """Return who is not dropped, and the logarithms of their weights."""
        values = np.sqrt(candidates.sizes) * candidates.loss
        told = values[~np.isnan(values)]
        values = np.where(np.isnan(values), told.max() if len(told) else 0.0, values)
        count = len(candidates)
        kept = highest(candidates, values, count - math.floor(self.dropped * count + 1e-9))
        return kept, self.sharpness * values[kept]

    def _by_value(self, candidates: Candidates, kept: IntArray) -> int:
        return min(round((1.0 - self.uniform) * candidates.m), len(kept))
