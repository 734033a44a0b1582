"""The optimum, for averages (R1) and for averages with the cluster penalty (R2), mostly below the cost of a sort.

Reference: PAUSE, Alg. 2 (Pivot-and-Fill), without its last block, which counts the last client twice.

Beyond the paper:

* R2 is solved exactly too.  In each cluster the best score counts in full and every later one loses the penalty; these
  *marginals* fall within a cluster, so the m largest of them are the best set above a ucb threshold.
* Hardly anything is sorted: bounds on ranges of thresholds, and on clients that m faster ones outdo, leave few clients
  among which the best threshold is looked for, see :mod:`~pausefl.selection.exact_narrowing`.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from pausefl.errors import InvalidValueError
from pausefl.selection.exact_narrowing import between, contenders
from pausefl.selection.exact_sweep import best_prefix, fair_marginals
from pausefl.selection.objective import Objective, Solution, Tickets, tickets_from
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.types import FloatArray, IntArray

SMALL = 4096
"""Up to this many clients a plain sort is quicker than avoiding it."""

_BLOCK = 1 << 15


def solve_exact(
    ucb: FloatArray,
    score: FloatArray,
    m: int,
    *,
    clusters: IntArray | None = None,
    collision: float = 0.0,
    rng: np.random.Generator | None = None,
) -> Solution:
    """Return the optimum of min(ucb[S]) + sum(score[S]) - collision·sum_r max(0, |S ∩ C_r| - 1) over |S| = m.

    Args:
        ucb: How fast each client may be; infinite for clients never observed.
        score: What each client adds to a set.
        m: How many clients to choose.
        clusters: The cluster of each client.
        collision: What each collision within a cluster costs.
        rng: Decides between sets that are equally good.

    Use it wherever the reward is a sum over clients and cluster penalties.

    >>> solve_exact(np.array([3.0, 2.0, 1.0]), np.array([0.0, 1.0, 5.0]), 2).members.tolist()
    [1, 2]
    >>> solve_exact(np.ones(3), np.array([3.0, 2.0, 1.0]), 2, clusters=np.array([0, 0, 1]), collision=2.0).value
    5.0
    """
    objective = Objective(ucb, score, m, clusters, collision)
    return objective.solution(exact(objective, tickets_from(rng)))


def exact(objective: Objective, tickets: Tickets) -> IntArray:
    """Return the optimum of an objective of averages and cluster penalties, as positions."""
    if not objective.separable:
        raise InvalidValueError(
            "phi is set, but the exact search cannot handle a function of a set; use sa-pause or brute"
        )
    ucb, m = objective.ucb, objective.m
    if np.isposinf(ucb.max()):
        unobserved = np.flatnonzero(np.isposinf(ucb))
        if len(unobserved) >= m:
            return _fill(objective, unobserved, tickets, alike=True)
    if m == len(ucb):
        return np.arange(m)
    kept = narrowed(objective)
    threshold, bar = _best_threshold(objective, kept)
    return _fill(objective, between(ucb, objective.score, threshold, -math.inf if kept is None else bar), tickets)


def narrowed(objective: Objective, *, second: float | None = None) -> IntArray | None:
    """Return clients among which the best threshold is the same as among all; None is all of them.

    With ``second``, clients that tell what sets without one of the best can reach, see
    :func:`~pausefl.selection.exact_narrowing.contenders`.
    """
    kept, count, enough = None, len(objective.ucb), SMALL
    while count > enough:
        fewer = contenders(objective, kept, second=second)
        if fewer is None or len(fewer) > 0.5 * count:
            return kept if fewer is None else fewer
        kept, count, enough = fewer, len(fewer), 4 * SMALL
    return kept


def _best_threshold(objective: Objective, kept: IntArray | None) -> tuple[float, float]:
    """Return the largest u that maximises u + (best sum of m marginals among the clients with ucb >= u).

    Also return a number that the m-th of these marginals reaches.
    """
    descending = np.argsort(-objective.ucb) if kept is None else kept[np.argsort(-objective.ucb[kept])]
    ucb, score = objective.ucb[descending], objective.score[descending]
    clusters = objective.clusters[descending] if objective.clusters is not None and objective.clustered else None
    at, bar = best_prefix(ucb, score, objective.m, clusters, objective.penalty)
    return float(ucb[at]), bar


def _fill(objective: Objective, eligible: IntArray, tickets: Tickets, *, alike: bool = False) -> IntArray:
    """Return the m eligible clients with the largest marginals; ``alike`` says that they have the same ucb."""
    m = objective.m
    if len(eligible) == m:
        return eligible
    ucb, score, clusters = objective.ucb, objective.score, objective.clusters if objective.clustered else None
    if len(eligible) < len(ucb):
        ucb = np.full(1, ucb[eligible[0]]) if alike and clusters is None else ucb[eligible]
        score, clusters = score[eligible], None if clusters is None else clusters[eligible]
    if clusters is not None:
        score = fair_marginals(clusters, score, objective.penalty, ucb, tickets(eligible))
    return eligible[_largest(score, m, ucb, eligible, tickets)]


def _largest(values: FloatArray, m: int, ucb: FloatArray, names: IntArray, tickets: Tickets) -> IntArray:
    """Return the positions of the m largest values; ties go to the higher ucb, then to the smaller ticket.

    A single ucb is that of all.
    """
    sure, tied = _cut(values, m)
    faster, level = _cut(ucb if tied is None or len(ucb) == 1 else ucb[tied], m - len(sure))
    if tied is not None:
        faster, level = tied[faster], tied if level is None else tied[level]
    need = m - len(sure) - len(faster)
    if level is None or need < len(level):
        lucky = _smallest_tickets(names if level is None else names[level], need, tickets)
        level = lucky if level is None else level[lucky]
    return np.concatenate([sure, faster, level])


def _cut(values: FloatArray, m: int) -> tuple[IntArray, IntArray | None]:
    """Return the positions that are surely among the m largest, and those that tie for the other places (None: all)."""
    if values.min() == values.max():  # as in the first rounds, where nothing is known of anybody
        return np.empty(0, dtype=np.int64), None
    cut = np.partition(values, len(values) - m)[len(values) - m]
    return np.flatnonzero(values > cut), np.flatnonzero(values == cut)


def _smallest_tickets(names: IntArray, need: int, tickets: Tickets) -> IntArray:
    """Return the positions of those who draw the smallest tickets; they draw in blocks, which saves memory."""
    at, luck = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)
    for start in range(0, len(names) if need else 0, _BLOCK):
        drawn = tickets(names[start : start + _BLOCK])
        better = np.flatnonzero(drawn < luck.max()) if len(luck) == need else np.arange(len(drawn))
        at, luck = np.concatenate([at, start + better]), np.concatenate([luck, drawn[better]])
        if len(luck) > need:
            smallest = np.argpartition(luck, need - 1)[:need]
            at, luck = at[smallest], luck[smallest]
    return at


class Pause(Policy):
    """PAUSE, solved exactly: for averages (R1) and for the cluster penalty (R2), at any number of clients.

    Use it to set the weights of speed, data and privacy yourself.

    Law: no set of m candidates has a larger reward.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=Pause())
    >>> sel.select().members
    ('b', 'd')
    """

    __slots__ = ()
    name: ClassVar[str] = "pause"
    any_reward: ClassVar[bool] = False
    needs = frozenset({"latency", "sizes"})

    def maximises(self, candidates: Candidates) -> Objective:
        """Return the reward."""
        return candidates.objective

    def pick(self, candidates: Candidates) -> IntArray:
        """Return the optimum."""
        return exact(candidates.objective, candidates.tickets)
