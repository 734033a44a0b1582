import math

import numpy as np
import pytest

from pausefl.errors import InvalidValueError
from pausefl.selection import Fastest, solve_brute
from pausefl.selector import Selector
from pausefl.sim.latency import two_groups
from pausefl.studies.measured.regret import largest_gap, play_bandit, regret_bound, round_regret


def test_the_genie_is_the_best_who_knows_the_means() -> None:
    network = two_groups(8)
    sel = Selector(np.arange(1.0, 9.0), 3, tau_min=0.05)
    for _ in play_bandit(sel, network, 10, 0, 0.05):
        pass
    speeds, problem = network.mean_speed(0.05), sel.problem()
    best = solve_brute(speeds, problem.terms().score, 3)
    assert round_regret(problem, best.members, speeds, speeds).expected == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("policy", ["pause", "random"])
def test_expected_regret_is_never_negative(policy: str) -> None:
    sel = Selector(np.ones(10), 2, policy, tau_min=0.05)
    lost = [played.expected_regret for played in play_bandit(sel, two_groups(10), 60, 0, 0.05)]
    assert min(lost) >= -1e-12
    assert max(lost) > 0.0


def test_one_who_knows_has_no_regret() -> None:
    network = two_groups(10)
    sel = Selector(np.ones(10), 2, Fastest(network.expected()), tau_min=0.05, alpha=0.0, gamma=0.0)
    lost = [played.expected_regret for played in play_bandit(sel, network, 20, 0, 0.05)]
    assert max(lost) == pytest.approx(0.0, abs=1e-12)


def test_pause_loses_less_than_random_and_ever_less_per_round() -> None:
    network = two_groups(10)
    total = {}
    for policy in ("pause", "random"):
        lost = []
        for seed in range(3):
            sel = Selector(np.ones(10), 2, policy, tau_min=0.05, alpha=1.0, gamma=0.1, seed=seed)
            lost.append([p.expected_regret for p in play_bandit(sel, network, 1500, seed, 0.05)])
        total[policy] = np.mean(lost, axis=0)
    assert total["pause"].sum() < 0.8 * total["random"].sum()
    assert total["pause"][-300:].mean() < 0.75 * total["pause"][100:400].mean()


def test_only_sets_of_the_genies_size_are_compared() -> None:
    sel = Selector(np.ones(10), 2, "all", tau_min=0.05)
    with pytest.raises(InvalidValueError, match="exactly m"):
        next(play_bandit(sel, two_groups(10), 5, 0, 0.05))


def test_the_bound_by_hand() -> None:
    sel = Selector(np.ones(4), 2, alpha=10.0, gamma=3.0, tau_min=0.05)
    speeds = np.array([0.1, 0.4, 0.2, 0.8])
    problem = sel.problem()
    assert largest_gap(problem, speeds) == pytest.approx(0.7 + 10 * 2 + 3)
    n, delta = 50.0, 0.1
    wanted = 4 * (23.7 + delta) * (4 * 3 * math.log(n) / delta**2 + 1 + 2 * math.pi**2 / 3)
    assert regret_bound(np.array([n]), problem, speeds)[0] == pytest.approx(wanted)
    assert regret_bound(np.array([n]), problem, np.full(4, 0.5))[0] == math.inf


def test_the_range_includes_the_cluster_penalty_and_giants() -> None:
    sel = Selector([8.0, 1.0, 1.0], 2, alpha=10.0, gamma=0.0, clusters=[0, 0, 1], rho=0.5)
    assert largest_gap(sel.problem(), np.ones(3)) == pytest.approx(10 * (1.6**2 + 1 + 0.5))
