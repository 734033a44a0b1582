"""The walk of the annealer from set to set: a heap by ucb rank, O(1) neighbours, O(1) energy change, O(log m) moves.

Clients are named by their rank in rising ucb (ties in one fixed order), so ``heap[0]`` is the slowest member, every
client below it is an outsider, and the minimum ucb of any neighbour is known without a search.  ``walk`` is compiled;
``walk_any`` asks a Python function of the set instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import uint64

from pausefl.selection.exact_sweep import compiled
from pausefl.types import FloatArray, IntArray, KeyArray

# Strides for walking through all neighbours once: a prime above their number is coprime to it.
STRIDES = np.array([2305843009213693951, 2305843009213693921, 2305843009213693907, 2305843009213693723])


@compiled
def walk(
    ucb: FloatArray,
    score: FloatArray,
    clusters: IntArray,
    collision: float,
    heap: IntArray,
    best: IntArray,
    best_energy: float,
    first: int,
    steps: int,
    scale: float,
    tailored: bool,
    exhaust: bool,
    random: KeyArray,
) -> tuple[float, int, bool]:
    """Walk at most ``steps`` steps from the set in ``heap`` (changed in place); keep the best set in ``best``.

    ``ucb`` rises and is finite; ``first`` numbers the first step, so that a walk may be made in pieces.  With
    ``exhaust`` the neighbours of a set are tried without repetition (each still uniform by itself), and the walk ends
    when all were refused.  Returns the best energy, the steps taken and whether the walk ended stuck.
    """
    count = len(ucb)
    outside, where, crowd = prepare(heap, clusters, count)
    energy = ucb[heap[0]]
    for k in heap:
        energy += score[k]
    for n in crowd:
        energy -= collision * max(0, n - 1)
    improved = energy > best_energy
    neighbours = count_neighbours(heap, count, tailored)
    at, stride, tried = below(random, neighbours), STRIDES[below(random, 4)] % neighbours, 0
    for j in range(first, first + steps):
        if exhaust:
            if tried == neighbours:
                if improved:
                    best[:] = heap
                    best_energy = energy
                return best_energy, j - first, True
            at = (at + stride) % neighbours
            tried += 1
        else:
            at = below(random, neighbours)
        slot, new = neighbour(heap, outside, tailored, at)
        old = heap[slot]
        change = ucb[lowest_after(heap, slot, new)] - ucb[heap[0]] + score[new] - score[old]
        if collision > 0.0 and clusters[new] != clusters[old]:
            change += collision * ((crowd[clusters[old]] > 1) - (crowd[clusters[new]] > 0))
        # PAUSE, Alg. 3 with the sign of its exponent mended: always up, down with probability exp(change / tau_j).
        if change < 0.0:
            if improved:
                # The best set is copied when it may be left, not at each of the many steps that lead up to it.
                best[:] = heap
                best_energy = energy
                improved = False
            if uniform(random) >= np.exp(change * np.log(1.0 + j) / scale):
                continue
        energy += change
        improved = energy > best_energy
        crowd[clusters[old]] -= 1
        crowd[clusters[new]] += 1
        place = where[new]
        outside[place] = old
        where[old] = place
        replace(heap, slot, new)
        neighbours = count_neighbours(heap, count, tailored)
        at, stride, tried = below(random, neighbours), STRIDES[below(random, 4)] % neighbours, 0
    if improved:
        best[:] = heap
        best_energy = energy
    return best_energy, steps, False


@compiled
def best_from(rank: int, value: FloatArray, m: int) -> IntArray:
    """Return the ranks of the m largest values, the first of which belongs to ``rank``: a start for a walk."""
    cut = np.partition(value, len(value) - m)[len(value) - m]
    chosen = np.empty(m, np.int64)
    size = 0
    for k in range(len(value)):
        if value[k] > cut:
            chosen[size] = rank + k
            size += 1
    for k in range(len(value) - 1, -1, -1):  # ties go to the faster
        if size == m:
            break
        if value[k] == cut:
            chosen[size] = rank + k
            size += 1
    return chosen


@compiled
def prepare(heap: IntArray, clusters: IntArray, count: int) -> tuple[IntArray, IntArray, IntArray]:
    """Sort the members into a heap; return the outsiders, the place of each among them, and each cluster's members."""
    heap.sort()  # a sorted array is a min-heap
    where = np.zeros(count, np.int64)
    where[heap] = -1
    outside = np.empty(count - len(heap), np.int64)
    place = 0
    for k in range(count):
        if where[k] == 0:
            outside[place] = k
            where[k] = place
            place += 1
    crowd = np.zeros(clusters.max() + 1, np.int64)
    for k in heap:
        crowd[clusters[k]] += 1
    return outside, where, crowd


