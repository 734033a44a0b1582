"""Clips that hold exactly, the calibrations behind the mechanisms, and batch norms."""

from __future__ import annotations

import math
import os
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pausefl.errors import InvalidValueError
from pausefl.privacy import Gaussian, Laplace, Layers, PrivUnit, SecureNoise, SimulatedNoise
from pausefl.privacy.mechanisms.base import clip_norm, vector_norm
from pausefl.privacy.mechanisms.gaussian import gaussian_delta, noise_multiplier
from pausefl.privacy.mechanisms.privunit import Levels, best_levels
from pausefl.privacy.mechanisms.privunit_cap import best_cap

vectors = hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(allow_nan=False, allow_infinity=False))


@given(vectors, st.floats(1e-30, 1e30))
@settings(max_examples=200, deadline=None)
def test_a_clip_holds_in_exact_arithmetic(vector, bound):
    for order in (1, 2):
        clipped = vector.copy()
        clip_norm(clipped, order, bound)
        norm = sum(abs(Fraction(float(value))) ** order for value in clipped)
        assert norm <= Fraction(bound) ** order


@given(vectors.filter(lambda v: 0 < np.abs(v).max() < 1e100), st.floats(1e-3, 1e3))
@settings(deadline=None)
def test_a_clip_keeps_what_is_inside_and_the_direction(vector, bound):
    for order in (1, 2):
        norm = float(np.linalg.norm(vector / np.abs(vector).max(), order)) * float(np.abs(vector).max())
        clipped = vector.copy()
        clip_norm(clipped, order, bound)
        np.testing.assert_allclose(clipped, vector * min(1.0, bound / norm), rtol=1e-8, atol=1e-300)


def test_a_clip_holds_for_a_million_coordinates():
    vector = np.random.default_rng(0).normal(size=10**6)
    for order in (1, 2):
        clipped = vector.copy()
        clip_norm(clipped, order, 1.0)
        assert 1.0 - 1e-8 < math.fsum(np.abs(clipped) ** order) < 1.0


def test_a_norm_is_as_exact_in_many_dimensions_as_in_few():
    """One entry, and small ones beside it whose squares a single long sum loses: 2^-36.0 of it in these dimensions."""
    small = 2.0**-27.01
    for d in (2**16, 2**23):
        vector = np.full(d, small)
        vector[0] = 1.0
        for order in (1, 2):
            exact = 1 + (d - 1) * Fraction(small) ** order
            assert abs(Fraction(vector_norm(vector, order)) ** order / exact - 1) < Fraction(1, 2**40)


def exact_delta(epsilon, multiplier):
    with mpmath.workdps(60):
        s, e = mpmath.mpf(multiplier), mpmath.mpf(epsilon)
        return mpmath.ncdf(1 / (2 * s) - e * s) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s)


def test_the_delta_of_the_gaussian_is_never_above_its_claim():
    """The two terms of delta nearly cancel where epsilon is small: 600 pairs, half of them there, to 60 digits."""
    rng = np.random.default_rng(2)
    for low, high, largest in ((-6.0, -4.0, -7.0), (-4.0, 5.0, -1.0)):
        for epsilon, delta in 10.0 ** rng.uniform((low, -12.0), (high, largest), (300, 2)):
            epsilon, delta = max(float(epsilon), 1e-6), max(float(delta), 1e-12)
            assert exact_delta(epsilon, noise_multiplier(epsilon, delta)) <= delta, (epsilon, delta)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1.5, 4.0, 40.0, 300.0])
def test_the_gaussian_gives_its_delta_and_no_less_noise_would_do(epsilon, delta):
    multiplier = noise_multiplier(epsilon, delta)
    assert exact_delta(epsilon, multiplier) <= delta
    assert exact_delta(epsilon, multiplier * (1.0 - 1e-6)) > delta
    assert gaussian_delta(epsilon, multiplier) == pytest.approx(delta, rel=1e-5)


