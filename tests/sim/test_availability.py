"""Day and night: who is there by the time of day, as often as was asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pausefl.errors import InvalidValueError
from pausefl.rng import stream
from pausefl.sim.availability import Diurnal, most_swing


@given(
    probability=st.floats(0.0, 1.0), part=st.floats(0.0, 1.0), period=st.integers(2, 50),
    zone=st.floats(0.0, 1.0), first=st.integers(1, 10_000),
)  # fmt: skip
def test_a_day_has_the_mean_that_was_asked_for(
    probability: float, part: float, period: int, zone: float, first: int
) -> None:
    model = Diurnal(probability, part * most_swing(probability), period, np.array([zone]))
    day = np.array([model.chance(number) for number in range(first, first + period)])
    assert day.mean() == pytest.approx(probability, abs=1e-9)
    assert -1e-9 <= day.min() <= day.max() <= 1.0 + 1e-9
    assert np.allclose(model.chance(first), model.chance(first + period))


def test_the_long_run_share_of_every_client_and_of_every_hour() -> None:
    zones, days, period = stream(0, "time zones").random(40), 400, 12
    model = Diurnal(0.6, swing=0.3, period=period, zones=zones)
    everybody = np.ones(40, dtype=bool)
    there = np.array([model.step(everybody, stream(0, "x", n), n) for n in range(days * period)])
    # Five standard errors per number, each at most 0.5 / sqrt(count): a false alarm in fewer than 1 of 3,000 runs.
    assert np.abs(there.mean(axis=0) - 0.6).max() < 5 * 0.5 / np.sqrt(days * period)
    by_hour = there.reshape(days, period, 40).mean(axis=0)
    assert np.abs(by_hour - [model.chance(hour) for hour in range(period)]).max() < 5 * 0.5 / np.sqrt(days)
    assert np.ptp(by_hour, axis=0).min() > 0.4  # it is day and night for everybody


def test_clients_in_one_time_zone_rise_and_fall_together() -> None:
    model = Diurnal(0.5, swing=0.5, period=4, zones=np.array([0.0, 0.0, 0.5]))
    noon = model.step(np.zeros(3, dtype=bool), stream(0, "x"), 1)
    assert noon.tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"swing": 0.2}, "swing is 0.2, but must be from 0 to 0.1"),
        ({"swing": -0.1}, "swing is -0.1"),
        ({"probability": 1.5}, "probability is 1.5"),
        ({"period": 1}, "period is 1, but must be 2 rounds or more"),
        ({"zones": np.array([np.nan])}, "zones is 'NaN or infinite'"),
    ],
)
def test_days_that_cannot_be_are_refused(given_: dict, words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        Diurnal(**{"probability": 0.9, "swing": 0.1, "period": 24, "zones": np.zeros(1), **given_})
    with pytest.raises(InvalidValueError, match="zones is 1, but must be 2"):
        Diurnal(0.9, 0.1, 24, np.zeros(1)).step(np.ones(2, dtype=bool), stream(0, "x"), 1)
