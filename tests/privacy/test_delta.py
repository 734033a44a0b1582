"""What docs/privacy.md says of delta: computed from the noise that the mechanism really adds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from pausefl.privacy import Gaussian, SimulatedNoise

EPSILON, DELTA = 1.0, 1e-5


def mean_and_spread(mechanism: Gaussian) -> tuple[float, float]:
    """The privacy loss of one release of two opposite updates is normal, with this mean and standard deviation."""
    noise = mechanism.release(np.zeros(100_000), EPSILON, SimulatedNoise(np.random.default_rng(0))).update
    assert np.std(np.asarray(noise)) == pytest.approx(mechanism.sigma(EPSILON), rel=0.02)
    distance = 2.0 / mechanism.sigma(EPSILON)
    return distance**2 / 2.0, distance


@pytest.mark.parametrize(("account", "times"), [("sum", 16.1), ("zcdp", 4.4)])
def test_one_release_tells_more_than_epsilon_more_often_than_delta_and_hardly_ever_twice_as_much(
    account: str, times: float
) -> None:
    mean, spread = mean_and_spread(Gaussian(l2=1.0, delta=DELTA, account=account))
    assert norm.sf(EPSILON, mean, spread) / DELTA == pytest.approx(times, rel=0.01)
    assert norm.sf(2.0 * EPSILON, mean, spread) / DELTA < 1e-6


@pytest.mark.parametrize("account", ["sum", "zcdp"])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_guess_is_right_at_most_delta_more_often_than_epsilon_alone_allows(account: str, share: float) -> None:
    """Guess the first input where the release exceeds any threshold; ``share`` of all inputs are the first."""
    mean, spread = mean_and_spread(Gaussian(l2=1.0, delta=DELTA, account=account))
    threshold = np.linspace(-8.0, 8.0, 4001)
    hit, alarm = norm.sf(threshold, spread), norm.sf(threshold)
    right = share * hit + (1.0 - share) * (1.0 - alarm)
    # The best that epsilon alone allows: hit <= e^epsilon alarm and 1 - alarm <= e^epsilon (1 - hit).
    alone = max(share, 1.0 - share)
    corner = 1.0 / (1.0 + np.exp(EPSILON))
    alone = max(alone, share * (1.0 - corner) + (1.0 - share) * (1.0 - corner))
    assert (right <= alone + DELTA).all() and mean > 0.0
