"""Signals: how often a bit is right, how wide the noise is, and that nothing is told beyond the budget."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pausefl.errors import BudgetExceededError, InvalidValueError
from pausefl.privacy import FixedHorizon, Gaussian, Geometric, Laplace, PowerLaw, PrivUnit, Schedule, SimulatedNoise
from pausefl.privacy.ledger.price import leaked, release_price, signal_price
from pausefl.privacy.mechanisms.base import Mechanism
from pausefl.privacy.signals import Signals, wrong_of
from pausefl.privacy.zcdp import zcdp_within

DRAWS = 20_000


def noise(seed: int = 0) -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(seed))


@pytest.mark.parametrize("unit", ["coordinate", "update", "record"])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_a_bit_is_right_as_often_as_randomised_response_says(unit: str, epsilon: float) -> None:
    """20,000 draws with a fixed seed: five standard errors, one false alarm in a million seeds."""
    right = 1.0 / (1.0 + math.exp(-epsilon))
    source = noise()
    for loss, above in ((0.3, False), (2.0, True)):
        told = [Signals().release("loss", loss, epsilon, source, unit=unit, records=50) for _ in range(DRAWS)]
        top = max(told)
        assert len(set(told)) == 2
        share = np.mean([(value == top) == above for value in told])
        assert share == pytest.approx(right, abs=5.0 * math.sqrt(right * (1.0 - right) / DRAWS))


@given(st.floats(1e-6, 1e3))
def test_a_wrong_bit_is_never_rarer_than_epsilon_allows(epsilon: float) -> None:
    wrong = wrong_of(epsilon)
    assert 0 < wrong <= 2**61
    assert math.log((2**62 - wrong) / wrong) <= epsilon


@pytest.mark.parametrize(("unit", "records", "sensitivity"), [("update", 50, 4.6), ("coordinate", 50, 4.6),
                                                               ("record", 50, 4.6 / 50)])  # fmt: skip
def test_noise_is_as_wide_as_data_can_move_the_mean(unit: str, records: int, sensitivity: float) -> None:
    """The mean size of Laplace(b) is b; half of the draws are clipped on the far side, so look at the near one."""
    settled, epsilon, source = Signals(kind="noised"), 8.0, noise()
    told = [settled.release("loss", 0.0, epsilon, source, unit=unit, records=records) for _ in range(DRAWS)]
    assert min(told) == 0.0 and np.mean([value == 0.0 for value in told]) == pytest.approx(0.5, abs=0.02)
    scale = sensitivity / epsilon
    assert np.mean([value for value in told if value > 0.0]) == pytest.approx(scale, rel=0.05)  # 5 standard errors


def test_an_accuracy_has_the_bound_one() -> None:
    source = noise()
    told = [Signals(kind="noised").release("accuracy", 1.0, 8.0, source, unit="update") for _ in range(DRAWS)]
    assert max(told) == 1.0
    assert np.mean([1.0 - value for value in told if value < 1.0]) == pytest.approx(1.0 / 8.0, rel=0.05)
    for _ in range(9):
        assert Signals().release("accuracy", 0.7, 60.0, source, unit="update") == pytest.approx(0.75)


def test_the_less_a_bit_can_be_trusted_the_less_it_counts() -> None:
    gaps = []
    for epsilon in (0.01, 1.0, 10.0):
        told = {Signals().release("loss", 2.0, epsilon, noise(seed), unit="update") for seed in range(300)}
        gaps.append(max(told) - min(told) if len(told) > 1 else 2.3)
        assert all(0.0 < value < 4.6 for value in told)
    assert gaps[0] < 0.02 < gaps[1] < gaps[2] <= 2.3


def test_bare_signals_are_told_as_they_are_and_a_diverged_model_has_the_worst_loss() -> None:
    bare = Signals(kind="bare")
    assert bare.release("loss", 1.25, math.inf, noise(), unit="update") == 1.25
    assert bare.release("loss", math.nan, math.inf, noise(), unit="update") == 4.6
    assert bare.release("loss", 99.0, math.inf, noise(), unit="update") == 4.6


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "loud"}, {"share": 0.0}, {"share": 1.0}, {"bound": math.inf}, {"threshold": 4.6}, {"releases": 0}],
)
def test_what_cannot_be_is_refused(wrong: dict) -> None:
    with pytest.raises(InvalidValueError):
        Signals(**wrong).parts(Geometric(10.0, 0.1))


def test_tellings_are_those_of_a_short_horizon_or_twenty() -> None:
    assert Signals().parts(FixedHorizon(8.0, 3))[1] == FixedHorizon(8.0 - 0.8 * 8.0, 3)
    assert Signals().parts(FixedHorizon(8.0, 300))[1].releases == 20
    assert Signals().parts(PowerLaw(8.0, 2.0))[1].releases == 20
    assert Signals(releases=7).parts(FixedHorizon(8.0, 3))[1].releases == 7


SCHEDULES = st.one_of(
    st.builds(Geometric, st.floats(0.01, 1e3), st.floats(1e-3, 3.0)),
    st.builds(PowerLaw, st.floats(0.01, 1e3), st.floats(1.1, 5.0)),
    st.builds(FixedHorizon, st.floats(0.01, 1e3), st.integers(1, 30)),
)
MECHANISMS = st.sampled_from(
    [Laplace(unit="coordinate", width=1.0), Laplace(unit="update", l1=1.0), PrivUnit(l2=1.0), Gaussian(1.0, 1e-5),
     Gaussian(1.0, 1e-5, account="zcdp"), Gaussian(1.0, 1e-5, "record"), None]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(SCHEDULES, MECHANISMS, st.floats(0.01, 0.99), st.integers(1, 30), st.lists(st.booleans(), max_size=60),
       st.integers(1, 2))  # fmt: skip
def test_updates_and_signals_together_never_exceed_the_budget(
    schedule: Schedule, mechanism: Mechanism | None, share: float, tellings: int, mix: list[bool], numbers: int
) -> None:
    """Any mix of updates and signals, in any order: the sum, or the rho, stays within what the budget is worth."""
    updates, signals = Signals(share=share, releases=tellings).parts(schedule)
    made, told, rho, paid, alone = 0, 0, 0.0, 0.0, 0.0
    for update in mix:
        past = [1e-5] * min(made + told, 1)
        try:
            if update:
                price = release_price(updates, made + 1, mechanism, past, rho, "x", whole=schedule.budget)
                made += 1
            else:
                price = signal_price(
                    signals, told + 1, mechanism, past, rho, "x", whole=schedule.budget, numbers=numbers
                )
                told += 1
                alone += numbers * (price.alone**2 / 2.0 if price.rho else price.alone)
        except (BudgetExceededError, InvalidValueError):
            continue
        paid, rho = paid + price.epsilon, rho + price.rho
    assert told <= tellings
    assert paid <= schedule.budget * (1.0 + 1e-12)
    spent = float(updates.spent(made)) + float(signals.spent(told))
    assert leaked(mechanism, schedule.budget, spent)[0] <= schedule.budget
    if rho:
        assert rho <= zcdp_within(schedule.budget, 1e-5)
        assert alone <= float(signals.spent(told)) / schedule.budget * zcdp_within(schedule.budget, 1e-5)
    else:
        assert alone <= float(signals.spent(told)) * (1.0 + 1e-12)
