"""How likely each candidate was to be chosen: against chances worked out by hand, and against what is drawn."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pausefl.selection import ActiveFL, Candidates, ClusteredBySize, Oort, Policy, PowD, Random, Refl, RPowD, TiFL


def test_random_is_m_of_k(round_of: Callable[..., Candidates]) -> None:
    assert Random().inclusion(round_of(3, sizes=np.ones(12))) == pytest.approx([0.25] * 12)


def test_clustered_by_hand(round_of: Callable[..., Candidates]) -> None:
    # Masses 1, 2/3, 1/3: the first fills a bin, the others share one.
    assert ClusteredBySize().inclusion(round_of(2, sizes=[2.0, 3.0, 1.0])) == pytest.approx([2 / 3, 1.0, 1 / 3])
    # Masses 8/9, 6/9, 4/9: the second has 1/9 in the first bin and 5/9 in the second: 1 - 8/9 · 4/9.
    chances = ClusteredBySize().inclusion(round_of(2, sizes=[4.0, 3.0, 2.0]))
    assert chances == pytest.approx([8 / 9, 49 / 81, 4 / 9])
    # Masses 1.8 and 0.2: a whole bin, and most of the other.
    assert ClusteredBySize().inclusion(round_of(2, sizes=[9.0, 1.0])) == pytest.approx([1.0, 0.2])


def test_policies_without_exact_chances_say_none(round_of: Callable[..., Candidates]) -> None:
    one = round_of(1, sizes=np.ones(2), loss=np.ones(2))
    assert PowD().inclusion(one) is None
    assert Oort().inclusion(one) is None


@pytest.mark.parametrize(
    ("policy", "m"),
    [
        (Random(), 3), (ClusteredBySize(), 3), (RPowD(d=4), 2), (ActiveFL(), 1), (ActiveFL(uniform=0.7), 3),
        (TiFL(tiers=3, adaptive=False), 2), (TiFL(tiers=3, adaptive=False), 4), (Refl(), 4),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)  # fmt: skip
def test_draws_follow_the_chances(round_of: Callable[..., Candidates], policy: Policy, m: int) -> None:
    sizes = np.arange(1.0, 9.0) if not isinstance(policy, RPowD) else np.ones(8)
    columns: dict[str, Any] = {
        "sizes": sizes,
        "loss": np.array([3.0, 1.0, np.nan, 2.0, 80.0, 40.0, 1.0, 2.0]),
        "mean_seconds": np.array([3.0, 1.0, 1.0, 2.0, 5.0, 4.0, 4.0, 2.0]),
        "forecast": np.array([0.5, 0.5, 0.5, 0.5, 0.2, 0.9, 0.9, 0.9]),
    }
    rounds, times, wanted = 3000, np.zeros(8), np.zeros(8)
    for number in range(rounds):
        one = round_of(m, number, **columns)
        chances = policy.inclusion(one)
        assert chances is not None
        wanted += chances
        choice = policy.pick(one)
        times[choice[0] if isinstance(choice, tuple) else choice] += 1
    # 5 standard deviations, of at most √(n/4), for each of 8 clients and 8 policies: 1 false alarm in 25,000 runs.
    assert (np.abs(times - wanted) <= 5 * np.sqrt(rounds / 4) * (wanted > 0)).all()
