"""The laws of aggregation: what it is told, what the weights sum to, who weighs more, and when it is plain."""

import inspect
import logging
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pausefl.errors import InvalidValueError
from pausefl.privacy.aggregation import Aggregation, Aggregator, matched_step, matched_weights, weighted_sum
from pausefl.privacy.mechanisms.base import NoiseLevel

MATCHED = Aggregation("matched", average=0.9)
powers = st.floats(1e-12, 1e12)
rounds = st.lists(st.tuples(st.floats(1e-3, 1e6), powers), min_size=1, max_size=20)


def columns(told: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    plain, noise = np.array(told).T
    return plain, noise


@given(rounds, powers)
def test_weights_are_shares(told: list[tuple[float, float]], signal: float) -> None:
    weights = matched_weights(*columns(told), signal, 7.0)
    assert (weights >= 0.0).all()
    assert (weights / weights.sum()).sum() == pytest.approx(1.0)


@given(rounds, powers)
def test_the_louder_never_weighs_more(told: list[tuple[float, float]], signal: float) -> None:
    plain, noise = columns(told)
    worth = matched_weights(np.ones(len(plain)), noise, signal, 7.0)
    order = np.argsort(noise, kind="stable")
    assert (np.diff(worth[order]) <= 0.0).all()


@given(rounds)
def test_no_weights_give_a_smaller_error(told: list[tuple[float, float]]) -> None:
    """Releases that differ by noise and by a signal of their own: the least error of a mean is 1 / sum 1 / (n + s)."""
    _, noise = columns(told)
    weights = matched_weights(np.ones(len(noise)), noise, 3.0, 1.0)
    assert (weights / weights.sum()) ** 2 @ (noise + 3.0) == pytest.approx(1.0 / (1.0 / (noise + 3.0)).sum())


def test_noise_counts_only_where_it_is_not_small_beside_the_signal() -> None:
    noise = np.array([1.0, 100.0])
    assert matched_weights(np.ones(2), noise, 1e6, 1e3).tolist() == pytest.approx([1.0, 1.0], rel=1e-6)
    assert matched_weights(np.ones(2), noise, 1e-9, 1.0).tolist() == pytest.approx([1.0, 0.01], rel=1e-6)


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=20), powers, powers, st.integers(1, 5))
def test_equal_noise_is_plain_averaging_to_the_bit(
    plain: list[float], noise: float, signal: float, number: int
) -> None:
    weights, levels = np.array(plain), [NoiseLevel(noise, signal)] * len(plain)
    ours, theirs = Aggregator(Aggregation("matched", 0.3, 0.97)), Aggregator(Aggregation("plain", 0.3, 0.97))
    for _ in range(number):
        (a, step), (b, whole) = ours.weigh(weights, levels), theirs.weigh(weights, levels)
        assert a.tobytes() == b.tobytes() == weights.tobytes()
        assert step == whole == 0.3


@given(powers, powers, powers, powers, st.floats(1.0, 1e3))
def test_a_louder_round_never_steps_further(a: float, b: float, first: float, signal: float, memory: float) -> None:
    quiet, loud = (matched_step(noise, first, signal, memory) for noise in (min(a, b), max(a, b)))
    assert 0.0 < loud <= quiet <= 1.0
    assert matched_step(first, first, signal, memory) == 1.0


def test_in_loud_rounds_the_step_falls_as_the_noise_rises() -> None:
    near, far = (matched_step(noise, 1.0, 2.0, 10.0) for noise in (1e9, 1e12))
    assert near / far == pytest.approx(1000.0, rel=1e-6)
    assert near == pytest.approx(10.0 * 2.0 / 1e9)
    assert matched_step(19.0, 1.0, 2.0, 10.0) == 1.0  # ten rounds of signal still outgrow ten of noise


def test_nothing_but_public_numbers_comes_in() -> None:
    """The functions that decide on weights and step get no update; a level has only what its mechanism states."""
    assert list(inspect.signature(Aggregator.weigh).parameters) == ["self", "plain", "levels"]
    assert list(inspect.signature(NoiseLevel).parameters) == ["noise", "signal"]


