"""TiFL, Alg. 2 by hand."""

from collections.abc import Callable

import numpy as np
import pytest

from pausefl.errors import InvalidValueError
from pausefl.selection import Candidates, TiFL

SECONDS = [4.0, 9.0, 1.0, 7.0, 2.0, 10.0, 3.0, 6.0, 5.0, 8.0]
TIERS = [{2, 4}, {6, 0}, {8, 7}, {3, 9}, {1, 5}]
"""The positions of the two fastest, the next two, …"""


def test_tifl_a_round_is_one_tier_without_replacement(round_of: Callable[..., Candidates]) -> None:
    """FLGo draws with replacement: a client could be drawn twice, and a tier of two clients would not be a round."""
    seen = [set(TiFL(adaptive=False).pick(round_of(2, n, mean_seconds=SECONDS)).tolist()) for n in range(1, 200)]
    assert all(members in TIERS for members in seen)
    for tier in TIERS:
        # Equal probabilities: 199/5 each, within 5 standard deviations.
        assert abs(seen.count(tier) - 199 / 5) < 5 * np.sqrt(199 * 0.2 * 0.8)


def test_tifl_change_probs_by_hand(round_of: Callable[..., Candidates]) -> None:
    # Accuracies of the tiers 0.9, 0.5, 0.7, 0.6, 0.8: worst first 5/15, 4/15, …
    accuracy = np.empty(10)
    for tier, value in zip(TIERS, (0.9, 0.5, 0.7, 0.6, 0.8), strict=True):
        accuracy[list(tier)] = value
    policy = TiFL()
    for number in range(1, 10):
        one = round_of(2, number, mean_seconds=SECONDS, sizes=np.ones(10), accuracy=accuracy)
        policy.played(one, policy.pick(one))
        assert policy.state()["probabilities"] == pytest.approx([0.2] * 5)
    one = round_of(2, 10, mean_seconds=SECONDS, sizes=np.ones(10), accuracy=accuracy)
    policy.played(one, policy.pick(one))
    assert policy.state()["probabilities"] == pytest.approx([1 / 15, 5 / 15, 3 / 15, 4 / 15, 2 / 15])


@pytest.mark.parametrize(("gain", "changes"), [(0.05, False), (0.0, True), (-0.05, True)])
def test_tifl_alg_2_line_4_probabilities_change_only_if_accuracy_has_not_risen(
    round_of: Callable[..., Candidates], gain: float, changes: bool
) -> None:
    policy = TiFL(tiers=2, interval=1)
    first, second = np.array([0.5, 0.6]), np.array([0.6, 0.5])
    one = round_of(1, 1, mean_seconds=[1.0, 2.0], sizes=np.ones(2), accuracy=first)
    policy.played(one, policy.pick(one))
    assert policy.state()["probabilities"] == pytest.approx([2 / 3, 1 / 3])
    # Both tiers change by the same, so it does not matter which of them is played; only their order is turned round.
    policy.before = second - gain
    one = round_of(1, 2, mean_seconds=[1.0, 2.0], sizes=np.ones(2), accuracy=second)
    policy.played(one, policy.pick(one))
    assert policy.state()["probabilities"] == pytest.approx([1 / 3, 2 / 3] if changes else [2 / 3, 1 / 3])


def test_tifl_accuracy_of_a_tier_is_weighted_by_data(round_of: Callable[..., Candidates]) -> None:
    # (30·0.2 + 10·0.6)/40 = 0.3 for the first tier; only one client of the second told: 0.25.
    policy = TiFL(tiers=2, interval=1)
    one = round_of(
        2, 1, mean_seconds=[1.0, 1.5, 2.0, 2.5], sizes=[30.0, 10.0, 5.0, 5.0], accuracy=[0.2, 0.6, 0.25, np.nan]
    )
    policy.played(one, policy.pick(one))
    assert policy.state()["before"] == pytest.approx([0.3, 0.25])
    assert policy.state()["probabilities"] == pytest.approx([1 / 3, 2 / 3])


def test_tifl_alg_2_line_8_a_tier_without_credits_is_not_drawn(round_of: Callable[..., Candidates]) -> None:
    policy = TiFL(tiers=2, credits=3, adaptive=False)
    counts = [0, 0]
    for number in range(1, 7):
        one = round_of(1, number, mean_seconds=[1.0, 2.0])
        chosen = policy.pick(one)
        counts[int(chosen[0])] += 1
        policy.played(one, chosen)
    assert counts == [3, 3]
    assert policy.state()["left"].tolist() == [0.0, 0.0]
    assert len(policy.pick(round_of(1, 7, mean_seconds=[1.0, 2.0]))) == 1  # the paper would not end


def test_tifl_small_tiers_are_filled_from_the_next_faster_and_then_the_next_slower(
    round_of: Callable[..., Candidates],
) -> None:
    seen = {frozenset(TiFL(adaptive=False).pick(round_of(3, n, mean_seconds=SECONDS)).tolist()) for n in range(1, 300)}
    for members in seen:
        tier = max(t for t, tier in enumerate(TIERS) if tier <= members)
        other = members - TIERS[tier]
        assert other <= TIERS[tier - 1 if tier else 1]
    assert len(seen) == 2 * 5


def test_tifl_clients_that_were_never_timed_go_first(round_of: Callable[..., Candidates]) -> None:
    one = round_of(2, mean_seconds=[1.0, np.nan, 2.0, np.nan, np.nan])
    assert set(TiFL().pick(one).tolist()) < {1, 3, 4}
    two = round_of(3, mean_seconds=[1.0, np.nan, 2.0, np.nan])
    assert {1, 3} < set(TiFL().pick(two).tolist())
    assert TiFL().inclusion(one) == pytest.approx([0.0, 2 / 3, 0.0, 2 / 3, 2 / 3])
    assert TiFL().inclusion(two) == pytest.approx([0.5, 1.0, 0.5, 1.0])


def test_tifl_chances_by_hand(round_of: Callable[..., Candidates]) -> None:
    policy = TiFL(tiers=2, adaptive=False)
    assert policy.inclusion(round_of(1, mean_seconds=[1.0, 2.0, 3.0, 4.0])) == pytest.approx([0.25] * 4)
    # Whole tiers of two, and one of the other two: 1/2 + 1/2 · 1/2.
    assert policy.inclusion(round_of(3, mean_seconds=[1.0, 2.0, 3.0, 4.0])) == pytest.approx([0.75] * 4)
    policy.probabilities = np.array([0.8, 0.2])
    assert policy.inclusion(round_of(1, mean_seconds=[1.0, 2.0, 3.0, 4.0])) == pytest.approx([0.4, 0.4, 0.1, 0.1])


def test_tifl_the_static_kind_needs_no_accuracy() -> None:
    assert TiFL(adaptive=False).needs == {"latency"}
    assert TiFL(adaptive=False).signals == ()
    assert TiFL().signals == ("accuracy",)


@pytest.mark.parametrize("option", [{"tiers": 0}, {"interval": 2.5}, {"credits": 0}, {"adaptive": 1}])
def test_a_wrong_option_is_refused(option: dict) -> None:
    with pytest.raises(InvalidValueError, match=f"{next(iter(option))} is .*, but must be"):
        TiFL(**option)
