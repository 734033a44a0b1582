"""Compiled sweeps along falling ucb: the best m marginals so far, kept in a heap, a swap per client at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy as np
from numba import njit

from pausefl.types import FloatArray, IntArray, KeyArray

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first use; in a read-only installation without a home, compile anew in each process."""
    try:
        cached: Callable[P, R] = njit(cache=True)(function)
    except RuntimeError:  # numba found no folder for its cache
        cached = njit()(function)
    return cached


def best_prefix(
    ucb: FloatArray, score: FloatArray, m: int, clusters: IntArray | None = None, penalty: float = 0.0
) -> tuple[int, float]:
    """Return the first i at which ucb[i] + (sum of the m best marginals up to i) is largest, and the m-th of these.

    The ucb must fall.  PAUSE, Alg. 2: a set whose minimum is ucb[i] consists of i and clients before it.  The pivot
    need not be forced in: where it is not among the best m, the prefix before it was at least as good.
    """
    total, smallest = running_best(score, m) if clusters is None else running_best_clustered(
        score, clusters, m, penalty
    )  # fmt: skip
    at = m - 1 + int(np.argmax(ucb[m - 1 :] + total[m - 1 :]))
    return at, float(smallest[at])


@compiled
def running_best(score: FloatArray, m: int) -> tuple[FloatArray, FloatArray]:
    """Return for every i the sum of the m best scores up to i, and the smallest of these; -inf before there are m."""
    total, smallest = np.full(len(score), -np.inf), np.full(len(score), -np.inf)
    if len(score) < m:
        return total, smallest
    heap = np.sort(score[:m])  # a sorted array is a min-heap
    high, low = 0.0, 0.0
    for value in heap:
        high, low = _add(high, low, value)
    total[m - 1], smallest[m - 1] = high + low, heap[0]
    for i in range(m, len(score)):
        if score[i] > heap[0]:
            high, low = _add(high, low, score[i])
            high, low = _add(high, low, -heap[0])
            _replace_smallest(heap, score[i])
        total[i], smallest[i] = high + low, heap[0]
    return total, smallest


@compiled
def running_best_clustered(
    score: FloatArray, clusters: IntArray, m: int, penalty: float
) -> tuple[FloatArray, FloatArray]:
    """As :func:`running_best`, with the marginals of the cluster penalty.

    The heap holds the m largest marginals.  A new best of a cluster takes over the full score and demotes the old best
    by the penalty, which is why the place of each cluster's best in the heap is known.
    """
    total, smallest = np.full(len(score), -np.inf), np.full(len(score), -np.inf)
    if len(score) < m:
        return total, smallest
    key = np.empty(m)
    owner = np.empty(m, np.int64)  # the client at each place of the heap
    top_at = np.full(clusters.max() + 1, -1)  # the place of each cluster's best, -1 if none is in
    top_score = np.full(clusters.max() + 1, -np.inf)
    size, high, low = 0, 0.0, 0.0
    for i in range(len(score)):
        r = clusters[i]
        leads = top_at[r] < 0 or score[i] > top_score[r]
        marginal = score[i] if leads else score[i] - penalty
        if size < m or (score[i] > key[0] and marginal > key[0]):
            if leads and top_at[r] >= 0:  # the old best lost its title: its marginal is a follower's from now on
                place = top_at[r]
                key[place] -= penalty
                high, low = _add(high, low, -penalty)
                _sift_up(key, owner, clusters, top_at, place)
            high, low = _add(high, low, marginal)
            if size < m:
                place = size
                size += 1
            else:
                place = 0
                gone = clusters[owner[0]]
                high, low = _add(high, low, -key[0])
                if top_at[gone] == 0:
                    top_at[gone], top_score[gone] = -1, -np.inf
            key[place] = marginal
            owner[place] = i
            if leads:
                top_at[r], top_score[r] = place, score[i]
            _sift_up(key, owner, clusters, top_at, place)
            _sift_down(key, owner, clusters, top_at, size, place)
        if size == m:
            total[i], smallest[i] = high + low, key[0]
    return total, smallest


@compiled
def _add(high: float, low: float, value: float) -> tuple[float, float]:
    """Add to a sum in two parts, so that it does not depend on the path by which the members came together."""
    total = high + value
    gained = total - high
    return total, low + ((high - (total - gained)) + (value - gained))


@compiled
def marginals(clusters: IntArray, score: FloatArray, penalty: float) -> FloatArray:
    """Return each client's score, less the penalty unless it is the first among the best of its cluster."""
    count = clusters.max() + 1
    top, best = np.full(count, -1), np.full(count, -np.inf)
    for i in range(len(clusters)):
        if score[i] > best[clusters[i]]:
            top[clusters[i]] = i
            best[clusters[i]] = score[i]
    return _penalised(score, penalty, top)


@compiled
def fair_marginals(
    clusters: IntArray, score: FloatArray, penalty: float, ucb: FloatArray, luck: KeyArray
) -> FloatArray:
    """As :func:`marginals`; among the best of a cluster the higher ucb goes first, then the smaller ticket."""
    top = np.full(clusters.max() + 1, -1)
    for i in range(len(clusters)):
        j = top[clusters[i]]
        if (
            j < 0
            or score[i] > score[j]
            or (score[i] == score[j] and (ucb[i] > ucb[j] or (ucb[i] == ucb[j] and luck[i] < luck[j])))
        ):
            top[clusters[i]] = i
    return _penalised(score, penalty, top)


@compiled
def _penalised(score: FloatArray, penalty: float, top: IntArray) -> FloatArray:
    marginal = score - penalty
    for i in top:
        if i >= 0:
            marginal[i] = score[i]
    return marginal


@compiled
def _replace_smallest(heap: FloatArray, value: float) -> None:
    size, i = len(heap), 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = value


@compiled
def _swap(key: FloatArray, owner: IntArray, clusters: IntArray, top_at: IntArray, i: int, j: int) -> None:
    key[i], key[j] = key[j], key[i]
    owner[i], owner[j] = owner[j], owner[i]
    a, b = clusters[owner[i]], clusters[owner[j]]
    a_leads, b_leads = top_at[a] == j, top_at[b] == i
    if a_leads:
        top_at[a] = i
    if b_leads:
        top_at[b] = j


@compiled
def _sift_up(key: FloatArray, owner: IntArray, clusters: IntArray, top_at: IntArray, i: int) -> None:
    while i > 0 and key[i] < key[(i - 1) // 2]:
        _swap(key, owner, clusters, top_at, i, (i - 1) // 2)
        i = (i - 1) // 2


@compiled
def _sift_down(key: FloatArray, owner: IntArray, clusters: IntArray, top_at: IntArray, size: int, i: int) -> None:
    while True:
        child = 2 * i + 1
        if child >= size:
            return
        if child + 1 < size and key[child + 1] < key[child]:
            child += 1
        if key[child] >= key[i]:
            return
        _swap(key, owner, clusters, top_at, i, child)
        i = child
