"""Every set of m clients, one after the other: the oracle for tests and small networks."""

from __future__ import annotations

import math
from itertools import combinations
from typing import ClassVar

import numpy as np

from pausefl.errors import require
from pausefl.selection.objective import Objective, SetFunction, Solution, Tickets, tickets_from
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.types import FloatArray, IntArray

LIMIT = 20_000_000
_CHUNK = 50_000


def solve_brute(
    ucb: FloatArray,
    score: FloatArray,
    m: int,
    *,
    clusters: IntArray | None = None,
    collision: float = 0.0,
    phi: SetFunction | None = None,
    rng: np.random.Generator | None = None,
) -> Solution:
    """Return the best of all C(K, m) sets; ties are broken as in all solvers.

    Args:
        ucb: How fast each client may be; infinite for clients never observed.
        score: What each client adds to a set.
        m: How many clients to choose.
        clusters: The cluster of each client.
        collision: What each collision within a cluster costs.
        phi: Your own function of the positions of a set.  Its value is added.
        rng: Decides between sets that are equally good.

    Use it to check other solvers on small networks.

    >>> solve_brute(np.array([3.0, 2.0, 1.0]), np.array([0.0, 1.0, 5.0]), 2).members.tolist()
    [1, 2]
    """
    return brute(Objective(ucb, score, m, clusters, collision, phi), tickets_from(rng))


def brute(objective: Objective, tickets: Tickets) -> Solution:
    """Search an objective exhaustively."""
    count = len(objective.ucb)
    sets = math.comb(count, objective.m)
    require(sets <= LIMIT, "number of sets", sets, f"at most {LIMIT}", "use solve_exact or anneal")
    # In this order the first of several best sets is the one with the highest ucb and the smallest tickets.
    order = np.lexsort((tickets(np.arange(count)), -objective.ucb))
    best: Solution | None = None
    walk = combinations(order.tolist(), objective.m)
    while chunk := [members for _, members in zip(range(_CHUNK), walk, strict=False)]:
        found = objective.solution(_best_of(objective, np.array(chunk, dtype=np.int64)))
        if best is None or found.rank > best.rank:
            best = found
    if best is None:
        raise RuntimeError("no set was looked at")  # cannot be: m <= K gives at least one
    return best


def _best_of(objective: Objective, sets: IntArray) -> IntArray:
    minimum = objective.ucb[sets].min(axis=1)
    rest = objective.score[sets].sum(axis=1)
    if objective.clusters is not None:
        labels = np.sort(objective.clusters[sets], axis=1)
        rest -= objective.collision * (labels[:, 1:] == labels[:, :-1]).sum(axis=1)
    if objective.phi is not None:
        rest += np.array([objective.phi(members) for members in sets])
    unbounded = np.isinf(minimum)
    value = np.where(unbounded, 0.0, minimum) + rest
    if unbounded.any():
        value[~unbounded] = -np.inf
    best: IntArray = sets[int(np.argmax(value))]
    return best


class Brute(Policy):
    """PAUSE by exhaustive search, for any reward; feasible for K up to about 30.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=Brute())
    >>> sel.select().members
    ('b', 'd')
    """

    __slots__ = ()
    name: ClassVar[str] = "brute"
    needs = frozenset({"latency", "sizes"})

    def maximises(self, candidates: Candidates) -> Objective:
        """Return the reward."""
        return candidates.objective

    def pick(self, candidates: Candidates) -> IntArray:
        """Return the best of all sets."""
        return brute(candidates.objective, candidates.tickets).members