@pytest.mark.parametrize("dimension", [1, 2, 50, 25_818, 10**6])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.5, 1.5, 4.0, 36.0, 60.0, 200.0, 500.0])
def test_a_cap_is_exactly_private(dimension, epsilon):
    """The density beyond the cut over the one below it is e^epsilon, from below and hardly less, to 400 digits."""
    cap = best_cap(dimension, epsilon)
    assert cap.threshold >= 0.0 and cap.threshold * 2.0**40 == round(cap.threshold * 2.0**40)
    with mpmath.workdps(400):
        inside = mpmath.floor(mpmath.mpf(cap.inside) * 2**64) / 2**64  # as the coin of the secure source has it
        tail = mpmath.ncdf(-mpmath.mpf(cap.threshold))
        loss = mpmath.log(inside / tail) - mpmath.log((1 - inside) / (1 - tail))
        assert inside >= tail
    assert loss <= epsilon
    assert loss > epsilon - 1e-8 or cap.inside == 1.0 - 2.0**-20


def extreme(amount, state, urandom):
    """Bits that lead as far out as a source can get: all ones, and for a throw of points the outermost strips."""
    if amount == 96:
        state[:] = [6]
        return b"\xff" * 48 + b"\xff\xff\0\0\0\0\0\0" * 6
    if state and amount == 8:
        state[0] -= 1
        return (1 << 40 if state[0] >= 0 else 0).to_bytes(8, "little")
    return b"\xff" * amount if amount == 16 else urandom(amount)


def test_whatever_is_released_could_have_come_from_another_update(monkeypatch):
    """Pure privacy needs it.  Normals of 52 bits end at 8.21; at epsilon 60 the part along the update begins at 9.8."""
    mechanism = PrivUnit(l2=1.0)
    seen = max(mechanism.release(np.array([1.0, 0.0]), 60.0, SecureNoise()).update[0] for _ in range(50))
    state, urandom = [], os.urandom
    monkeypatch.setattr(os, "urandom", lambda amount: extreme(amount, state, urandom))
    reach = abs(mechanism.release(np.array([0.0, 1.0]), 60.0, SecureNoise()).update[0])
    assert reach > seen


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 30.0])
def test_no_other_cap_does_better(epsilon):
    from pausefl.privacy.mechanisms.privunit_cap import _moments

    others = _moments(200, epsilon, np.linspace(0.0, 14.0, 5000))[3]
    assert best_cap(200, epsilon).variance <= others.min() * (1.0 + 1e-6)


def test_the_error_of_privunit_is_what_makes_it_useful():
    """At update level Laplace pays about d^2 where PrivUnit pays d: the reason it exists."""
    d, epsilon = 25_818, 4.0
    laplace = d * 2.0 * (2.0 * math.sqrt(d) / epsilon) ** 2  # L1 clip of a vector of L2 norm 1
    assert PrivUnit(l2=1.0).error(d, epsilon) < laplace / 10_000.0


def test_privunit_in_a_thousand_dimensions():
    """Unbiased along the update and across it; 400 seeded runs, 5 standard errors (one in 1.7 million)."""
    d, runs, noise = 1000, 400, SimulatedNoise(np.random.default_rng(2))
    mechanism, u = PrivUnit(l2=3.0), np.ones(d)
    seen = np.array([mechanism.release(u, 6.0, noise).update for _ in range(runs)])
    along = seen @ u / math.sqrt(d)
    assert abs(along.mean() - 3.0) < 5.0 * along.std() / math.sqrt(runs)
    error = ((seen - 3.0 * u / math.sqrt(d)) ** 2).sum(1) / 9.0
    assert abs(error.mean() - mechanism.error(d, 6.0)) < 5.0 * error.std() / math.sqrt(runs)


@pytest.mark.parametrize("norm", ["fixed", "private"])
def test_a_zero_update_is_released_like_any_other(norm):
    noise = SimulatedNoise(np.random.default_rng(3))
    seen = np.array([PrivUnit(l2=1.0, norm=norm).release(np.zeros(3), 4.0, noise).update for _ in range(3000)])
    assert np.all(np.abs(seen.mean(0)) < 5.0 * seen.std(0) / math.sqrt(3000))
    assert np.isfinite(PrivUnit(l2=1.0, norm=norm).release(np.zeros(1), 4.0, SecureNoise()).update).all()