@compiled
def count_neighbours(heap: IntArray, count: int, tailored: bool) -> int:
    """Return how many neighbours the set has.

    Tailored, active: the slowest member for any outsider.  Passive: any other member for one of the clients slower
    than all members, of which there are heap[0].  Vanilla: any member for any outsider.
    """
    m = len(heap)
    return (count - m) + (m - 1) * heap[0] if tailored else m * (count - m)


@compiled
def neighbour(heap: IntArray, outside: IntArray, tailored: bool, at: int) -> tuple[int, int]:
    """Return neighbour number ``at``: the place in the heap that is given up, and the client that takes it."""
    others = len(outside)
    if not tailored:
        return at // others, outside[at % others]
    if at < others:
        return 0, outside[at]
    return 1 + (at - others) // heap[0], (at - others) % heap[0]


@compiled
def lowest_after(heap: IntArray, slot: int, new: int) -> int:
    """Return the rank of the slowest member once ``new`` has taken this place."""
    if slot > 0:
        return int(min(new, heap[0]))
    lowest = new
    if len(heap) > 1:
        lowest = min(lowest, heap[1])
    if len(heap) > 2:
        lowest = min(lowest, heap[2])
    return lowest


@compiled
def replace(heap: IntArray, i: int, new: int) -> None:
    """Put ``new`` at place ``i`` and restore the heap."""
    m = len(heap)
    while i > 0 and heap[(i - 1) // 2] > new:
        heap[i] = heap[(i - 1) // 2]
        i = (i - 1) // 2
    while True:
        child = 2 * i + 1
        if child >= m:
            break
        if child + 1 < m and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= new:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = new


@compiled
def uniform(random: KeyArray) -> float:
    """Draw from [0, 1) with xoroshiro128+ (Blackman and Vigna, 2018); the state is an argument, so walks repeat."""
    a, b = random[0], random[1]
    out = a + b
    b ^= a
    random[0] = ((a << uint64(24)) | (a >> uint64(40))) ^ b ^ (b << uint64(16))
    random[1] = (b << uint64(37)) | (b >> uint64(27))
    return float((out >> uint64(11)) * 2.0**-53)


@compiled
def below(random: KeyArray, bound: int) -> int:
    """Draw a whole number from 0 … bound-1; the bias, bound / 2^53, is below what any walk could show."""
    return int(uniform(random) * bound)


def walk_any(
    rest: Callable[[IntArray], float],
    ucb: FloatArray,
    heap: IntArray,
    best: IntArray,
    best_energy: float,
    first: int,
    steps: int,
    scale: float,
    tailored: bool,
    exhaust: bool,
    random: KeyArray,
) -> tuple[float, int, bool]:
    """As the compiled walk, with ``rest`` in place of scores and clusters; one call of it per step."""
    count = len(ucb)
    outside, where, _ = prepare(heap, np.zeros(count, dtype=np.int64), count)
    energy = float(ucb[heap[0]]) + rest(heap)
    if energy > best_energy:
        best[:], best_energy = heap, energy
    neighbours, tried = count_neighbours(heap, count, tailored), 0
    at, stride = below(random, neighbours), int(STRIDES[below(random, 4)]) % neighbours
    for j in range(first, first + steps):
        if exhaust and tried == neighbours:
            return best_energy, j - first, True
        at = (at + stride) % neighbours if exhaust else below(random, neighbours)
        tried += 1
        slot, new = neighbour(heap, outside, tailored, at)
        proposal = heap.copy()
        proposal[slot] = new
        proposed = float(ucb[lowest_after(heap, slot, new)]) + rest(proposal)
        change = proposed - energy
        if change < 0.0 and uniform(random) >= math.exp(change * math.log(1.0 + j) / scale):
            continue
        place = where[new]
        outside[place], where[heap[slot]] = heap[slot], place
        replace(heap, slot, new)
        energy = proposed
        if energy > best_energy:
            best[:], best_energy = heap, energy
        neighbours, tried = count_neighbours(heap, count, tailored), 0
        at, stride = below(random, neighbours), int(STRIDES[below(random, 4)]) % neighbours
    return best_energy, steps, False
