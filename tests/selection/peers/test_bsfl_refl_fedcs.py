"""BSFL, REFL and FedCS, by hand."""

from collections.abc import Callable

import numpy as np
import pytest

from pausefl.errors import InvalidValueError
from pausefl.privacy import Geometric
from pausefl.selection import Candidates, FedCS, Refl
from pausefl.selection.peers import BanditScheduling
from pausefl.selector import Selector


def test_bsfl_round_by_hand(round_of: Callable[..., Candidates]) -> None:
    # min ucb + sum: {0,1} 0.5 + 0.1, {0,2} 0.2 + 1.0, {1,2} 0.2 + 1.1.
    one = round_of(2, ucb=np.array([0.9, 0.5, 0.2]), generalization=[0.0, 0.1, 1.0])
    assert sorted(BanditScheduling().pick(one).tolist()) == [1, 2]


def test_bsfl_is_pause_with_gamma_0_whatever_the_selectors_gamma() -> None:
    seen = []
    for policy, gamma in (("bsfl", 50.0), ("pause", 0.0), ("pause", 50.0)):
        sel = Selector(np.arange(1.0, 11.0), 3, policy, gamma=gamma, schedule=Geometric(40.0, 0.04), tau_min=0.05)
        seen.append([])
        for _ in range(25):
            chosen = sel.select().members
            sel.observe({client: 0.1 + 0.05 * client for client in chosen})
            seen[-1].append(chosen)
    assert seen[0] == seen[1] != seen[2]


def test_refl_the_least_available_go_first(round_of: Callable[..., Candidates]) -> None:
    forecast = [0.9, 0.2, 0.5, 0.2]
    assert sorted(Refl().pick(round_of(2, forecast=forecast)).tolist()) == [1, 3]
    assert sorted(Refl().pick(round_of(3, forecast=forecast)).tolist()) == [1, 2, 3]
    assert Refl().inclusion(round_of(1, forecast=forecast)) == pytest.approx([0.0, 0.5, 0.0, 0.5])
    assert Refl().inclusion(round_of(3, forecast=forecast)) == pytest.approx([0.0, 1.0, 1.0, 1.0])


def test_refl_whoever_comes_back_is_chosen_at_once() -> None:
    sel = Selector([1.0] * 6, per_round=2, policy="refl")
    for _ in range(5):
        sel.observe(dict.fromkeys(sel.select([0, 1, 2, 3]).members, 0.1))
    assert sel.select().members == (4, 5)


def test_fedcs_greedy_takes_the_fastest_within_the_deadline(round_of: Callable[..., Candidates]) -> None:
    one = round_of(4, mean_seconds=[3.0, 1.0, 5.0, 2.0, 4.0])
    assert FedCS(deadline=3.0, pool=5).pick(one).tolist() == [1, 3, 0]
    assert FedCS(deadline=10.0, pool=5).pick(one).tolist() == [1, 3, 0, 4]
    assert FedCS(deadline=0.5, pool=5).pick(one).tolist() == [1]  # a round needs somebody
    assert FedCS(pool=5).pick(one).tolist() == [1, 3, 0]  # the median is 3


def test_fedcs_asks_a_random_pool_of_m(round_of: Callable[..., Candidates]) -> None:
    rounds = [round_of(2, n, mean_seconds=[1.0, 2.0, 3.0, 4.0]) for n in range(1, 200)]
    chosen = [sorted(FedCS(deadline=9.0).pick(one).tolist()) for one in rounds]
    assert len({tuple(members) for members in chosen}) == 6  # every pair
    late = [FedCS(deadline=2.0).pick(one).tolist() for one in rounds]
    assert {len(members) for members in late} == {1, 2}


def test_fedcs_a_client_never_timed_counts_as_in_time(round_of: Callable[..., Candidates]) -> None:
    one = round_of(3, mean_seconds=[3.0, np.nan, 5.0])
    assert FedCS(deadline=2.0).pick(one).tolist() == [1]
    nobody_timed = round_of(2, mean_seconds=[np.nan, np.nan, np.nan])
    assert len(FedCS().pick(nobody_timed)) == 2


def test_fedcs_through_the_selector_may_choose_fewer() -> None:
    sel = Selector([1.0] * 4, per_round=4, policy=FedCS(deadline=0.5), prior=[0.1, 0.4, 0.6, 2.0])
    chosen = sel.select()
    assert chosen.members == (0, 1)
    assert chosen.weights is None


@pytest.mark.parametrize("option", [{"deadline": 0.0}, {"deadline": float("inf")}, {"pool": 0}])
def test_a_wrong_option_is_refused(option: dict) -> None:
    with pytest.raises(InvalidValueError, match=f"{next(iter(option))} is .*; None takes"):
        FedCS(**option)