class Counting(SimulatedNoise):
    """Counts what is asked of it."""

    drawn = 0

    def uniform(self, size):
        Counting.drawn += size
        return super().uniform(size)


def test_a_zero_update_draws_as_much_as_any_other():
    counts = []
    for update in (np.zeros(7), np.ones(7)):
        Counting.drawn = 0
        PrivUnit(l2=1.0).release(update, 4.0, Counting(np.random.default_rng(0)))
        counts.append(Counting.drawn)
    assert counts[0] == counts[1] > 7


class Extreme(SimulatedNoise):
    """Draws what lies at the ends."""

    def uniform(self, size):
        return self.ends[:size]


@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 500.0])
def test_no_simulated_draw_is_infinitely_far_out(epsilon):
    cap, noise = best_cap(50, epsilon), Extreme(np.random.default_rng(0))
    for coin in (2.0**-54, 1.0 - 2.0**-53):
        for place in (2.0**-54, 1.0 - 2.0**-53, 1.0):
            noise.ends = np.array([coin, place])
            assert np.isfinite(noise.cap(np.ones(50), cap.threshold, cap.inside)).all()


@pytest.mark.parametrize(
    "mechanism", [PrivUnit(l2=1e30), PrivUnit(l2=1e30, norm="private"), Gaussian(l2=1e30, delta=1e-12)], ids=repr
)
def test_a_narrow_float_is_never_infinite(mechanism):
    """Noise beyond what float32 holds is cut off, after the fact and whatever the update."""
    model = {"w": np.ones((2, 40), np.float32)}
    noise = SimulatedNoise(np.random.default_rng(0))
    for _ in range(20):
        flat = mechanism.release(np.ones(80, np.float32), mechanism.least_epsilon, noise).update
        named = mechanism.release(model, mechanism.least_epsilon, noise, layers=Layers.of(model)).update["w"]
        assert flat.dtype == named.dtype == np.float32 and np.isfinite(flat).all() and np.isfinite(named).all()
    wide = mechanism.release(np.ones(80), mechanism.least_epsilon, noise).update
    assert np.isfinite(wide).all()


def test_the_gaussian_refuses_an_epsilon_whose_delta_floats_cannot_tell():
    with pytest.raises(InvalidValueError, match="between 1e-06"):
        Gaussian(l2=1.0, delta=1e-12).release(np.ones(3), 1e-7, SimulatedNoise(np.random.default_rng(0)))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("value", [0.0, 0.37, 1.0])
def test_the_private_norm_is_unbiased_and_private(epsilon, value):
    levels = best_levels(epsilon)
    noise = SimulatedNoise(np.random.default_rng(4))
    seen = np.array([levels.release(value, noise) for _ in range(4000)])
    assert abs(seen.mean() - value) <= 5.0 * seen.std() / math.sqrt(4000)
    squares = seen**2
    assert abs(squares.mean() - levels.second(value)) <= 5.0 * squares.std() / math.sqrt(4000)


@pytest.mark.parametrize("epsilon", [1e-8, 1e-3, 0.5, 1.0, 6.0, 20.0, 300.0])
def test_the_odds_of_a_level_are_exactly_private(epsilon):
    """In whole numbers, to 60 digits: true against false level, both ways, at most e^epsilon, and hardly less."""
    levels = best_levels(epsilon)
    with mpmath.workdps(60):
        odds = mpmath.mpf((2**62 - levels._lost) * levels.k) / levels._lost
        assert mpmath.log(odds) <= epsilon and -mpmath.log(odds) <= epsilon
        assert mpmath.log(odds) > min(epsilon, 20.0) - 1e-9


def test_the_number_of_levels_is_the_best():
    for epsilon in (0.5, 2.0, 6.0, 9.0):
        assert best_levels(epsilon).worst() == min(Levels(epsilon, k).worst() for k in range(1, 65))


BN = {
    "conv.weight": np.ones((2, 2), np.float32),
    "bn.weight": np.ones(2, np.float32),
    "bn.bias": np.ones(2, np.float32),
    "bn.running_mean": np.ones(2, np.float32),
    "bn.running_var": np.ones(2, np.float32),
    "bn.num_batches_tracked": np.array(7),
}


