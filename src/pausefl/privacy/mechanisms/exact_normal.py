"""Normal numbers as exact reals: bits from the operating system, rejection by exact comparison, no rounding anywhere.

Reference: Karney, "Sampling exactly from the normal distribution" (2016), for the idea that a real number is given by
its first bits and that the others are drawn when somebody needs them.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from pausefl.types import FloatArray

_CELL = 1417 * 2.0**-24
"""The least height of a strip: the area under all strips, in cells, just fits into the 2^16 values of 16 bits."""
_TAIL = 18
"""Strips are a quarter wide.  From this one on they share a single cell: half of it, a quarter of it and so on."""
_COUNTS = [math.floor(math.exp(-((strip / 4.0) ** 2) / 2.0) / _CELL) + 1 for strip in range(_TAIL)]
_COUNTS[0] += 2**16 - 1 - sum(_COUNTS)
HEIGHTS: FloatArray = np.array([*(_CELL * count for count in _COUNTS), _CELL])
"""Where a strip ends above, which is not below e^(-a^2/2) anywhere in it."""
_STRIPS = np.repeat(np.arange(_TAIL + 1, dtype=np.int64), [*_COUNTS, 1])
_BLOCK = 1 << 15
"""Points at a time: they stay in the processor's cache."""
_DOUBT = 2.0**-36
"""Relative; floats err by less than 2^-41 in an exponential down to e^-700."""


