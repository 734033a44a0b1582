"""The optimum, for averages (R1) and for averages with the cluster penalty (R2), below the cost of a sort.

Reference: PAUSE, Alg. 2 (Pivot-and-Fill), without its last block, which counts the last client twice.

Beyond the paper:

* R2 is solved exactly too.  In each cluster the best score counts in full and every later one loses the penalty; these
  *marginals* fall within a cluster, so the m largest of them are the best set above a ucb threshold.
* Hardly anything is sorted.  Among the fastest sqrt(mK) or so clients let theta be the m-th best marginal: a slower
  client with a score of at most theta never enters the best set.  And of those left, let the m best by marginal alone
  have the minimum ucb u0: no set whose minimum lies below u0 can beat them.  Only what survives both is sorted.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from pausefl.errors import InvalidValueError
from pausefl.selection.exact_sweep import best_prefix, best_prefix_clustered, fair_marginals, marginals
from pausefl.selection.objective import Objective, Solution, Tickets, tickets_from
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.types import FloatArray, IntArray

SMALL = 4096
"""Up to this many clients a plain sort is quicker than avoiding it."""

_SAMPLE = 8192


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
        raise InvalidValueError("phi is set, but exact search takes averages and clusters only; use sa-pause or brute")
    ucb, m = objective.ucb, objective.m
    if np.isposinf(ucb.max()):
        unobserved = np.flatnonzero(np.isposinf(ucb))
        if len(unobserved) >= m:
            return _fill(objective, unobserved, tickets)
    if m == len(ucb):
        return np.arange(m)
    kept = survivors(objective) if len(ucb) > SMALL else np.arange(len(ucb))
    threshold = _best_threshold(objective, kept)
    return _fill(objective, kept[ucb[kept] >= threshold], tickets)


def survivors(objective: Objective) -> IntArray:
    """Return the clients that can belong to the optimum, or stand at its threshold."""
    m, count = objective.m, len(objective.ucb)
    kept = not_outrun(objective, slice(None))
    if objective.clusters is None or not objective.clustered:
        kept = _thinned(objective, kept) if len(kept) < 0.8 * count else kept
    else:
        while len(kept) < 0.8 * count:
            count = len(kept)
            kept = not_outrun(objective, kept)
    ucb: FloatArray = objective.ucb[kept]
    by_marginal = np.argpartition(_marginals(objective, kept), len(kept) - m)
    floor = float(ucb[by_marginal[len(kept) - m :]].min())
    return kept[ucb >= floor]


def _thinned(objective: Objective, subset: IntArray) -> IntArray:
    """Drop the same, cut after cut: whoever is slower than a cut competes with all that are faster than it.

    For scores without clusters, where the m best so far are all that is to be remembered.
    """
    ucb, score, m = objective.ucb[subset], objective.score[subset], objective.m
    sample = np.sort(ucb[:: max(1, len(ucb) // _SAMPLE)])
    place = (math.isqrt(m * len(ucb)) + m) * len(sample) // len(ucb) + 1
    kept: list[IntArray] = []
    rest, best = np.arange(len(ucb)), np.empty(0)
    while place < len(sample):
        ahead = ucb[rest] >= sample[len(sample) - place]
        kept.append(rest[ahead])
        rest = rest[~ahead]
        best = np.concatenate([best, score[kept[-1]]])
        if len(best) >= m:
            best = np.partition(best, len(best) - m)[len(best) - m :]
            rest = rest[score[rest] > best[0]]
        place *= 2
    survivors: IntArray = subset[np.concatenate([*kept, rest])]
    return survivors


def not_outrun(objective: Objective, subset: IntArray | slice) -> IntArray:
    """Drop from the subset who has m better clients among those that are faster."""
    ucb, score, m = objective.ucb[subset], objective.score[subset], objective.m
    # Where to cut is a matter of speed only, so a sample will do.
    step = max(1, len(ucb) // _SAMPLE)
    fast, good = ucb[::step], score[::step]
    wanted = (math.isqrt(m * len(ucb)) + m) * len(fast) // len(ucb) + 1
    for further in (True, True, False):
        if wanted >= len(fast):
            return _named(subset, np.arange(len(ucb)))
        limit = np.partition(fast, len(fast) - wanted)[len(fast) - wanted]
        front = np.flatnonzero(ucb >= limit)
        if len(front) < m:
            return _named(subset, np.arange(len(ucb)))
        ahead = _marginals(objective, _named(subset, front))
        theta = np.partition(ahead, len(ahead) - m)[len(ahead) - m]
        # Rounds that took the good ones among the fastest leave the others in front; then the cut moves back.
        if not further or np.count_nonzero((good > theta) & (fast < limit)) <= 4 * wanted or 2 * wanted >= len(fast):
            break
        wanted *= 2
    behind = np.flatnonzero((score > theta) & (ucb < limit))
    return _named(subset, np.concatenate([front, behind]))


def _named(subset: IntArray | slice, positions: IntArray) -> IntArray:
    """Turn positions within the subset into clients."""
    return positions if isinstance(subset, slice) else subset[positions]


def _best_threshold(objective: Objective, kept: IntArray) -> float:
    """Return the largest u that maximises u + (best sum of m marginals among the clients with ucb >= u)."""
    descending = kept[np.argsort(-objective.ucb[kept])]
    ucb, score = objective.ucb[descending], objective.score[descending]
    if objective.clusters is not None and objective.clustered:
        at = best_prefix_clustered(ucb, score, objective.clusters[descending], objective.m, objective.penalty)
    else:
        at = best_prefix(ucb, score, objective.m)
    return float(ucb[at])


def _fill(objective: Objective, eligible: IntArray, tickets: Tickets) -> IntArray:
    """Return the m eligible clients with the largest marginals."""
    m = objective.m
    if len(eligible) == m:
        return eligible
    ucb, score = objective.ucb[eligible], objective.score[eligible]
    if objective.clusters is not None and objective.clustered:
        score = fair_marginals(objective.clusters[eligible], score, objective.penalty, ucb, tickets(eligible))
    return eligible[_largest(score, m, ucb, eligible, tickets)]


def _largest(values: FloatArray, m: int, ucb: FloatArray, names: IntArray, tickets: Tickets) -> IntArray:
    """Return the positions of the m largest values; ties go to the higher ucb, then to the smaller ticket."""
    sure, tied = _cut(values, m)
    faster, level = _cut(ucb[tied], m - len(sure))
    drawn = tied[level]
    need = m - len(sure) - len(faster)
    if need < len(drawn):
        drawn = drawn[np.argpartition(tickets(names[drawn]), need - 1)[:need]] if need else drawn[:0]
    return np.concatenate([sure, tied[faster], drawn])


def _cut(values: FloatArray, m: int) -> tuple[IntArray, IntArray]:
    """Return the positions that are surely among the m largest, and those that tie for the remaining places."""
    cut = np.partition(values, len(values) - m)[len(values) - m]
    return np.flatnonzero(values > cut), np.flatnonzero(values == cut)


def _marginals(objective: Objective, subset: IntArray | slice) -> FloatArray:
    """Return what each client of the subset adds: its score, less the penalty unless it is its cluster's best."""
    score = objective.score[subset]
    if objective.clusters is None or not objective.clustered:
        return score
    return marginals(objective.clusters[subset], score, objective.penalty)


class Pause(Policy):
    """PAUSE, solved exactly: for averages (R1) and for the cluster penalty (R2), at any number of clients."""

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
