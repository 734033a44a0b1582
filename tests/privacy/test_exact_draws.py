"""The exact draws behind PrivUnit: laws in exact numbers, and what floats decide is what exact numbers decide.

The statistics draw fresh bits; each says how often it fails by chance.
"""

from __future__ import annotations

import math
import os

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import kstwo

from pausefl.privacy import PrivUnit, SecureNoise
from pausefl.privacy.mechanisms import exact_cap, exact_normal
from pausefl.privacy.mechanisms.exact_cap import draw_exact_cap
from pausefl.privacy.mechanisms.exact_normal import HEIGHTS, Normals, Real, draw_before, draw_beyond, falls_under

RARE = 1e-8


def distance(values, cdf):
    """Kolmogorov's distance of a sample, over the one that fresh samples exceed once in 10^8."""
    values = np.sort(values)
    below = cdf(values)
    steps = np.arange(len(values) + 1) / len(values)
    return max((steps[1:] - below).max(), (below - steps[:-1]).max()) / kstwo.isf(RARE, len(values))


def real(one) -> float:
    return one.sign * one.whole / (1 << one.bits)


def test_every_strip_covers_the_curve():
    """Rejection is exact only if the curve is nowhere above the strip: at its near end it is highest."""
    with mpmath.workdps(60):
        for strip, top in enumerate(HEIGHTS[:-1]):
            assert mpmath.mpf(top) > mpmath.exp(-((mpmath.mpf(strip) / 4) ** 2) / 2)
        for further in range(400):
            assert mpmath.mpf(HEIGHTS[-1]) / 2 ** (1 + further) > mpmath.exp(-((mpmath.mpf(18 + further) / 4) ** 2) / 2)
        # From there on for ever: a strip takes off more than a half.
        assert mpmath.exp(-mpmath.mpf(18 + 400) / 16) < mpmath.mpf(1) / 2


def test_the_strips_are_thrown_as_high_as_said():
    counts = np.bincount(exact_normal._STRIPS)
    assert counts.sum() == 2**16 and np.array_equal(counts * exact_normal._CELL, HEIGHTS)


def test_normals_are_normal():
    """A million, by Kolmogorov's distance, once in 10^8; mean, square and fourth power at 6 standard errors."""
    values = exact_normal.draw_normals(10**6).rounded()
    assert distance(values, ndtr) < 1.0
    for power, mean, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (4, 3.0, 96.0)):
        assert abs((values**power).mean() - mean) < 6.0 * math.sqrt(variance / 10**6)


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0, 1.0 + 2.0**-40, 2.5, 7.0, 31.0])
def test_a_draw_on_one_side_of_the_cut(threshold):
    """4000 draws by Kolmogorov's distance, once in 10^8; the tail in logarithms, for it may be as small as 10^-211."""
    beyond = np.array([real(draw_beyond(threshold)) for _ in range(4000)])
    with mpmath.workdps(30):
        all_of_it = mpmath.ncdf(-threshold)
        shares = np.array([float(1 - mpmath.ncdf(-value) / all_of_it) for value in beyond])
    assert distance(shares, lambda share: share) < 1.0
    before = np.array([real(draw_before(threshold)) for _ in range(4000)])
    assert distance(ndtr(before) / ndtr(threshold), lambda share: share) < 1.0
    assert beyond.min() >= threshold >= before.max()


@pytest.mark.parametrize(("start", "scale"), [(0.0, 2), (31.0, 5), (1.5, 1)])
def test_a_close_decision_is_made_in_exact_numbers(start, scale):
    """Heights next to the curve, where floats see no difference; 100 digits agree with what was decided."""
    rng = np.random.default_rng(1)
    for strip in (0, 1, 7):
        for step in (-3, -2, 0, 2, 3):
            fraction = int(rng.integers(2**63))
            with mpmath.workdps(100):

                def curve(fraction, bits, strip=strip):
                    y = (strip + mpmath.mpf(fraction) / 2**bits) / 2**scale
                    return mpmath.exp(-start * y - y * y / 2)

                height = int(curve(fraction, 64) * 2**64) + step
                under, longer, known = falls_under(start, strip, scale, fraction, height, 64, 1.0, 0)
                assert longer >> known - 64 == fraction
                if step:  # two units of 2^-64 away: the undrawn bits of height and place move it by one each at most
                    assert under is (step < 0)
                elif under:
                    assert mpmath.mpf(height) / 2**64 < curve(longer, known)