def test_a_release_that_tells_no_noise_counts_as_the_loudest() -> None:
    aggregator = Aggregator(MATCHED)
    levels = [NoiseLevel(10.0, 1.0), None, NoiseLevel(70.0, 1.0)]  # MATCHED remembers ten rounds
    weights, _ = aggregator.weigh(np.ones(3), levels)
    assert weights.tolist() == [1.0, 0.25, 0.25]


def test_a_round_that_tells_no_noise_is_a_plain_one_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    aggregator = Aggregator(MATCHED)
    with caplog.at_level(logging.WARNING, "pausefl"):
        for _ in range(3):
            weights, step = aggregator.weigh(np.array([1.0, 3.0]), [None, None])
            assert (weights.tolist(), step) == ([1.0, 3.0], 1.0)
    assert len(caplog.records) == 1
    assert aggregator.state() == {}


def test_the_mean_of_models_begins_at_the_first_and_remembers_as_long_as_it_may() -> None:
    aggregator = Aggregator(MATCHED)
    assert aggregator.mean is None
    models = np.random.default_rng(0).normal(size=(300, 4))
    wanted = np.zeros(4)
    for number, model in enumerate(models, start=1):
        aggregator.remember(model)
        share = max(0.1, 17.0 / (number + 16.0))
        wanted = (1.0 - share) * wanted + share * model
        assert aggregator.mean == pytest.approx(wanted)
    aggregator = Aggregator(MATCHED)
    aggregator.remember(models[0])
    assert aggregator.mean is not None
    assert aggregator.mean.tolist() == models[0].tolist()


def test_without_an_average_no_mean_is_kept() -> None:
    aggregator = Aggregator(Aggregation("matched"))
    aggregator.remember(np.ones(3))
    assert aggregator.mean is None


def test_its_state_goes_on_to_the_bit() -> None:
    draws = np.random.default_rng(1)

    def play(aggregator: Aggregator, turns: int, rng: np.random.Generator) -> list[object]:
        seen: list[object] = []
        for _ in range(turns):
            levels = [NoiseLevel(float(noise), 1.0) for noise in rng.exponential(size=3) * 30.0]
            weights, step = aggregator.weigh(rng.random(3), levels)
            aggregator.remember(rng.normal(size=5))
            assert aggregator.mean is not None
            seen.append((weights.tobytes(), step, aggregator.mean.tobytes()))
        return seen

    whole = play(Aggregator(MATCHED), 12, np.random.default_rng(1))
    one = Aggregator(MATCHED)
    parts = play(one, 5, draws)
    other = Aggregator(MATCHED)
    other.restore(one.state())
    assert parts + play(other, 7, draws) == whole


@pytest.mark.parametrize(
    "wrong",
    [{"rule": "best"}, {"step": 0.0}, {"step": math.inf}, {"average": 1.0}, {"average": -0.1}, {"average": math.nan}],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict) -> None:
    with pytest.raises(InvalidValueError, match=r"aggregation|step|average"):
        Aggregation(**wrong)


@pytest.mark.parametrize("noise", [0.0, -1.0, math.nan, math.inf])
def test_a_level_is_a_finite_number_above_zero(noise: float) -> None:
    with pytest.raises(InvalidValueError, match="noise"):
        NoiseLevel(noise, 1.0)
    with pytest.raises(InvalidValueError, match="signal"):
        NoiseLevel(1.0, noise)


@pytest.mark.parametrize(("count", "length"), [(1, 1), (5, 25_818), (18, 25_600), (30, 25_819), (36, 25_818)])
def test_the_sum_of_updates_is_that_of_each_times_its_share(count: int, length: int) -> None:
    rng = np.random.default_rng(0)
    shares, updates = (rng.random(size).astype(np.float32) for size in (count, (count, length)))
    wanted = shares.astype(np.float64) @ updates.astype(np.float64)
    found = weighted_sum(shares, updates)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