def random_bits(count: int) -> int:
    """Return a uniform whole number of so many bits, a multiple of 8."""
    return int.from_bytes(os.urandom(count // 8), "little")


@dataclass(slots=True)
class Normals:
    """Exact standard normals: signs x (strip + fraction) / 4, of which the first 64 bits of the fraction are drawn.

    The other bits are independent and uniform, except those that a close decision has used up: they are in ``used``,
    by position, with the fraction's number of bits.
    """

    signs: npt.NDArray[np.int8]
    strips: npt.NDArray[np.int64]
    fractions: npt.NDArray[np.uint64]
    used: dict[int, tuple[int, int]] = field(default_factory=dict)

    def rounded(self) -> FloatArray:
        """Return them as floats."""
        values: FloatArray = _sizes(self.strips, self.fractions) * self.signs
        return values

    def whole(self, place: int, bits: int) -> int:
        """Return one as floor(4 x 2^bits x size), with its sign; what was not drawn yet is drawn now, and stays."""
        fraction, known = self.used.get(place, (int(self.fractions[place]), 64))
        if known < bits:
            fraction, known = (fraction << bits - known) | random_bits(bits - known), bits
            self.used[place] = fraction, known
        return int(self.signs[place]) * ((int(self.strips[place]) << bits) + (fraction >> known - bits))


def draw_normals(size: int) -> Normals:
    """Return exact standard normals.

    A point is thrown, uniformly, under the strips' heights; the first coordinate of those that fall under e^(-a^2/2) is
    half of a normal.  Floats decide where they surely can, and exact numbers decide the others.
    """
    found, parts = 0, []
    used: dict[int, tuple[int, int]] = {}
    while found < size:
        part, extra = _thrown(min(size - found + (size - found) // 8 + 4, _BLOCK))
        part = [values[: size - found] for values in part]
        used |= {found + place: bits for place, bits in extra.items() if place < len(part[0])}
        parts.append(part)
        found += len(part[0])
    signs, strips, fractions = (np.concatenate(values) for values in zip(*parts, strict=True))
    return Normals(signs, strips, fractions, used)


def _thrown(size: int) -> tuple[list[npt.NDArray[Any]], dict[int, tuple[int, int]]]:
    """Return the signs, strips and fractions of those of ``size`` points that fall under the curve."""
    fractions, words = np.frombuffer(os.urandom(16 * size), dtype="<u8").reshape(2, size)
    # 16 bits choose the strip, one the sign, 47 the height.
    strips = _STRIPS[words.astype(np.uint16)]
    tops = HEIGHTS[strips]
    # Always decided by falls_under, which takes the height of a strip in the tail as a cell and a number of halvings.
    tail = {place: 1 + _halvings() for place in np.flatnonzero(strips == _TAIL).tolist()}
    for place, halvings in tail.items():
        strips[place] += halvings - 1
    heights = (words >> np.uint64(17)).astype(np.float64)
    heights *= 2.0**-47
    heights *= tops
    sizes = _sizes(strips, fractions)
    curve = np.exp(-0.5 * sizes * sizes)
    under = heights < curve
    doubtful = np.flatnonzero(np.abs(heights - curve) <= _DOUBT * curve + 2.0**-47 * tops)
    used = {}
    for place in sorted({*doubtful.tolist(), *tail}):
        point = int(strips[place]), 2, int(fractions[place]), int(words[place]) >> 17
        under[place], *used[place] = falls_under(0.0, *point, 47, float(tops[place]), tail.get(place, 0))
    kept = np.flatnonzero(under)
    signs = 1 - 2 * ((words[kept] >> np.uint64(16)) & np.uint64(1)).astype(np.int8)
    places = np.searchsorted(kept, list(used)).tolist()
    extra = {new: (bits[0], bits[1]) for new, (old, bits) in zip(places, used.items(), strict=True) if under[old]}
    return [signs, strips[kept], fractions[kept]], extra


def _sizes(strips: npt.NDArray[np.int64], fractions: npt.NDArray[np.uint64]) -> FloatArray:
    sizes: FloatArray = fractions.astype(np.float64)
    sizes *= 2.0**-64
    sizes += strips
    sizes *= 0.25
    return sizes


def _halvings() -> int:
    """Return how many fair coins fall on 0 before the first 1."""
    count = 0
    while not (word := random_bits(64)):
        count += 64
    return count + (word & -word).bit_length() - 1


def falls_under(
    start: float, strip: int, scale: int, fraction: int, height: int, bits: int, top: float, halvings: int
) -> tuple[bool, int, int]:
    """Return whether a point lies under e^-(start y + y^2/2) at y = (strip + fraction) / 2^scale, for certain.

    ``fraction`` has 64 bits, and ``height`` is a share of ``top`` / 2^halvings with so many ``bits``; both get more
    bits, drawn here, until they suffice.  That height is nowhere below the curve in the strip; it may be too small for
    a float.  Returns the fraction and its number of bits, too.
    """
    known = 64
    y = (strip + fraction * 2.0**-64) * 2.0**-scale
    exponent = (start + y / 2.0) * y
    if exponent < 680.0:  # then the curve, and with it the height, is above 10^-296, which floats hold well
        highest, curve = math.ldexp(top, -halvings), math.exp(-exponent)
        share = height * 2.0**-bits * highest
        if abs(share - curve) > _DOUBT * curve + highest * 2.0**-bits:
            return share < curve, fraction, known
    while True:
        digits = (known + bits) // 3 + 30
        # All of it said, since an app in the same process may have changed the defaults.  The exponent is below
        # 10^(3 + bits of the strip): an error of its last digit is one of that many units in the result.
        exact = Context(digits + 10 + strip.bit_length(), ROUND_HALF_EVEN, MIN_EMIN, MAX_EMAX, 1, 0, [], [])
        # Decimal's functions round correctly (a power up to one unit), and only a handful of them follow each other: a
        # relative error of 10^-digits is far more than all of them make.
        slack = Decimal((0, (1,), -digits))
        low, high = (
            exact.multiply(_curve(start, (strip << known) + fraction + end, known + scale, exact), one)
            for end, one in ((1, exact.subtract(1, slack)), (0, exact.add(1, slack)))
        )
        unit = exact.divide(Decimal.from_float(top), exact.power(2, bits + halvings))
        if exact.multiply(unit, Decimal(height + 1)) < low:
            return True, fraction, known
        if exact.multiply(unit, Decimal(height)) > high:
            return False, fraction, known
        fraction, known = fraction << 64 | random_bits(64), known + 64
        height, bits = height << 64 | random_bits(64), bits + 64


def _curve(start: float, whole: int, bits: int, exact: Context) -> Decimal:
    y = exact.divide(Decimal(whole), Decimal(1 << bits))
    slope = exact.add(Decimal.from_float(start), exact.divide(y, Decimal(2)))
    return exact.exp(exact.minus(exact.multiply(slope, y)))


@dataclass(frozen=True, slots=True)
class Real:
    """A real number of which only the first bits are drawn: sign x (whole + something below 1) / 2^bits."""

    sign: int
    whole: int
    bits: int

    def longer(self, bits: int) -> Real:
        """Return it with so many more bits."""
        return Real(self.sign, (self.whole << bits) | random_bits(bits), self.bits + bits)


def draw_beyond(threshold: float) -> Real:
    """Return an exact normal given that it is at least ``threshold``, which is a multiple of 2^-40 and not negative."""
    if threshold <= 1.0:
        return _first(threshold, above=True)
    # Strips in which the curve falls to less than a half each, chosen by fair coins: t y + y^2/2 is the exponent.
    scale = math.floor(math.log2(threshold / 0.6932))
    while True:
        strip = _halvings()
        under, fraction, bits = falls_under(threshold, strip, scale, random_bits(64), random_bits(64), 64, 1.0, strip)
        if under:
            beyond = int(math.ldexp(threshold, 40)) << bits + scale - 40
            return Real(1, beyond + (strip << bits) + fraction, bits + scale)


def draw_before(threshold: float) -> Real:
    """Return an exact normal given that it is below ``threshold``, which is a multiple of 2^-40 and not negative."""
    return _first(threshold, above=False)


def _first(threshold: float, above: bool) -> Real:
    limit = int(math.ldexp(threshold, 40)) << 26
    while True:
        draws = draw_normals(16)
        for place in range(16):
            whole = draws.whole(place, 64)
            beyond = whole >= limit and bool(draws.signs[place] > 0)
            if beyond is above:
                known = draws.used.get(place, (0, 64))[1]
                return Real(int(draws.signs[place]), abs(draws.whole(place, known)), known + 2)
