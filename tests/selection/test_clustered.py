"""Clustered sampling is unbiased: a client is drawn m·n_i/n times on average, whatever the binning."""

import numpy as np
import pytest

from pausefl.rng import number_keys, stream, tickets
from pausefl.selection import Candidates, ClusteredBySimilarity, ClusteredBySize, Objective, Policy


def candidates(sizes: np.ndarray, m: int, number: int) -> Candidates:
    count = len(sizes)
    return Candidates(
        objective=Objective(np.ones(count), np.zeros(count), m),
        rows=np.arange(count),
        all_ids=range(count),
        columns={"sizes": lambda: sizes},
        set_range=205.0,
        round_number=number,
        tickets=lambda at: tickets(0, "t", number, number_keys(0, count)[at]),
        stream=lambda purpose: stream(0, purpose, number),
    )


def draws(policy: Policy, sizes: np.ndarray, m: int, rounds: int) -> np.ndarray:
    times = np.zeros(len(sizes))
    for number in range(rounds):
        members, weights = policy.pick(candidates(sizes, m, number))
        times[members] += weights * m
    return times


@pytest.mark.parametrize("similarity", [False, True])
@pytest.mark.parametrize("sizes", ["equal", "skewed", "giant"])
def test_expected_draws_are_the_data_shares(similarity: bool, sizes: str) -> None:
    weights = {"equal": np.ones(11), "skewed": np.arange(1.0, 12.0), "giant": np.r_[60.0, np.ones(10)]}[sizes]
    policy: Policy = ClusteredBySimilarity() if similarity else ClusteredBySize()
    rng = np.random.default_rng(0)
    policy.learn(np.arange(8), rng.normal(size=(8, 5)))
    m, rounds = 4, 3000
    times = draws(policy, weights, m, rounds)
    wanted = rounds * m * weights / weights.sum()
    # Each count is a sum of independent draws with variance at most its mean; 5 standard deviations for each of 11
    # clients raise a false alarm in fewer than 1 of 100,000 runs.
    assert (np.abs(times - wanted) <= 5 * np.sqrt(wanted)).all()
    assert times.sum() == pytest.approx(rounds * m)


def test_alike_clients_do_not_train_together() -> None:
    # Three kinds of clients, three bins: every round must have one of each.
    kinds = np.repeat(np.eye(3), 4, axis=0)
    policy = ClusteredBySimilarity()
    policy.learn(np.arange(12), kinds + 0.01 * np.random.default_rng(0).normal(size=(12, 3)))
    for number in range(50):
        members, _ = policy.pick(candidates(np.ones(12), 3, number))
        assert sorted((members // 4).tolist()) == [0, 1, 2]


def test_long_updates_are_remembered_as_a_sketch_that_keeps_angles() -> None:
    policy = ClusteredBySimilarity()
    rng = np.random.default_rng(0)
    base = rng.normal(size=20_000)
    policy.learn(np.arange(3), np.stack([base, base + 0.1 * rng.normal(size=20_000), rng.normal(size=20_000)]))
    a, b, c = (policy.sketches[k] for k in range(3))

    def cosine(x: np.ndarray, y: np.ndarray) -> float:
        return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))

    assert len(a) == 512
    assert cosine(a, b) > 0.98
    assert abs(cosine(a, c)) < 0.25  # standard deviation 1/sqrt(512) = 0.044