@pytest.mark.parametrize(("start", "scale", "top"), [(31.0, 5, 1.0), (0.0, 4, HEIGHTS[-1])])
@pytest.mark.parametrize("strip", [600, 1074, 1100, 1200])
def test_the_tail_is_exact_beyond_what_floats_hold(start, scale, top, strip):
    """There the height of a strip is 0 as a float, and a point was always accepted; mpmath agrees at 60 digits."""
    halvings = strip if start else strip - 17
    with mpmath.workdps(60):
        y = (strip + mpmath.mpf(5) / 2**64) / 2**scale
        share = mpmath.exp(-start * y - y * y / 2) / mpmath.mpf(float(top)) * mpmath.mpf(2) ** halvings
        # Hardly any point lies under the curve so far out: it takes this many bits of the height to be so low.
        bits = 64 + math.ceil(-mpmath.log(share, 2))
        height = int(mpmath.floor(share * mpmath.mpf(2) ** bits))
    for thousandths, wanted in ((999, True), (1001, False)):
        point = start, strip, scale, 5, height * thousandths // 1000, bits
        assert falls_under(*point, float(top), halvings)[0] is wanted


@pytest.mark.parametrize(("start", "scale"), [(31.0, 5), (0.0, 2)])
@pytest.mark.parametrize("strip", [2_000, 40_000, 3_000_000])
def test_a_high_point_in_the_far_tail_is_rejected(start, scale, strip):
    assert not falls_under(start, strip, scale, 5, 1 << 63, 64, 1.0, strip)[0]


def test_a_normal_in_the_far_tail_keeps_its_strip(monkeypatch):
    """40,000 coins in a row on 0, which 16 bits cannot count; the height's bits are 0, so that it is accepted."""
    urandom, coins = os.urandom, [0] * 625 + [1]

    def patched(amount):
        if amount == 16:  # a fraction of 0, and a word for the tail with a height of 0
            return bytes(8) + b"\xff\xff" + bytes(6)
        return coins.pop(0).to_bytes(8, "little") if coins else bytes(amount)

    monkeypatch.setattr(os, "urandom", patched)
    monkeypatch.setattr(exact_normal, "falls_under", lambda *point: (point[-1] == 40_001, point[3], 64))
    (signs, strips, _), _ = exact_normal._thrown(1)
    monkeypatch.setattr(os, "urandom", urandom)
    assert strips.tolist() == [18 + 40_000] and signs.tolist() == [1]


def test_a_part_along_the_update_may_have_any_number_of_bits(monkeypatch):
    """Close decisions make it longer; so many of them never follow each other, but a release must not fail by it."""
    monkeypatch.setattr(exact_cap, "draw_beyond", lambda threshold: Real(1, 3 << 640, 640))
    drawn = draw_exact_cap(np.array([0.0, 1.0]), 2.5, 1.0)
    assert drawn[1] == pytest.approx(3.0, abs=2.0**-20)


def test_a_zero_that_leaves_has_no_sign(monkeypatch):
    """Floats round to -0.0 or 0.0, whole numbers to 0: the sign would tell which decided.  A coarse grid has zeros."""
    monkeypatch.setattr(exact_cap, "GRID", 1)
    drawn = draw_exact_cap(np.ones(400), 1.0, 0.5)
    zeros = drawn[drawn == 0.0]
    assert len(zeros) > 10 and not np.signbit(zeros).any()


def test_bits_that_a_decision_used_stay():
    normals = Normals(np.array([-1], np.int8), np.array([3], np.int64), np.array([5], np.uint64))
    first = normals.whole(0, 192)
    assert first >> 128 == -((3 << 64) + 5) - 1 and -(-first >> 128) == -((3 << 64) + 5)
    assert normals.whole(0, 192) == first and -normals.whole(0, 128) == -first >> 64
    assert -normals.whole(0, 256) >> 64 == -first


