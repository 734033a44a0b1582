"""The draw behind PrivUnit: a normal vector that leans towards a direction, exact up to one rounding at the end.

The vector is V = g + b x, with normal g and the b that makes its part along x the number that was drawn for it.  As a
real vector it has the density that the proof in docs/privacy.md is about.  Everything is computed with bounds for what
is not drawn yet, and a coordinate is rounded only when its bounds agree; otherwise more bits are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pausefl.privacy.mechanisms.exact_normal import Normals, Real, draw_before, draw_beyond, draw_normals, random_bits
from pausefl.types import FloatArray

GRID = 20
"""Coordinates of the result, of about unit size, are multiples of 2^-20."""
_FINE = 31
"""The largest entry of the direction becomes 2^31: it is rounded once, before anything random happens."""
_SPAN = 1 << 12
"""So many products of numbers of 25 and of 16 bits sum to at most 2^53, and floats hold every partial sum exactly."""
_LOW = np.uint64((1 << 24) - 1)


def draw_exact_cap(direction: FloatArray, threshold: float, inside: float) -> FloatArray:
    """Return a normal vector whose part along ``direction`` is beyond ``threshold`` with probability ``inside``.

    ``direction`` has any length but zero, ``threshold`` is a multiple of 2^-40 and not negative, and ``inside`` is
    rounded down to a multiple of 2^-64.  The result is exactly distributed as the real vector, rounded to the grid.
    """
    # Divided by the largest entry first: neither huge nor tiny updates may overflow or lose their direction.
    x = np.rint(direction / float(np.abs(direction).max()) * 2.0**_FINE)
    beyond = random_bits(64) < int(math.ldexp(inside, 64))
    along = draw_beyond(threshold) if beyond else draw_before(threshold)
    normals = draw_normals(x.size)
    slope = _Slope(x, normals, along)
    values = normals.rounded()
    values += slope.rounded * x
    values *= 2.0**GRID
    whole: FloatArray = np.rint(values)
    # Three roundings of at most 2^-53 each, of numbers no larger than this one, and room for four times as much.
    error = 2.0 ** (GRID - 49) * (normals.strips.max() / 4.0 + 1.0 + abs(slope.rounded) * 2.0**_FINE)
    for place in np.flatnonzero(np.abs(np.abs(values - whole) - 0.5) <= error):
        whole[place] = slope.nearest(int(place))
    # Floats round to -0.0 or to 0.0, whole numbers to 0 only: which of them decided must not be seen.
    whole += 0.0
    whole *= 2.0**-GRID
    return whole


class _Slope:
    """The number b of V = g + b x, within bounds, and coordinates of V rounded for certain."""

    __slots__ = ("_along", "_b", "_bits", "_error", "_length", "_normals", "_point", "_size", "_x")

    def __init__(self, x: FloatArray, normals: Normals, along: Real) -> None:
        self._x, self._normals, self._along, self._bits = x, normals, along, 64
        halves = _halves(x)
        self._length, self._size = _exact_dot(halves, halves, 16), int(float(np.abs(x).sum()) * 1.001) + 1
        if normals.strips.max() < 512:
            low, middle, high = (normals.fractions >> np.uint64(shift) for shift in (0, 24, 48))
            pieces = [low & _LOW, middle & _LOW, high + (normals.strips.astype(np.uint64) << np.uint64(16))]
            self._bound(_exact_dot(pieces, [half * normals.signs for half in halves], 24))
        else:  # a normal beyond 128, which floats do not hold exactly enough
            self._bound(self._slow_dot())

    @property
    def rounded(self) -> float:
        """As a float."""
        return self._b / (1 << self._point)

    def _bound(self, dot: int) -> None:
        """Set b = a / |x| - <g, x> / |x|^2 as a whole multiple of 2^-point, and its error, from the bits drawn."""
        a = self._along
        self._point = max(self._bits, a.bits) + 96
        root = math.isqrt(self._length << 2 * self._point)
        unit = (1 << 2 * self._point - a.bits) // root + 1
        across = self._length << self._bits + 2
        self._b = a.sign * a.whole * (1 << 2 * self._point - a.bits) // root - (dot << self._point) // across
        # What is not drawn of a and of each g, and the roundings of root (relative 2^-point) and of both quotients.
        self._error = unit + (self._size << self._point) // across + 1 + 2**10

    def nearest(self, place: int) -> int:
        """Return one coordinate of V / 2^-GRID, rounded; draw more bits of all numbers while it is not certain."""
        while True:
            shift = self._point - self._bits - 2
            value = (self._normals.whole(place, self._bits) << shift) + self._b * int(self._x[place])
            error = (1 << shift) + self._error * abs(int(self._x[place]))
            low, high = ((v << GRID) + (1 << self._point - 1) >> self._point for v in (value - error, value + error))
            if low == high:
                return low
            self._bits = max(self._bits, *(bits for _, bits in self._normals.used.values()), 64) + 64
            self._along = self._along.longer(64)
            self._bound(self._slow_dot())

    def _slow_dot(self) -> int:
        return sum(self._normals.whole(place, self._bits) * int(value) for place, value in enumerate(self._x))


def _halves(x: FloatArray) -> list[FloatArray]:
    """Return whole numbers below 2^32 as two of 16 bits, lowest first, with the sign on both."""
    high = np.trunc(x * 2.0**-16)
    return [x - high * 2.0**16, high]


def _exact_dot(one: Sequence[npt.NDArray[Any]], other: Sequence[FloatArray], bits: int) -> int:
    """Return the scalar product of vectors of whole numbers, given by pieces of so many ``bits`` and of 16."""
    total = 0
    for start in range(0, other[0].size, _SPAN):
        part = slice(start, start + _SPAN)
        for i, values in enumerate(one):
            piece = values[part].astype(np.float64)
            for j, half in enumerate(other):
                total += int(piece @ half[part]) << bits * i + 16 * j
    return total
