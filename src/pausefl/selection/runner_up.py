"""The best set but one: what an exact policy would have chosen, had the chosen set not been there.

Every other set of m lacks one of the chosen, so the runner-up is the best among m optima, each without one of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pausefl.selection.brute import brute
from pausefl.selection.exact import SMALL, exact, not_outrun, survivors
from pausefl.selection.objective import Objective, SetFunction, Solution, Tickets
from pausefl.types import IntArray


def runner_up(objective: Objective, best: IntArray, tickets: Tickets) -> Solution | None:
    """Return the best set other than ``best``, which is an optimum; None if there is no other set.

    >>> objective = Objective(np.array([3.0, 2.0, 1.0]), np.array([0.0, 1.0, 5.0]), 2)
    >>> second = runner_up(objective, np.array([1, 2]), lambda at: at.astype(np.uint64))
    >>> second.members.tolist(), second.value
    ([0, 2], 6.0)
    """
    if objective.m == len(objective.ucb):
        return None
    kept = _contenders(objective)
    found = [_without(objective, kept, member, tickets) for member in best.tolist()]
    return max(found, key=lambda solution: solution.rank)


def _contenders(objective: Objective) -> IntArray:
    """Return the clients that can belong to an optimum when one of the others is gone."""
    everybody = np.arange(len(objective.ucb))
    if not objective.separable or len(everybody) <= SMALL:
        return everybody
    # Whoever has m + 1 better clients among the faster ones still has m of them when one is gone.
    more = Objective(objective.ucb, objective.score, objective.m + 1, objective.clusters, objective.collision)
    # In clusters the next best takes the place of one that is gone, and may be slower than all that count now.
    return not_outrun(more, slice(None)) if more.clustered else survivors(more)


def _without(objective: Objective, kept: IntArray, member: int, tickets: Tickets) -> Solution:
    """Return the optimum among all but one client."""
    others = kept[kept != member]
    clusters = None if objective.clusters is None else objective.clusters[others]
    phi = None if objective.phi is None else _phi_of(others, objective.phi)
    part = Objective(objective.ucb[others], objective.score[others], objective.m, clusters, objective.collision, phi)
    own: Tickets = lambda at: tickets(others[at])  # noqa: E731
    return objective.solution(others[exact(part, own) if part.separable else brute(part, own).members])


def _phi_of(others: IntArray, phi: SetFunction) -> Callable[[IntArray], float]:
    return lambda at: phi(others[at])
