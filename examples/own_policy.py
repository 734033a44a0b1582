"""A policy of your own: of twice as many random clients, the fastest so far.

    pausefl study examples/own_policy.toml --scale full --out runs/own

puts it beside PAUSE and random selection, in the table and in the report.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pausefl.selection import Candidates, Policy, Solution


class BetterHalf(Policy):
    """Draw 2m clients at random, keep the m with the highest ucb of speed; unobserved clients come first."""

    name: ClassVar[str] = "better-half"

    def pick(self, candidates: Candidates) -> Solution:
        objective = candidates.objective
        luck = candidates.stream("better half").permutation(len(candidates))
        drawn = luck[: 2 * objective.m]
        fastest = drawn[np.argsort(-objective.ucb[drawn], kind="stable")]
        return objective.solution(fastest[: objective.m])