@pytest.mark.parametrize("grid", [20, 40, 44, 50, 70])
@pytest.mark.parametrize("direction", ["flat", "axis", "random", "tiny and huge"])
def test_the_vector_is_rounded_once_and_rightly(monkeypatch, grid, direction):
    """Recomputed to 120 digits from the very bits; on the finer grids floats are in doubt often, or always."""
    d, rng, seen = 24, np.random.default_rng(7), []
    update = {
        "flat": np.ones(d), "axis": np.eye(1, d)[0], "random": rng.normal(size=d),
        "tiny and huge": rng.normal(size=d) * 10.0 ** rng.integers(-200, 100, d),
    }[direction]  # fmt: skip
    slopes = []

    class Watched(exact_cap._Slope):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            slopes.append(self)

    monkeypatch.setattr(exact_cap, "GRID", grid)
    monkeypatch.setattr(exact_cap, "_Slope", Watched)
    for _ in range(20):
        drawn = draw_exact_cap(update, 2.5, 0.75)
        slope = slopes[-1]
        x, bits = [int(value) for value in slope._x], slope._bits
        with mpmath.workdps(120):
            g = [mpmath.mpf(slope._normals.whole(place, bits)) / 2 ** (bits + 2) for place in range(d)]
            a = mpmath.mpf(slope._along.sign * slope._along.whole) / 2**slope._along.bits
            square = sum(value * value for value in x)
            dot = sum(one * other for one, other in zip(g, x, strict=True))
            for place in range(d):
                value = g[place] + (a / mpmath.sqrt(square) - dot / square) * x[place]
                found = mpmath.mpf(drawn[place]) * 2**grid
                # Half a unit, what is not drawn yet, and beyond 53 bits the float that carries it.
                slack = 2.0 ** (grid - bits + 8) + float(abs(found)) * 2.0**-53
                assert abs(value * 2**grid - found) <= 0.5 + slack
        seen.append(bits)
    # Between the two it happens now and then; on the shipped grid once in 10^10 runs of this test.
    assert {20: max(seen) == 64, 70: min(seen) > 64}.get(grid, True)


def test_an_exact_dot_is_exact():
    rng = np.random.default_rng(3)
    x = rng.integers(-(2**31), 2**31, 10_000).astype(float)
    other = rng.integers(-(2**31), 2**31, 10_000).astype(float)
    wanted = sum(int(a) * int(b) for a, b in zip(x, other, strict=True))
    assert exact_cap._exact_dot(exact_cap._halves(x), exact_cap._halves(other), 16) == wanted


def test_a_normal_beyond_what_floats_hold_is_not_lost(monkeypatch):
    """So far out that it never happens; the slow way takes over, and the sum is right."""
    normals = Normals(np.array([1, -1], np.int8), np.array([600, 2], np.int64), np.array([9, 8], np.uint64))
    monkeypatch.setattr(exact_cap, "draw_normals", lambda size: normals)
    drawn = draw_exact_cap(np.array([0.0, 1.0]), 2.5, 1.0)
    assert drawn[0] == pytest.approx(150.0) and drawn[1] >= 2.5 - 2.0**-20


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_the_vector_obeys_the_law_of_the_simulated_one(epsilon):
    """Along the update the mixture of two tails, across it plain normals; 4000 releases, each once in 10^8."""
    cap, u = PrivUnit(l2=1.0).cap(3, epsilon), np.array([2.0, -1.0, 0.5]) / math.sqrt(5.25)
    drawn = np.array([SecureNoise().cap(u * 9.0, cap.threshold, cap.inside) for _ in range(4000)])

    def mixture(values):
        below = np.minimum(ndtr(values), 1.0 - cap.tail) / (1.0 - cap.tail) * (1.0 - cap.inside)
        return below + np.maximum(cap.tail - ndtr(-values), 0.0) / cap.tail * cap.inside

    assert distance(drawn @ u, mixture) < 1.0
    across = np.array([1.0, 2.0, 0.0]) / math.sqrt(5.0)
    assert abs(across @ u) < 1e-12 and distance(drawn @ across, ndtr) < 1.0
