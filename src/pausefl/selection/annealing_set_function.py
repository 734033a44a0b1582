"""The annealing chain for any function of a set: the same neighbours, but the energy is asked of the function."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pausefl.selection.annealing_compiled import (
    STRIDES,
    below,
    count_neighbours,
    lowest_after,
    neighbour,
    prepare,
    replace,
    uniform,
)
from pausefl.types import FloatArray, IntArray, KeyArray


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
