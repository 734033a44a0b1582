"""PAUSE with weights that set themselves: its three parts by hand, and that scales do not matter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pausefl.errors import InvalidValueError
from pausefl.privacy import FixedHorizon, Geometric
from pausefl.selection import PauseAuto, solve_brute
from pausefl.selection.pause_auto import evenness, log_speed, privacy
from pausefl.selector import Selector


def seen(sel: Selector):
    problem = sel.problem()
    return problem.candidates(problem.terms(), np.arange(len(sel.cohort)))


def played(rounds: int, *, schedule=None, scale: float = 1.0, count: int = 8, m: int = 3) -> Selector:
    sel = Selector(np.arange(1.0, count + 1), m, "pause-auto", tau_min=0.01 * scale, schedule=schedule)
    for number in range(rounds):
        sel.observe({k: scale * (0.1 + 0.2 * k + 0.01 * ((number * 7 + k) % 5)) for k in sel.select()})
    return sel


def test_evenness_by_hand() -> None:
    # Shares of data 1/4, 1/4, 1/2; of picks 1/2, 1/4, 1/4.  N = 1/(1 + 1/4 + 1/8) = 8/11.
    assert evenness(np.array([1.0, 1.0, 2.0]), np.array([2, 1, 1])) == pytest.approx([-5 / 11, 3 / 11, 7 / 11])


def test_evenness_is_the_slope_of_the_data_that_were_used() -> None:
    sizes, picks = np.array([3.0, 1.0, 2.0, 4.0]), np.array([40, 10, 30, 5])

    def log_used(counts: np.ndarray) -> float:
        w, n = counts / counts.sum(), sizes / sizes.sum()
        return -float(np.log((w**2 / n).sum()))

    steps = [log_used(picks + 1e-6 * np.eye(4)[k]) - log_used(picks) for k in range(4)]
    assert evenness(sizes, picks) == pytest.approx(np.array(steps) * picks.sum() / 2e-6, rel=1e-3)


def test_privacy_by_hand() -> None:
    sel = Selector([1, 1, 1], 1, schedule=Geometric(40.0, 0.04))
    sel.report({0: 10, 1: 0, 2: 25})
    # What is left, and the next release, both fall by e^-0.04 with each release.  After 25, e^-1 is less than a half.
    assert privacy(seen(sel)) == pytest.approx([-0.4, 0.0, -1.0 + 3 * (np.log(2.0) - 1.0)], abs=1e-6)
    flat = Selector([1, 1, 1], 1, schedule=FixedHorizon(8.0, 4))
    flat.report({0: 3, 1: 0, 2: 2})
    assert privacy(seen(flat)) == pytest.approx([np.log(1 / 8), 0.0, 0.0], abs=1e-6)


def test_speed_by_hand() -> None:
    sel = Selector([1, 1, 1], 1, tau_min=0.1)
    assert np.isposinf(log_speed(seen(sel))).all()
    sel.expect({0: 0.2, 1: 0.8})
    # Before round 2 there is no bonus.  The third was never timed: it is as fast as the others on average.
    assert log_speed(seen(sel)) == pytest.approx([np.log(0.5), np.log(0.125), np.log(0.25)])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(0, 5))
def test_the_choice_is_the_best_set(rounds: int, seed: int) -> None:
    sel = played(rounds)
    sel.report({k: (seed * k) % 7 for k in range(8)})
    candidates = seen(sel)
    chosen = set(sel.select().members)
    brings = 0.25 * evenness(candidates.sizes, candidates.picks) + privacy(candidates)
    best = solve_brute(log_speed(candidates), brings / 3, 3)
    worth = float(log_speed(candidates)[list(chosen)].min() + brings[list(chosen)].sum() / 3)
    assert worth == pytest.approx(best.value)


@pytest.mark.parametrize("scale", [1e-3, 60.0])
def test_the_unit_of_time_does_not_matter(scale: float) -> None:
    one, other = played(12), played(12, scale=scale)
    assert one.cohort.picks.tolist() == other.cohort.picks.tolist()


def test_latencies_that_vary_are_noticed() -> None:
    rng = np.random.default_rng(0)
    sel = Selector(np.ones(6), 2, "pause-auto")
    assert sel.cohort.latency_spread == 1.0
    for _ in range(600):
        sel.observe({k: 0.1 * (1 + k) * float(np.exp(0.3 * rng.standard_normal())) for k in sel.select()})
    assert sel.cohort.latency_spread == pytest.approx(0.3, abs=0.04)


def test_collisions_cost_what_is_asked() -> None:
    clusters = np.array([0, 0, 1, 1])
    together = Selector(np.ones(4), 2, PauseAuto(), clusters=clusters, prior=[0.1, 0.1, 0.11, 0.12])
    apart = Selector(np.ones(4), 2, PauseAuto(collision=1.0), clusters=clusters, prior=[0.1, 0.1, 0.11, 0.12])
    assert set(together.select()) == {0, 1}
    assert len({int(clusters[k]) for k in apart.select()}) == 2
    with pytest.raises(InvalidValueError, match="collision is -1"):
        PauseAuto(collision=-1.0)
