"""Drift, jams and late joiners: functions of (seed, round), with the shares and durations that were asked for."""

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pausefl.errors import InvalidValueError
from pausefl.rng import stream
from pausefl.sim.disturbances import Drift, Jams, LateJoiners

SEEDS, ROUNDS = st.integers(0, 1000), st.integers(0, 200)


@given(
    start=st.integers(1, 100), share=st.floats(0.01, 1.0), factor=st.floats(1.5, 50.0),
    clients=st.integers(1, 60), seed=SEEDS, number=ROUNDS,
)  # fmt: skip
def test_drift(start: int, share: float, factor: float, clients: int, seed: int, number: int) -> None:
    slow = Drift(start, share, factor).slowdown(clients, seed, number)
    assert (slow > 1.0).sum() == (0 if number < start else max(1, round(share * clients)))
    assert set(slow.tolist()) <= {1.0, factor}
    if number >= start:  # the same clients for ever
        assert np.array_equal(slow, Drift(start, share, factor).slowdown(clients, seed, number + 77))


def test_every_client_may_drift() -> None:
    hit = sum(Drift(1, 0.1, 2.0).slowdown(30, seed, 1) > 1.0 for seed in range(2000))
    # Binomial(2000, 0.1): five standard errors are 67; a false alarm for any of 30 clients in 1 of 50,000 runs.
    assert np.abs(hit - 200).max() < 67


@given(
    probability=st.floats(0.0, 1.0), rounds=st.integers(1, 6), labels=st.lists(st.integers(0, 4), min_size=1),
    seed=SEEDS, number=ROUNDS,
)  # fmt: skip
def test_a_link_is_jammed_while_one_of_its_jams_lasts(
    probability: float, rounds: int, labels: list[int], seed: int, number: int
) -> None:
    clusters = np.array(labels)
    slow = Jams(probability, 3.0, rounds).slowdown(clusters, seed, number)
    begun = [stream(seed, "jams", n).random(5) < probability for n in range(number - rounds + 1, number + 1)]
    assert slow.tolist() == np.where(np.any(begun, axis=0)[clusters], 3.0, 1.0).tolist()
    order = np.random.default_rng(0).permutation(len(clusters))  # clients in another order: the same jams
    if clusters.max() == clusters[order].max():
        assert np.array_equal(Jams(probability, 3.0, rounds).slowdown(clusters[order], seed, number), slow[order])


def test_jams_are_as_frequent_and_as_long_as_they_should_be() -> None:
    jams, links = Jams(0.05, 3.0, 4), np.arange(200)
    seen = np.array([jams.slowdown(links, 0, number) > 1.0 for number in range(1, 401)])
    # Links are independent: 200 means of 400 rounds.  Five standard errors, each from the links themselves.
    shares = seen.mean(axis=0)
    assert abs(shares.mean() - (1 - 0.95**4)) < 5 * shares.std() / np.sqrt(200)
    assert abs(seen[0].mean() - (1 - 0.95**4)) < 5 * 0.39 / np.sqrt(200)  # from the first round on
    for link in seen.T:
        spells = [(jammed, len(list(spell))) for jammed, spell in groupby(link)]
        assert all(length >= 4 for jammed, length in spells[1:-1] if jammed)


@given(share=st.floats(0.01, 1.0), most=st.integers(1, 30), clients=st.integers(1, 60), seed=SEEDS)
def test_late_joiners(share: float, most: int, clients: int, seed: int) -> None:
    late = LateJoiners(share, most)
    delays = late.delays(clients, seed)
    assert (delays > 0).sum() == max(1, round(share * clients))
    assert delays.max() <= most
    for number in range(most + 3):
        assert np.array_equal(late.joined(clients, seed, number), delays < number)
    assert late.joined(clients, seed, most + 1).all()


def test_every_delay_is_as_likely() -> None:
    delays = LateJoiners(0.5, 4).delays(40_000, 0)
    counts = np.bincount(delays)
    assert counts[0] == 20_000
    assert np.abs(counts[1:] - 5000).max() < 5 * np.sqrt(20_000 * 0.25 * 0.75)  # five standard errors


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Drift(0, 0.1, 2.0), "start is 0, but must be 1 or more"),
        (lambda: Drift(1, 0.0, 2.0), "share is 0.0, but must be above 0 and at most 1"),
        (lambda: Drift(1, 0.1, 1.0), "factor is 1.0, but must be above 1"),
        (lambda: Jams(1.5, 2.0, 3), "probability is 1.5"),
        (lambda: Jams(0.5, 0.5, 3), "factor is 0.5"),
        (lambda: Jams(0.5, 2.0, 0), "rounds is 0"),
        (lambda: LateJoiners(2.0, 3), "share is 2.0"),
        (lambda: LateJoiners(0.5, 0), "most is 0"),
    ],
)
def test_bad_values_are_refused(make: object, words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        make()
