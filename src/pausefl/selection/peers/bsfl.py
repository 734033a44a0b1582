"""BSFL: speed and data that was used too little, without a thought of privacy.

Reference: Ben Ami, Cohen and Zhao, "Client Selection for Generalization in Accelerated Federated Learning: A
Multi-Armed Bandit Approach" (2023), from which PAUSE took its speed and its generalization.
"""

from __future__ import annotations

from typing import ClassVar

from pausefl.selection.exact import exact
from pausefl.selection.objective import Objective
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.types import IntArray


class BanditScheduling(Policy):
    """BSFL: maximise min(ucb) + (alpha/m)·Σ generalization, solved exactly: PAUSE with gamma = 0.

    ``alpha``, ``beta`` and ``zeta`` are the selector's; its ``gamma`` and ``rho`` do not count.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=BanditScheduling())
    >>> sel.select().members
    ('b', 'd')
    """

    __slots__ = ()
    name: ClassVar[str] = "bsfl"
    any_reward: ClassVar[bool] = False
    needs = frozenset({"latency", "sizes"})

    def pick(self, candidates: Candidates) -> IntArray:
        """Return the optimum."""
        return exact(Objective(candidates.ucb, candidates.generalization, candidates.m), candidates.tickets)
