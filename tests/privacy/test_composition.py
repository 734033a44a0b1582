"""Composition: known values, order, and bounds that stay on the safe side."""

from __future__ import annotations

import math

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from pausefl.errors import InvalidValueError
from pausefl.privacy import FixedHorizon, Gaussian, Geometric, Laplace, PowerLaw, PrivUnit, SqliteLedger
from pausefl.privacy.composition import Event, compose, events_of


def test_the_known_value():
    schedule = Geometric(40.0, 0.04)
    found = compose([Event(schedule.epsilon(i)) for i in range(1, 51)], delta=1e-6)
    assert found.sum_epsilon == pytest.approx(34.587, abs=5e-4)
    assert found.tight_epsilon == pytest.approx(28.52, abs=5e-3)
    assert (found.method, found.epsilon, found.delta) == ("pld", found.tight_epsilon, 1e-6)


def test_one_release_is_its_epsilon():
    found = compose([Event(1.5)])
    assert found.sum_epsilon == 1.5 and found.tight_epsilon == pytest.approx(1.5, abs=1e-3)
    assert found.epsilon == min(found.sum_epsilon, found.tight_epsilon)
    assert compose([]).epsilon == 0.0


def test_a_sum_with_more_delta_than_asked_for_does_not_compete():
    event = Event(1.5, "gaussian", 1e-6)
    strict = compose([event], delta=1e-9)
    assert (strict.method, strict.delta) == ("pld", 1e-9) and strict.epsilon > 1.5
    fair = compose([event], delta=1e-6)
    assert fair.delta <= 1e-6 and fair.epsilon == pytest.approx(1.5, abs=1e-3)
    many = compose([event] * 3, delta=1e-6)
    assert many.method == "pld" and many.sum_delta == pytest.approx(3e-6)
    assert (many.epsilon, many.delta) == (many.tight_epsilon, 1e-6)


@pytest.mark.parametrize("count", [10, 100])
def test_pure_releases_against_the_binomial(count):
    """Randomised response has a privacy loss in closed form; the bound must lie above it, and close."""
    epsilon, delta = 0.3, 1e-6
    p = 1.0 / (1.0 + math.exp(-epsilon))

    def exact(total):
        loss = [(2 * k - count) * epsilon for k in range(count + 1)]
        chance = [math.comb(count, k) * p**k * (1.0 - p) ** (count - k) for k in range(count + 1)]
        return math.fsum(c * max(0.0, 1.0 - math.exp(total - x)) for c, x in zip(chance, loss, strict=True))

    low, high = 0.0, count * epsilon
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if exact(middle) <= delta else (middle, high)
    found = compose([Event(epsilon, "pure")] * count, delta=delta).tight_epsilon
    assert high - 1e-9 <= found <= high + 1e-4
    assert compose([Event(epsilon)] * count, delta=delta).tight_epsilon <= found


@pytest.mark.parametrize("schedule", [Geometric(40.0, 0.04), PowerLaw(20.0, 1.2), FixedHorizon(20.0, 60)])
def test_a_coarse_interval_only_errs_upwards(schedule):
    """Against a grid thirty times as fine, composed one by one."""
    events = [Event(schedule.epsilon(i)) for i in range(1, 41)]
    fine = None
    for event in events:
        one = pld.from_laplace_mechanism(1.0 / event.epsilon, value_discretization_interval=1e-4)
        fine = one if fine is None else fine.compose(one)
    truth = fine.get_epsilon_for_delta(1e-6)
    found = compose(events).tight_epsilon
    assert truth - 1e-3 <= found <= truth + 0.01


def test_many_tiny_releases_are_not_added_up():
    found = compose([Event(1e-4)] * 100_000)
    assert found.sum_epsilon == pytest.approx(10.0) and found.tight_epsilon < 0.5


def test_gaussian_releases():
    found = compose([Event(0.5, "gaussian", 1e-7)] * 20, delta=1e-5)
    assert found.method == "pld" and found.epsilon < 4.0 and found.sum_delta == pytest.approx(2e-6)


def test_a_ledgers_rows_become_events(tmp_path):
    ledger, schedule = SqliteLedger.create(tmp_path / "l.db"), FixedHorizon(4.0, 4)
    for i, mechanism in enumerate([Laplace(unit="update", l1=1.0), Gaussian(l2=1.0, delta=1e-6), PrivUnit(l2=1.0)]):
        ledger.reserve("a", f"{i}", schedule, mechanism=mechanism)
    events = events_of(ledger.charges("a"))
    assert [(event.kind, event.delta) for event in events] == [("laplace", 0.0), ("gaussian", 1e-6), ("pure", 0.0)]
    ledger.reserve("b", "x", schedule)
    assert events_of(ledger.charges("b")) is None


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_bad_events_are_refused(epsilon):
    with pytest.raises(InvalidValueError):
        Event(epsilon)
    with pytest.raises(InvalidValueError):
        Event(1.0, "gaussian")
    with pytest.raises(InvalidValueError):
        compose([Event(1.0)], delta=0.0)
