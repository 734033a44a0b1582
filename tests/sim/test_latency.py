import numpy as np
import pytest

from pausefl.errors import InvalidValueError
from pausefl.sim.latency import FlooredNormal, two_groups


def test_expectations_match_sampling() -> None:
    network = two_groups(10)
    rng = np.random.default_rng(0)
    drawn = np.stack([network.sample(rng) for _ in range(40_000)])
    assert drawn.min() >= 0.05
    # 5 standard errors per client and statistic: a false alarm in fewer than 1 of 50,000 runs.
    assert np.abs(drawn.mean(axis=0) - network.expected()).max() < 5 * 0.05 / 200
    speed = 0.05 / drawn
    error = speed.std(axis=0) / 200
    assert (np.abs(speed.mean(axis=0) - network.mean_speed(0.05)) < 5 * error).all()


def test_the_published_network() -> None:
    means = two_groups(30).means
    assert means[0] == pytest.approx(0.06)
    assert means[14] == pytest.approx(0.2)
    assert means[15] == pytest.approx(0.7 + 0.2 / 15)
    assert means[29] == pytest.approx(0.9)


def test_bad_networks_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="clients is 1"):
        two_groups(1)
    with pytest.raises(InvalidValueError, match="std"):
        FlooredNormal(np.ones(2), std=0.0, floor=0.1)
