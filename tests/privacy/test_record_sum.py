"""One record never moves the sum by more than its clip allows: exactly, whatever the other records are."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pausefl.errors import InvalidValueError
from pausefl.privacy import Gaussian, Laplace, Layers, SecureNoise, SimulatedNoise
from pausefl.privacy.mechanisms import record_sum
from pausefl.privacy.mechanisms.record_sum import RecordSum, clipped_sum

RECORD = Gaussian(l2=1.0, delta=1e-5, unit="record")
NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=64)


def exact_norm_squared(vector):
    return sum(Fraction(float(x)) ** 2 for x in vector)


@settings(max_examples=200)
@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=NUMBERS),
    st.integers(0, 5), st.data(), st.floats(1e-20, 1e20) | st.floats(5e-324, 1e-270),
)  # fmt: skip
def test_replacing_one_record_moves_the_sum_by_at_most_twice_the_clip(rows, place, data, bound):
    other = rows.copy()
    other[place % len(rows)] = data.draw(hnp.arrays(np.float64, rows.shape[1], elements=NUMBERS))
    sums = [clipped_sum(some, bound, len(rows)) for some in (rows, other)]
    assert np.isfinite(sums).all()
    moved = sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(*sums, strict=True))
    assert moved <= (2 * Fraction(bound)) ** 2


def test_sums_are_exact_in_any_order_and_any_blocks(monkeypatch):
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((500, 7)) * np.exp(5.0 * rng.standard_normal((500, 1)))
    whole = clipped_sum(rows, 1.0, 500)
    np.testing.assert_array_equal(clipped_sum(rows[rng.permutation(500)], 1.0, 500), whole)
    monkeypatch.setattr(record_sum, "_BLOCK", 20)
    np.testing.assert_array_equal(clipped_sum(rows, 1.0, 500), whole)
    one_by_one = RecordSum(7, 1.0, 500)
    for row in rows:
        one_by_one.add([row[np.newaxis, :3], row[np.newaxis, 3:]])
    np.testing.assert_array_equal(one_by_one.value, whole)
    with pytest.raises(InvalidValueError, match="records is 501, but must be at most 500"):
        one_by_one.add([rows[:1]])
    clipped = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    np.testing.assert_allclose(whole, clipped.sum(axis=0), rtol=1e-6)


def test_each_row_keeps_the_clip_and_its_direction():
    row = np.array([[3.0, 4.0]])
    for scale in (1e-200, 1e-3, 1.0, 1e150, 1e300):
        total = clipped_sum(row * scale, 1.0, 1)
        assert exact_norm_squared(total) <= 1
        if scale >= 1.0:
            np.testing.assert_allclose(total, [0.6, 0.8], rtol=1e-8)
    np.testing.assert_allclose(clipped_sum(row * 0.1, 1.0, 1), [0.3, 0.4], rtol=1e-8)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_long_row_keeps_the_clip_however_it_lies_in_memory(order):
    """One large number and ten million small ones: added up one after the other, the small ones would be lost."""
    rows = np.full((2, 20_000_000), 1e-8, order=order)
    rows[:, 0] = 1.0
    total = RecordSum(rows.shape[1], 0.5, 2)
    total.add([rows])
    halves = total.value / 2.0
    assert math.fsum(np.square(halves).reshape(-1, 1000).sum(axis=1)) <= 0.25 * (1.0 - 2.0**-31)


def test_a_sum_that_was_clipped_to_more_is_not_released():
    wide = Gaussian(l2=2.0, delta=1e-5, unit="record").record_sum(3, 5)
    noise = SimulatedNoise(np.random.default_rng(0))
    with pytest.raises(InvalidValueError, match="bound of the sum is 2"):
        RECORD.release_sum(wide, np.zeros(3), 1.0, noise)
    assert RECORD.release_sum(RECORD.record_sum(3, 5, clip=0.1), np.zeros(3), 1.0, noise).dimension == 3
    for call in (lambda one: one.record_sum(3, 5), lambda one: one.release_sum(wide, np.zeros(3), 1.0, noise)):
        with pytest.raises(InvalidValueError, match="'record' here"):
            call(Gaussian(l2=2.0, delta=1e-5))


@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_is_zero_and_spoils_no_other(strange):
    rows = np.array([[0.1, 0.2], [strange, 0.5]])
    np.testing.assert_allclose(clipped_sum(rows, 1.0, 2), [0.1, 0.2], rtol=1e-9)


@pytest.mark.parametrize(
    ("rows", "count", "why"),
    [
        (np.ones((3, 2)), 2, "records is 3, but must be at most 2"),
        (np.ones((3, 2)), 0, "count is 0"),
        (np.ones((3, 2)), 3.0, "count is 3.0"),
        (np.ones(3), 3, "a row per record"),
        (np.ones((3, 2), dtype=int), 3, "float32 or float64"),
        (np.ones((0, 2)), 3, "size of 'update' is 0"),
    ],
)
def test_what_is_no_table_of_records_is_refused(rows, count, why):
    with pytest.raises(InvalidValueError, match=why):
        clipped_sum(rows, 1.0, count)


def test_tensors_by_name_are_clipped_together():
    model = {"w": np.zeros((2, 2), dtype=np.float32), "b": np.zeros(1)}
    layers = Layers.of(model)
    rows = {"w": np.ones((3, 2, 2), dtype=np.float32), "b": np.full((3, 1), 10.0)}
    total = clipped_sum(rows, 1.0, 3, layers)
    np.testing.assert_allclose(total, 3.0 * np.array([1, 1, 1, 1, 10]) / math.sqrt(104.0), rtol=1e-8)
    made = RECORD.release_records(rows, 3, 1.0, SimulatedNoise(np.random.default_rng(0)), layers=layers).update
    assert {name: (tensor.shape, tensor.dtype) for name, tensor in made.items()} == {
        "w": ((2, 2), np.float32), "b": ((1,), np.float64),
    }  # fmt: skip
    with pytest.raises(InvalidValueError, match="shape of 'b'"):
        clipped_sum({**rows, "b": np.ones((2, 1))}, 1.0, 3, layers)


@pytest.mark.parametrize("noise", [SimulatedNoise(np.random.default_rng(5)), SecureNoise()], ids=lambda one: one.name)
def test_the_noise_of_a_mean_is_that_of_the_sum_over_the_count(noise):
    """With 4,000 numbers a sample deviation is off by more than 7 percent once in a billion runs."""
    made = RECORD.release_records(np.zeros((5, 4000)), 10, 2.0, noise).update
    assert float(made.std()) == pytest.approx(RECORD.sigma(2.0) / 10.0, rel=0.07)
    level = RECORD.noise_level(4000, 2.0, 10)
    assert level is not None and level.noise == pytest.approx(4000 * (RECORD.sigma(2.0) / 10.0) ** 2)


def test_a_tighter_clip_leaves_the_noise_as_it_is():
    zero, far = np.zeros((1, 3)), np.full((1, 3), 1e6)
    quiet = SimulatedNoise(np.random.default_rng(0))
    base = RECORD.release_records(zero, 1, 1.0, quiet).update
    moved = RECORD.release_records(far, 1, 1.0, SimulatedNoise(np.random.default_rng(0)), clip=0.1).update
    assert float(np.linalg.norm(moved - base)) == pytest.approx(0.1, rel=1e-6)


@pytest.mark.parametrize("clip", [1e-300, 1e-310, 5e-324])
def test_a_clip_too_tight_for_floats_leaves_nothing_of_a_record(clip):
    total = clipped_sum(np.array([[3.0, 4.0], [1.0, 0.0]]), clip, 2)
    assert total.tolist() == [0.0, 0.0]
    noise = SimulatedNoise(np.random.default_rng(0))
    assert np.isfinite(np.asarray(RECORD.release_records(np.ones((3, 2)), 3, 1.0, noise, clip=clip).update)).all()


def test_each_unit_has_its_own_way_to_release():
    noise = SimulatedNoise(np.random.default_rng(0))
    with pytest.raises(InvalidValueError, match="call release_records"):
        RECORD.release(np.zeros(2), 1.0, noise)
    with pytest.raises(InvalidValueError, match="call release"):
        Gaussian(l2=1.0, delta=1e-5).release_records(np.zeros((1, 2)), 1, 1.0, noise)
    with pytest.raises(InvalidValueError, match="use the Gaussian mechanism"):
        Laplace(unit="record", l1=1.0)


def test_the_record_of_a_release_says_what_is_protected():
    made = RECORD.release_records(np.zeros((1, 2)), 1, 1.0, SimulatedNoise(np.random.default_rng(0))).record()
    assert (made["unit"], made["adjacency"], made["whole_update_epsilon"]) == (
        "record",
        "any one record replaced",
        None,
    )


def test_a_mean_of_clipped_contributions_is_noised_like_their_sum():
    """Whoever clips: the same noise, and the same mean."""
    rng, mechanism = np.random.default_rng(3), Gaussian(l2=1.0, delta=1e-5, unit="record")
    rows = rng.standard_normal((40, 6))
    mean = (rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))).sum(axis=0) / 50
    ours, theirs = (SimulatedNoise(np.random.default_rng(4)) for _ in range(2))
    by_gate = mechanism.release_records(rows, 50, 1.0, ours).update
    by_app = mechanism.release_mean(mean, 50, 1.0, theirs)
    np.testing.assert_allclose(by_app.update, by_gate, rtol=1e-6)
    assert by_app.record()["unit"] == "record" and by_app.dimension == 6


@pytest.mark.parametrize(("clip", "norm"), [(None, 1.0), (0.25, 0.25), (7.0, 1.0)])
def test_a_mean_is_projected_on_the_ball_of_the_clip(clip, norm):
    mechanism, noise = Gaussian(l2=1.0, delta=1e-5, unit="record"), SimulatedNoise(np.random.default_rng(5))
    found = mechanism.release_mean(np.array([30.0, 40.0]), 10_000, 1e6, noise, clip=clip).update
    np.testing.assert_allclose(found, [0.6 * norm, 0.8 * norm], atol=1e-3)


def test_what_is_no_mean_is_refused():
    mechanism, noise = Gaussian(l2=1.0, delta=1e-5, unit="record"), SimulatedNoise(np.random.default_rng(6))
    for mean, count, said in (
        (np.array([np.nan]), 5, "NaN or infinity"), (np.ones(2), 0, "count is 0"), (np.ones(2), 1.5, "count is 1.5"),
        (np.ones((5, 2)), 5, "flat"),
    ):  # fmt: skip
        with pytest.raises(InvalidValueError, match=said):
            mechanism.release_mean(mean, count, 1.0, noise)
    with pytest.raises(InvalidValueError, match="'record' here"):
        Gaussian(l2=1.0, delta=1e-5).release_mean(np.ones(2), 5, 1.0, noise)
