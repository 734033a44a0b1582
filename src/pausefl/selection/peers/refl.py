"""REFL: whoever is rarely there goes first, so that no data is missed.

Reference: Abdelmoniem, Sahu, Canini and Fahmy, "REFL: Resource-Efficient Federated Learning" (EuroSys 2023), the
intelligent participant selection.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pausefl.selection.peers.keyed_draws import highest, tied_ranks
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.types import FloatArray, IntArray


class Refl(Policy):
    """REFL: the m candidates that are least likely to be there soon; ties at random.

    Deviation: in the paper each client forecasts by itself whether it will be there in the next round.  Here the
    forecast is how often it was there.  The paper's weights for answers that come late are a matter of aggregation,
    and not part of this policy.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=Refl())
    >>> sel.select().members
    ('b', 'c')
    """

    __slots__ = ()
    name: ClassVar[str] = "refl"
    needs = frozenset({"forecast"})

    def pick(self, candidates: Candidates) -> IntArray:
        """Return the m smallest forecasts."""
        return highest(candidates, -candidates.forecast, candidates.m)

    def inclusion(self, candidates: Candidates) -> FloatArray:
        """Return 1 below the forecast at which the places run out, 0 above it, and an equal share at it."""
        rarer, tied = tied_ranks(-candidates.forecast)
        return np.clip((candidates.m - rarer) / tied, 0.0, 1.0)
