import math

import numpy as np
import pytest

from pausefl.privacy import FixedHorizon, Geometric, PowerLaw
from pausefl.rewards import LabelDiversity, Reward, budget_left, collisions, underuse, upper_confidence
from pausefl.rewards.budgets import Budgets
from pausefl.rewards.schedule_table import ScheduleTable
from pausefl.selector.cohort import Cohort


def test_ucb_by_hand() -> None:
    got = upper_confidence(np.array([0.4, 0.2, 0.0]), np.array([4, 1, 0]), rounds=7, m=5, zeta=3.0)
    assert got[0] == pytest.approx(3.0 * 0.4 + math.sqrt(6 * math.log(7) / 4))
    assert got[1] == pytest.approx(3.0 * 0.2 + math.sqrt(6 * math.log(7)))
    assert got[2] == math.inf


def test_after_one_round_the_bonus_is_zero_and_strangers_stay_infinite() -> None:
    got = upper_confidence(np.array([0.4, 0.0]), np.array([1, 0]), rounds=1, m=5)
    assert got.tolist() == [0.4, math.inf]


@pytest.mark.parametrize("beta", [1.5, 2.0, 3.0])
def test_generalization_by_hand(beta: float) -> None:
    got = underuse(np.array([0.1, 0.1]), np.array([2, 9]), rounds=10, m=5, beta=beta)
    assert got.tolist() == pytest.approx([0.3**beta, -(0.4**beta)])
    assert underuse(np.array([0.1]), np.array([0]), rounds=0, m=5, beta=beta)[0] == pytest.approx(0.5**beta)


def test_generalization_may_exceed_one_where_the_paper_says_it_cannot() -> None:
    assert underuse(np.array([0.9, 0.1]), np.zeros(2), rounds=0, m=2, beta=2.0)[0] > 1.0


@pytest.mark.parametrize("schedule", [Geometric(40.0, 0.04), PowerLaw(10.0, 1.5), FixedHorizon(8.0, 100)])
def test_privacy_left(schedule: Geometric | PowerLaw | FixedHorizon) -> None:
    picks = np.array([0, 3, 1, 60])
    wanted = [1.0 - math.fsum(schedule.epsilon(i) for i in range(1, n + 1)) / schedule.budget for n in picks]
    assert budget_left(schedule, picks).tolist() == pytest.approx(wanted, abs=1e-8)
    # Many clients go through a table; the numbers are the same.
    assert budget_left(schedule, np.tile(picks, 50))[:4].tolist() == budget_left(schedule, picks).tolist()


def test_geometric_privacy_is_an_exponential() -> None:
    assert budget_left(Geometric(7.0, 0.04), np.array([25]))[0] == pytest.approx(math.exp(-1.0), abs=1e-8)


def test_collisions() -> None:
    assert collisions(np.array([0, 0, 0, 1, 1, 2])) == 3
    assert collisions(np.array([5])) == 0


def test_diversity_prefers_complements() -> None:
    mixed = LabelDiversity({"a": [1, 0, 0], "b": [0, 1, 1], "c": [2, 0, 0]}, weight=3.0)
    assert mixed(["a", "b"]) == pytest.approx(3.0)
    assert mixed(["a", "b"]) > mixed(["b", "c"]) > mixed(["a", "c"]) == 0.0


def test_a_round_is_decided_from_the_round_before() -> None:
    cohort = Cohort(np.array([1.0, 3.0]))
    cohort.observe(np.array([0]), np.array([0.1]), floor=0.05)
    budgets = Budgets(ScheduleTable((Geometric(40.0, 0.04),)))
    reward = Reward(alpha=100.0, beta=2.0, gamma=5.0, zeta=1.0, rho=0.0, budgets=budgets, tau_min=0.05)
    speed = reward.mean_speed(cohort.rate, cohort.fastest_seen)
    terms = reward.terms(speed, cohort.shares, cohort.picks, cohort.releases, cohort.timings, rounds=1, m=1)
    assert terms.ucb.tolist() == pytest.approx([0.5, math.inf])
    assert terms.generalization.tolist() == pytest.approx([-(0.75**2), 0.75**2])
    assert terms.privacy.tolist() == pytest.approx([math.exp(-0.04), 1.0])
    assert terms.score.tolist() == pytest.approx((100 * terms.generalization + 5 * terms.privacy).tolist())
