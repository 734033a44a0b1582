"""RBCS-F, by hand: its bound, its queues, and the set that it chooses."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

from pausefl.errors import InvalidValueError
from pausefl.selection import Candidates, RbcsF


def test_rbcs_f_bound_uses_the_inverse_of_h(round_of: Callable[..., Candidates]) -> None:
    """A widely copied implementation uses H itself: the first bound would be 1.5 - 0.1·√4 = 1.3."""
    # H = 1 + 3, θ = 6/4: 1.5 - 0.1·√(1/4); H = 1: -0.1; H = 9, θ = 8/9: 0.888889 - 0.1/3.
    one = round_of(1, mean_seconds=[2.0, np.nan, 1.0], timings=[3, 0, 8])
    assert RbcsF().lower_bound(one) == pytest.approx([1.45, -0.1, 0.8555556])


@pytest.mark.parametrize(("owed", "wanted"), [(4.0, [0, 1]), (1.0, [1, 2])])
def test_rbcs_f_round_by_hand(round_of: Callable[..., Candidates], owed: float, wanted: list[int]) -> None:
    # 5·max - Σ z for {0,1}, {0,2}, {1,2}: with z_0 = 4: 2.75, 3.25, 3.78; with z_0 = 1: 5.75, 6.25, 3.78.
    policy = RbcsF()
    policy.restore({"queues": np.array([owed, 0.5, 0.0])})
    one = round_of(2, mean_seconds=[2.0, np.nan, 1.0], timings=[3, 0, 8])
    assert sorted(policy.pick(one).tolist()) == wanted


def test_rbcs_f_sweep_is_the_best_of_all_sets(round_of: Callable[..., Candidates]) -> None:
    rng = np.random.default_rng(0)
    for number in range(30):
        seconds, queues = rng.exponential(size=9), rng.exponential(size=9) * 3
        policy = RbcsF()
        policy.restore({"queues": queues})
        one = round_of(3, number + 1, mean_seconds=seconds, timings=rng.integers(1, 9, 9))
        bound = policy.lower_bound(one)

        def cost(members: tuple[int, ...], bound: np.ndarray = bound, queues: np.ndarray = queues) -> float:
            return float(5.0 * bound[list(members)].max() - queues[list(members)].sum())

        assert cost(tuple(policy.pick(one).tolist())) == pytest.approx(min(map(cost, combinations(range(9), 3))))


def test_rbcs_f_queue_by_hand(round_of: Callable[..., Candidates]) -> None:
    policy, one = RbcsF(), round_of(1, sizes=np.ones(3))
    for member, wanted in ((0, [0.0, 0.5, 0.5]), (1, [0.5, 0.0, 1.0]), (2, [1.0, 0.5, 0.5])):
        policy.played(one, np.array([member]))
        assert policy.state()["queues"] == pytest.approx(wanted)


def test_a_wrong_option_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="ridge is 0, but must be a finite number above 0"):
        RbcsF(ridge=0)
    with pytest.raises(InvalidValueError, match=r"guarantee is 1\.5, but must be a number from 0 to 1"):
        RbcsF(guarantee=1.5)
