"""What is known of latencies before the first round: a timing that is no pick, right or wrong, kept in a state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pausefl.errors import InvalidValueError, PauseError, UnknownClientError
from pausefl.privacy import FixedHorizon
from pausefl.selection import Fastest
from pausefl.selector import Selector

LATENCIES = st.lists(st.floats(0.06, 9.0), min_size=2, max_size=25, unique_by=lambda seconds: round(seconds, 6))


def rounds(sel: Selector, seconds: list[float], count: int) -> list[list[int]]:
    seen = []
    for _ in range(count):
        chosen = sel.select(allow_fewer=True)
        seen.append(sorted(chosen.members))
        sel.observe({client: seconds[client] for client in chosen})
    return seen


@settings(max_examples=60, deadline=None)
@given(LATENCIES, st.data())
def test_with_the_true_latencies_pause_is_the_fastest(seconds: list[float], data: st.DataObject) -> None:
    """Without generalization and privacy, and with speed above the bonus for being tried seldom."""
    m, plays = data.draw(st.integers(1, len(seconds))), data.draw(st.integers(1, 3))
    made = {"sizes": np.ones(len(seconds)), "per_round": m, "schedule": FixedHorizon(4.0, plays), "tau_min": 0.05}
    told = Selector(**made, alpha=0.0, gamma=0.0, zeta=1e12, prior=seconds)
    best = Selector(**made, policy=Fastest(seconds))
    count = plays * (len(seconds) // m)
    assert rounds(told, seconds, count) == rounds(best, seconds, count)


@settings(max_examples=40, deadline=None)
@given(LATENCIES, st.integers(0, 9))
def test_each_pass_over_the_clients_goes_from_fast_to_slow(seconds: list[float], seed: int) -> None:
    """With the weights of the paper and a prior, everybody has a turn before anybody has two, the fastest first."""
    count = len(seconds)
    sel = Selector(np.ones(count), 1, schedule=FixedHorizon(4.0, 2), tau_min=0.05, prior=seconds, seed=seed)
    order = np.argsort(seconds).tolist()
    assert [client for [client] in rounds(sel, seconds, count)] == order


@settings(max_examples=40, deadline=None)
@given(LATENCIES, st.floats(0.06, 9.0), st.integers(1, 30))
def test_a_wrong_prior_is_corrected(seconds: list[float], wrong: float, times: int) -> None:
    sel = Selector(np.ones(len(seconds)), len(seconds), "all", tau_min=0.05, prior=[wrong] * len(seconds))
    rounds(sel, seconds, times)
    rates = np.array([(1.0 / wrong + times / true) / (times + 1) for true in seconds])
    assert sel.cohort.rate == pytest.approx(rates)
    assert sel.cohort.timings.tolist() == [times + 1] * len(seconds)
    assert sel.cohort.picks.tolist() == sel.cohort.releases.tolist() == [times] * len(seconds)


def test_a_client_that_was_thought_slow_is_found_out() -> None:
    seconds = [0.9, 0.8, 0.1]
    sel = Selector(np.ones(3), 1, alpha=0.0, gamma=0.0, tau_min=0.05, prior=[0.1, 0.2, 0.9])
    seen = [client for [client] in rounds(sel, seconds, 400)]
    assert seen[0] == 0
    assert seen.count(2) > seen.count(1) and seen.count(2) > seen.count(0)


@settings(max_examples=30, deadline=None)
@given(LATENCIES, st.data())
def test_nothing_known_changes_nothing(seconds: list[float], data: st.DataObject) -> None:
    count = len(seconds)
    m = data.draw(st.integers(1, count))
    nothing = data.draw(st.sampled_from([{}, {0: None}, [None] * count, np.full(count, np.nan)]))
    one = Selector(np.ones(count), m, tau_min=0.05, prior=nothing)
    two = Selector(np.ones(count), m, tau_min=0.05)
    one.expect(nothing)
    assert rounds(one, seconds, 9) == rounds(two, seconds, 9)
    (header, arrays), (other, columns) = one.state(), two.state()
    assert header == other and arrays.keys() == columns.keys()
    assert all(np.array_equal(arrays[name], columns[name]) for name in arrays)


def test_whoever_is_unknown_comes_first() -> None:
    sel = Selector({"a": 1, "b": 1, "c": 1, "d": 1}, 2, tau_min=0.05, prior={"a": 0.1, "c": 0.2})
    assert set(sel.select()) == {"b", "d"}
    assert sel.problem().terms().ucb.tolist() == pytest.approx([0.5, np.inf, 0.25, np.inf])
    sel.expect({"b": 0.3, "d": 0.05})
    assert set(sel.select()) == {"a", "d"}


def test_what_is_known_of_a_newcomer(tmp_path: Path) -> None:
    sel = Selector({"a": 1, "b": 1}, 1, prior={"a": 0.5})
    sel.join({"c": 1})
    sel.expect({"c": 0.25})
    assert sel.cohort.rate.tolist() == [2.0, 0.0, 4.0]
    sel.save(tmp_path / "state")
    again = Selector.load(tmp_path / "state")
    assert again.cohort.rate.tolist() == [2.0, 0.0, 4.0]
    assert again.cohort.fastest_seen == 0.25
    Selector({"a": 1, "b": 1, "c": 1}, 1, prior={"a": 0.5}).restore(*sel.state())


def test_a_selector_with_a_prior_continues_to_the_bit(tmp_path: Path) -> None:
    seconds = [0.1, 0.2, 0.3, 0.4, 0.5]
    straight = Selector(np.ones(5), 2, prior=[0.5, 0.4, None, 0.2, 0.1], seed=3)
    broken = Selector(np.ones(5), 2, prior=[0.5, 0.4, None, 0.2, 0.1], seed=3)
    wanted, got = rounds(straight, seconds, 9), rounds(broken, seconds, 4)
    broken.save(tmp_path / "state")
    again = Selector.load(tmp_path / "state")
    assert got + rounds(again, seconds, 5) == wanted
    again.save(tmp_path / "again")
    straight.save(tmp_path / "straight")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "straight").read_bytes()


@pytest.mark.parametrize(
    ("prior", "kind", "words"),
    [
        ({"x": 0.1}, UnknownClientError, "client id is 'x'"),
        ({0: -1.0}, InvalidValueError, "latency of client 0 is -1.0"),
        ({0: np.inf}, InvalidValueError, "latency of client 0 is inf"),
        ([0.1, "soon"], InvalidValueError, "latency of client 1 is 'soon'"),
        ([0.1], InvalidValueError, "number of expected latencies is 1, but must be 2"),
        ("ab", InvalidValueError, "expected latencies are a str"),
        (0.3, InvalidValueError, "expected latencies are a float"),
    ],
)
def test_a_prior_that_makes_no_sense_is_refused(prior: object, kind: type[PauseError], words: str) -> None:
    with pytest.raises(kind, match=words):
        Selector([1, 1], 1, prior=prior)
    sel = Selector([1, 1], 1)
    with pytest.raises(kind, match=words):
        sel.expect(prior)
    assert sel.cohort.timings.tolist() == [0, 0]


def test_ten_thousand_clients_with_a_prior_need_not_all_be_tried_before_the_fast_ones() -> None:
    """Without a prior a random tenth comes in the first 100 rounds; with it the fastest tenth does."""
    count, per_round = 10_000, 10
    seconds = np.random.default_rng(0).uniform(0.1, 2.0, count)
    fast = set(np.argsort(seconds)[: 100 * per_round].tolist())
    told = Selector(np.ones(count), per_round, alpha=0.0, gamma=0.0, tau_min=0.05, prior=seconds)
    seen = [client for members in rounds(told, seconds.tolist(), 100) for client in members]
    assert set(seen) <= fast
    sure = Selector(np.ones(count), per_round, alpha=0.0, gamma=0.0, zeta=20.0, tau_min=0.05, prior=seconds)
    again = [client for members in rounds(sure, seconds.tolist(), 100) for client in members]
    assert len(set(again)) < 700  # with more weight on speed the fastest come back before the others have been tried
