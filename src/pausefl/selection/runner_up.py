"""The second-best set: what an exact policy would have chosen if the chosen set had not been possible.

Every other set of m lacks one of the chosen, so the runner-up is the best among m optima, each without one of them.
Few of these optima have to be worked out: what can be reached without a member is known beforehand, up to rounding for
averages, and as a close bound for clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from pausefl.selection.brute import brute
from pausefl.selection.exact import exact, narrowed
from pausefl.selection.exact_sweep import compiled, running_best, running_best_clustered
from pausefl.selection.objective import Objective, SetFunction, Solution, Tickets
from pausefl.types import FloatArray, IntArray


def runner_up(objective: Objective, best: IntArray, tickets: Tickets) -> Solution | None:
    """Return the best set other than ``best``, which is an optimum; None if there is no other set.

    >>> objective = Objective(np.array([3.0, 2.0, 1.0]), np.array([0.0, 1.0, 5.0]), 2)
    >>> second = runner_up(objective, np.array([1, 2]), lambda at: at.astype(np.uint64))
    >>> second.members.tolist(), second.value
    ([0, 2], 6.0)
    """
    if objective.m == len(objective.ucb):
        return None
    if not objective.separable:
        return _best_of(_without(objective, member, tickets) for member in best.tolist())
    first_come = np.flatnonzero(np.isposinf(objective.ucb))
    if len(first_come) > objective.m:  # sets without a finite minimum come first, and compare by the rest
        part = replace(_part(objective, first_come), ucb=np.zeros(len(first_come)))
        found = runner_up(part, np.searchsorted(first_come, best), lambda at: tickets(first_come[at]))
        return None if found is None else objective.solution(first_come[found.members])
    likely = int(best[np.argmin(objective.score[best])])
    known = {likely: _without(objective, likely, tickets)}
    reached = _worth(objective, known[likely])
    reach = _reach(objective, best, reached)
    rounding = 1e-12 * float(np.abs(reach).max())
    alike = {(objective.score[likely], reach[np.flatnonzero(best == likely)[0]])}
    for at in np.argsort(-reach, kind="stable").tolist():
        member = int(best[at])
        if reach[at] < reached - rounding:
            break
        # Without clusters the worth depends on the score alone, at the same threshold, and the first member counts.
        if not objective.clustered and (objective.score[member], reach[at]) in alike:
            continue
        alike.add((objective.score[member], reach[at]))
        # A set that is worth as much as anything without this member, and lacks it, need not be looked for again.
        if not any(
            member not in each.members and _worth(objective, each) >= reach[at] - rounding for each in known.values()
        ):
            known[member] = _without(objective, member, tickets)
            reached = max(reached, _worth(objective, known[member]))
    return _best_of(known[member] for member in best.tolist() if member in known)


def _best_of(solutions: Iterable[Solution]) -> Solution:
    return max(solutions, key=lambda solution: solution.rank)


def _worth(objective: Objective, solution: Solution) -> float:
    """Return the value of a set with the penalty as the sweeps count it."""
    parts = objective.score[solution.members].tolist()
    if objective.clusters is not None and objective.clustered:
        clusters = objective.clusters[solution.members]
        parts.append(-objective.penalty * (len(clusters) - len(np.unique(clusters))))
    return solution.minimum + math.fsum(parts)


def _reach(objective: Objective, best: IntArray, reached: float) -> FloatArray:
    """Return a bound on what a set without each of the best is worth; below what is reached, it may be too small."""
    kept = narrowed(objective, second=reached)
    order = np.argsort(-objective.ucb) if kept is None else kept[np.argsort(-objective.ucb[kept])]
    ucb, score, m, penalty = objective.ucb, objective.score, objective.m, objective.penalty
    if objective.clusters is None or not objective.clustered:
        clusters, other = np.empty(0, dtype=np.int64), np.full(len(best), -math.inf)
        (total, smallest), (more, _) = running_best(score[order], m), running_best(score[order], m + 1)
    else:
        clusters = objective.clusters
        total, smallest = running_best_clustered(score[order], clusters[order], m, penalty)
        more, _ = running_best_clustered(score[order], clusters[order], m + 1, penalty)
        # Only m + 1 of the fastest were kept.  The best of a cluster need not be among them, once its first is gone.
        fast = ucb > ucb[order[m + 1]] if len(order) > m + 1 else np.ones(len(ucb), dtype=np.bool_)
        other = _best_others(clusters, np.where(fast, score, -math.inf), best)
    return _bounds(ucb, score, clusters, order, total, smallest, more, best, other, penalty)


@compiled
def _bounds(
    ucb: FloatArray, score: FloatArray, clusters: IntArray, order: IntArray, total: FloatArray, smallest: FloatArray,
    more: FloatArray, members: IntArray, others: FloatArray, penalty: float,
) -> FloatArray:  # fmt: skip
    """Return for each member the most that u + (best sum without it) can be over all thresholds.

    At a threshold let ``total`` and ``more`` be the best sums of m and m + 1 marginals.  The best set without a member
    is the best set, or differs from it in one more client.  That client is the best of the others, which has the
    marginal more - total; or it is the best other of the cluster, if the member was alone there.  If it was not alone,
    taking it out saves a penalty.
    """
    found = np.full(len(members), -np.inf)
    for k in range(len(members)):
        b, other = members[k], others[k]
        own = score[b]
        for i in range(len(order)):
            j = order[i]
            if len(clusters) > 0 and clusters[j] == clusters[b] and j != b:
                other = max(other, score[j])
            value = total[i]
            if ucb[j] <= ucb[b]:
                if more[i] == -np.inf:  # there is nobody else
                    continue
                if min(other, own) - penalty >= smallest[i]:  # it may not be alone
                    value = min(value, more[i] - own + penalty)
                else:
                    value = min(value, max(more[i], total[i] + other) - own)
            if value > -np.inf:
                found[k] = max(found[k], ucb[j] + value)
    return found


@compiled
def _best_others(clusters: IntArray, score: FloatArray, members: IntArray) -> FloatArray:
    """Return the best score of the other clients in each member's cluster, -inf if there are none."""
    count = clusters.max() + 1
    top, first, second = np.full(count, -1), np.full(count, -np.inf), np.full(count, -np.inf)
    for i in range(len(clusters)):
        r = clusters[i]
        if score[i] > first[r]:
            top[r], first[r], second[r] = i, score[i], first[r]
        elif score[i] > second[r]:
            second[r] = score[i]
    others = np.empty(len(members))
    for k in range(len(members)):
        r = clusters[members[k]]
        others[k] = second[r] if top[r] == members[k] else first[r]
    return others


def _without(objective: Objective, member: int, tickets: Tickets) -> Solution:
    """Return the optimum among all but one client."""
    others = np.delete(np.arange(len(objective.ucb)), member)
    part = _part(objective, others)
    own: Tickets = lambda at: tickets(others[at])  # noqa: E731
    return objective.solution(others[exact(part, own) if part.separable else brute(part, own).members])


def _part(objective: Objective, some: IntArray) -> Objective:
    clusters = None if objective.clusters is None else objective.clusters[some]
    phi = None if objective.phi is None else _phi_of(some, objective.phi)
    return Objective(objective.ucb[some], objective.score[some], objective.m, clusters, objective.collision, phi)


def _phi_of(some: IntArray, phi: SetFunction) -> Callable[[IntArray], float]:
    return lambda at: phi(some[at])