def test_batch_norm_needs_a_policy():
    with pytest.raises(InvalidValueError, match="batch_norm"):
        Layers.of(BN)
    with pytest.raises(InvalidValueError, match="batch_norm"):
        Layers.of(BN, batch_norm="ignore")
    assert Layers.of(BN, batch_norm="keep-local").released() == ["conv.weight"]
    assert Layers.of(BN, batch_norm="noise").released() == [name for name in BN if "num" not in name]
    noise = SimulatedNoise(np.random.default_rng(0))
    mechanism = Laplace(unit="update", l1=1.0)
    released = mechanism.release(BN, 1.0, noise, layers=Layers.of(BN, batch_norm="noise")).update
    assert "bn.num_batches_tracked" not in released and not np.any(released["bn.running_var"] == 1.0)
    with pytest.raises(InvalidValueError, match="counter"):
        Layers.of({"w": np.ones(2), "counter": np.array([1, 2])})
    with pytest.raises(InvalidValueError):
        Layers({"w": (2,)}, local=frozenset({"v"}))
    with pytest.raises(InvalidValueError):
        mechanism.release({"w": np.ones(2)}, 1.0, noise, layers=Layers({"w": (2,)}, local=frozenset({"w"})))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Laplace(unit="coordinate"),
        lambda: Laplace(unit="coordinate", l1=1.0),
        lambda: Laplace(unit="update", width=1.0),
        lambda: Laplace(unit="update", l1=1.0, width=1.0),
        lambda: Laplace(unit="example", l1=1.0),
        lambda: Laplace(unit="update", l1=math.nan),
        lambda: Laplace(unit="update", l1=0.0),
        lambda: Gaussian(l2=-1.0, delta=1e-6),
        lambda: Gaussian(l2=1.0, delta=0.0),
        lambda: Gaussian(l2=1.0, delta=1.0),
        lambda: Laplace(unit="coordinate", width=True),
        lambda: Laplace(unit="update", l1=True),
        lambda: Gaussian(l2=True, delta=1e-6),
        lambda: Gaussian(l2="1", delta=1e-6),
        lambda: PrivUnit(l2=True),
        lambda: PrivUnit(l2=math.inf),
        lambda: PrivUnit(l2=1.0, norm="open"),
        lambda: PrivUnit(l2=1.0, norm_share=0.1),
        lambda: PrivUnit(l2=1.0, norm="private", norm_share=1.0),
    ],
)
def test_a_mechanism_without_a_bound_is_refused(make):
    with pytest.raises(InvalidValueError):
        make()


def test_bounds_are_plain_floats():
    """A narrow float would make sensitivities narrow, too."""
    third = np.float32(1.0 / 3.0)
    share, delta = np.float32(0.1), np.float32(1e-6)
    for made, names in (
        (Laplace(unit="coordinate", width=third), ["width"]),
        (Laplace(unit="update", l1=third), ["l1"]),
        (Gaussian(l2=third, delta=delta), ["l2", "delta"]),
        (PrivUnit(l2=third, norm="private", norm_share=share), ["l2", "norm_share"]),
    ):
        assert all(type(getattr(made, name)) is float for name in names)


def test_the_secure_source_checks_the_privacy_map(monkeypatch):
    """OpenDP's own map, rounding included, must not exceed the claim: with too little noise nothing is released."""
    from pausefl.privacy.mechanisms import noise

    honest = noise._sampler
    monkeypatch.setattr(noise, "_sampler", lambda kind, size, scale, grid: honest(kind, size, scale * 0.999, grid))
    with pytest.raises(InvalidValueError, match="privacy loss"):
        Laplace(unit="update", l1=1.0).release(np.ones(3), 1.0, SecureNoise())


