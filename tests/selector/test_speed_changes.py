"""Clients that become slower or faster: how soon it is noticed, and what it costs where nothing changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pausefl.errors import StateFileError
from pausefl.rng import stream
from pausefl.selector import Selector
from pausefl.selector.cohort import Cohort
from pausefl.sim.latency import two_groups
from pausefl.studies.measured.regret import play_bandit

CLIENTS, PER_ROUND, TAU = 30, 5, 0.05
MEMORY = 120  # 20 * CLIENTS / PER_ROUND


def bandit(seed: int, memory: int | None) -> Selector:
    return Selector(np.ones(CLIENTS), PER_ROUND, alpha=0.0, gamma=0.0, tau_min=TAU, seed=seed, memory=memory)


def drifting(seed: int, memory: int | None, rounds: int, slow: range) -> np.ndarray:
    """How often the three fastest clients are picked in each round, if they take 20 times as long in some rounds."""
    network, sel = two_groups(CLIENTS, TAU), bandit(seed, memory)
    three = np.argsort(network.expected())[:3].tolist()
    counts = np.zeros(rounds + 1, dtype=int)
    for number in range(1, rounds + 1):
        chosen = sel.select().members
        seconds = network.sample(stream(seed, "latency", number)).copy()
        if number in slow:
            seconds[three] *= 20.0
        counts[number] = len({*three} & {*chosen})
        sel.observe({client: float(seconds[client]) for client in chosen})
    return counts


@pytest.mark.parametrize("seed", [0, 1])
def test_clients_that_become_slower_are_left_and_found_again_when_they_are_fast(seed: int) -> None:
    """Without memory they are picked about 600 more times in the same 1,500 rounds."""
    assert drifting(seed, MEMORY, 2000, range(501, 2001))[501:].sum() <= 60
    back = drifting(seed, MEMORY, 1400, range(301, 801))
    assert back[801 + 300 :].mean() > 2.5  # nearly all three, in nearly every round


@pytest.mark.parametrize("seed", [0, 1])
def test_memory_costs_nothing_where_nothing_changes(seed: int) -> None:
    """Regret at most 10 % above that without memory; it was equal, since no alarm was raised."""
    with_it, without = (
        sum(one.expected_regret for one in play_bandit(sel, two_groups(CLIENTS, TAU), 1000, seed, TAU))
        for sel in (bandit(seed, MEMORY), bandit(seed, None))
    )
    assert with_it <= 1.1 * without


def test_false_alarms_are_rare() -> None:
    """200,000 normal answers: about 3 alarms are expected, more than 12 with a chance below 1 in 10,000."""
    cohort, rng, alarms = Cohort(np.ones(1000)), np.random.default_rng(0), 0
    rows = np.arange(1000)
    for number in range(1, 211):
        before = cohort.timings.copy()
        means = cohort.rate.copy()
        rate = rng.normal(1.0, 0.2, 1000).clip(0.1)
        cohort.observe(rows, 1.0 / rate, number=number, memory=1000)
        expected = means + (rate - means) / (before + 1)
        alarms += int((np.abs(cohort.rate - expected) > 1e-9).sum())
    assert alarms <= 12


def answers(cohort: Cohort, seconds: float, count: int, start: int, memory: int = 50) -> int:
    for number in range(start + 1, start + count + 1):
        cohort.observe(np.array([0]), np.array([seconds]), number=number, memory=memory)
    return start + count


def test_four_answers_change_the_mean_and_what_it_is_worth() -> None:
    cohort = Cohort([1.0])
    at = answers(cohort, 0.1, 40, 0)
    at = answers(cohort, 2.0, 3, at)
    assert cohort.seconds[0] < 0.3  # one outlier, or three, are no change
    at = answers(cohort, 2.0, 1, at)
    assert (cohort.seconds[0], cohort.rate[0], cohort.timings[0]) == (pytest.approx(2.0), pytest.approx(0.5), 44)
    answers(cohort, 0.1, 4, at)
    assert (cohort.seconds[0], cohort.rate[0], cohort.timings[0]) == (pytest.approx(0.1), pytest.approx(10.0), 4)


def test_one_fast_answer_is_enough_after_a_long_time() -> None:
    cohort = Cohort([1.0])
    at = answers(cohort, 2.0, 40, 0)
    answers(cohort, 0.1, 1, at + 60)
    assert (cohort.seconds[0], cohort.timings[0]) == (pytest.approx(0.1), 1)
    slow = Cohort([1.0])
    at = answers(slow, 0.1, 40, 0)
    answers(slow, 2.0, 1, at + 60)
    assert slow.timings[0] == 41 and slow.seconds[0] < 0.2


def test_who_was_not_picked_for_long_is_tried_again() -> None:
    sel = Selector(dict.fromkeys("abc", 1), 1, alpha=0.0, gamma=0.0, tau_min=0.05, memory=10)
    rounds: dict[str, list[int]] = {name: [] for name in "abc"}
    for _ in range(200):
        chosen = sel.select()
        rounds[str(chosen.members[0])].append(chosen.round)
        sel.observe({client: {"a": 0.05, "b": 5.0, "c": 5.0}[str(client)] for client in chosen})
    assert max(np.diff(rounds["b"])) <= 13 and max(np.diff(rounds["c"])) <= 13
    assert np.isinf(sel.problem().terms().ucb).sum() <= 2


def test_memory_continues_to_the_bit_and_another_is_refused(tmp_path: Path) -> None:
    def play(sel: Selector, rounds: range) -> list[tuple]:
        seen = []
        for number in rounds:
            chosen = sel.select().members
            sel.observe({c: 0.1 + 0.02 * c + (2.0 if number > 60 and c < 2 else 0.0) for c in chosen})
            seen.append(chosen)
        return seen

    made = {"sizes": np.ones(6), "per_round": 2, "alpha": 0.0, "memory": 30}
    wanted = play(Selector(**made), range(120))
    broken = Selector(**made)
    first = play(broken, range(64))
    broken.save(tmp_path / "state")
    again = Selector.load(tmp_path / "state")
    assert first + play(again, range(64, 120)) == wanted
    with pytest.raises(StateFileError, match="its memory is 30, but here it is None"):
        Selector(**made | {"memory": None}).restore(*broken.state())


@pytest.mark.filterwarnings("error")
def test_what_provisional_timings_varied_by_is_forgotten_with_them() -> None:
    cohort, rng = Cohort([1.0]), np.random.default_rng(0)
    row = np.array([0])
    for number in range(1, 13):
        cold = np.array([True])
        cohort.observe(row, rng.uniform(0.2, 20.0, 1), number=number, memory=MEMORY, provisional=cold)
    assert cohort.column("spread")[0] > 1.0
    for number in range(13, 25):
        cohort.observe(row, np.array([1.0]), number=number, memory=MEMORY)
    assert cohort.timings.tolist() == [12]
    assert cohort.column("spread").tolist() == [0.0]
    for number in range(25, 31):
        cohort.observe(row, np.array([2.0]), number=number, memory=MEMORY)
    assert cohort.rate.tolist() == [0.5]