@pytest.fixture
def drawn_sizes(monkeypatch):
    """How many coordinates each call of OpenDP noises, on a machine of three cores."""
    from pausefl.privacy.mechanisms import noise
    from pausefl.system import threads

    sizes, honest = [], noise._sampler

    def counted(kind, size, scale, grid):
        sampler = honest(kind, size, scale, grid)
        return lambda part: sizes.append(part.size) or sampler(part)

    monkeypatch.setattr(noise, "_sampler", counted)
    monkeypatch.setattr(noise, "_loss", lambda *_: 0.0)
    for module in (noise, threads):
        monkeypatch.setattr(module, "core_count", lambda: 3)
    return sizes


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("size", [0, 1, 1000, 5001, 20_000])
def test_secure_noise_in_parts_reaches_every_coordinate_once(drawn_sizes, kind, size):
    """Variance within 8 standard errors: Laplace(1) has 2 and a fourth moment of 24, the normal one 1 and 3."""
    vector = np.full(size, 1000.0)
    getattr(SecureNoise(), kind)(vector, 1.0, 1.0, coordinates=1)
    assert sum(drawn_sizes) == size and len(drawn_sizes) == min(12, max(size // 1024, size > 0))
    assert np.all(vector != 1000.0) and len(set(vector.tolist())) == size
    variance, spread = (2.0, math.sqrt(20.0)) if kind == "laplace" else (1.0, math.sqrt(2.0))
    if size >= 1000:
        assert abs(np.mean((vector - 1000.0) ** 2) - variance) < 8.0 * spread / math.sqrt(size)


def test_a_part_that_fails_in_any_thread_releases_nothing(drawn_sizes, monkeypatch):
    from pausefl.privacy.mechanisms import noise

    def failing(kind, size, scale, grid):
        def draw(part):
            drawn_sizes.append(part.size)
            if len(drawn_sizes) > 4:
                raise OSError("lack of system entropy")
            return part

        return draw

    monkeypatch.setattr(noise, "_sampler", failing)
    with pytest.raises(OSError, match="entropy"):
        Laplace(unit="coordinate", width=1.0).release(np.zeros(20_000), 1.0, SecureNoise())


def test_uniform_numbers_stay_inside():
    for noise in (SecureNoise(), SimulatedNoise(np.random.default_rng(0))):
        u = noise.uniform(200_000)
        assert u.min() > 0.0 and u.max() < 1.0
        assert abs(u.mean() - 0.5) < 6.0 / math.sqrt(12 * 200_000)
        drawn = np.array([noise.integer(6) for _ in range(60_000)])
        assert np.all(np.abs(np.bincount(drawn, minlength=6) - 10_000) < 6.0 * math.sqrt(10_000 * 5 / 6))


def test_simulated_laplace_is_fair_at_every_size():
    """Signs come from a bit of the size: they must not depend on it (5 standard errors, seeded)."""
    drawn = np.zeros(3_000_000)
    SimulatedNoise(np.random.default_rng(5)).laplace(drawn, 1.0, 1.0, coordinates=1)
    sizes, positive = np.abs(drawn), drawn > 0
    for low, high in ((0.0, 1e-4), (1e-4, 0.01), (0.01, 0.3), (0.3, 1.0), (1.0, 3.0), (3.0, 7.5), (7.5, np.inf)):
        inside = (sizes >= low) & (sizes < high)
        expected = np.exp(-low) - np.exp(-high)
        assert abs(inside.mean() - expected) < 5 * np.sqrt(expected / len(drawn))
        assert abs(positive[inside].mean() - 0.5) < 5 * 0.5 / np.sqrt(inside.sum())
    assert abs(np.corrcoef(positive[1:], positive[:-1])[0, 1]) < 5 / np.sqrt(len(drawn))


def test_a_norm_takes_the_same_way_for_zeros_and_wakes_no_threads(monkeypatch):
    """A release of no update must not be quicker than another: it would show that training failed."""
    monkeypatch.setattr(np, "dot", lambda *_: pytest.fail("threads of BLAS spin on for some updates only"))
    squared, square = [], np.square
    monkeypatch.setattr(np, "square", lambda part: squared.append(part.size) or square(part))
    for vector in (np.zeros(200_000), np.ones(200_000)):
        assert vector_norm(vector, 2) == math.sqrt(vector.sum())
    assert squared[: len(squared) // 2] == squared[len(squared) // 2 :] and sum(squared) == 400_000
