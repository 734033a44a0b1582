"""Verdicts after Holm's correction: worked by hand, and laws that hold whatever the numbers."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pausefl.studies.claims.claim import Comparison, Estimate, Finding, Verdict
from pausefl.studies.claims.correction import comparisons, corrected, decided, survives

TENTHS = st.integers(-100, 100).map(lambda x: x / 10)
ESTIMATES = st.lists(st.lists(TENTHS, min_size=1, max_size=5), max_size=6)


def finding(*p_values: float | None, verdict: Verdict = "holds") -> Finding:
    return Finding.compared("s", "f", *(Comparison(verdict, p) for p in p_values))


def test_by_hand() -> None:
    """Four comparisons: 0.01 times 4, 0.015 times 3 (0.045), 0.03 times 2 (0.06), and 0.04 no less than that."""
    found = corrected([finding(0.03), finding(0.01, verdict="does not hold"), finding(0.015), finding(0.04)])
    assert [one.corrected for one in found] == ["undecided", "does not hold", "holds", "undecided"]
    assert [one.p for one in found] == pytest.approx([0.06, 0.04, 0.045, 0.06])
    assert [one.verdict for one in found] == ["holds", "does not hold", "holds", "holds"]  # the raw ones stay
    assert [survives(one) for one in found] == [False, True, True, False]
    assert comparisons(found) == 4


def test_of_several_comparisons_the_weakest_decides_that_a_claim_holds_and_the_strongest_that_it_does_not() -> None:
    [weak] = corrected([finding(0.001, 0.03)])
    assert (weak.verdict, weak.corrected, weak.p) == ("holds", "holds", 0.03)
    [lost] = corrected([finding(0.03, 0.03)])
    assert (lost.verdict, lost.corrected, lost.p) == ("holds", "undecided", 0.06)
    mixed = Finding.compared("s", "f", Comparison("holds", 0.04), Comparison("does not hold", 0.001))
    [refuted] = corrected([mixed])
    assert (refuted.verdict, refuted.corrected, refuted.p) == ("does not hold", "does not hold", 0.002)


def test_what_no_test_decided_is_neither_counted_nor_corrected() -> None:
    checked, single = Finding("s", "holds", "f"), Finding.compared("s", "f", Estimate.of([1.0]).above(0.0))
    early = replace(finding(0.9), verdict="too early", comparisons=())
    found = corrected([checked, single, early, finding(0.04)])
    assert found[:3] == [checked, single, early]
    assert (found[3].corrected, found[3].p) == ("holds", 0.04)
    assert [decided(one) for one in found] == [False, False, False, True]
    assert comparisons(found) == 1


def test_no_spread_decides_at_any_level_and_two_seeds_that_agree_at_none() -> None:
    assert Estimate.of([1.0, 1.0, 1.0]).above(0.0) == Comparison("holds", 0.0)
    assert Estimate.of([1.0, 1.0, 1.0]).above(1.0) == Comparison("does not hold", 0.0)
    assert Estimate.of([1.0, 1.0]).above(0.0) == Comparison("undecided", 1.0)


@given(st.lists(TENTHS, min_size=2, max_size=6), TENTHS)
def test_an_interval_decides_exactly_where_its_p_value_is_below_a_twentieth(values: list[float], bound: float) -> None:
    estimate = Estimate.of(values)
    for comparison in (estimate.above(bound), estimate.below(bound), estimate.within(bound)):
        assert comparison.p is not None
        assume(abs(comparison.p - 0.05) > 1e-9)
        assert (comparison.verdict != "undecided") == (comparison.p < 0.05)


@given(ESTIMATES)
def test_a_correction_only_ever_makes_a_verdict_undecided(seeds: list[list[float]]) -> None:
    raw = [Finding.compared("s", "f", Estimate.of(values).above(0.0)) for values in seeds]
    found = corrected(raw)
    for before, after in zip(raw, found, strict=True):
        assert (after.study, after.verdict, after.figure) == (before.study, before.verdict, before.figure)
        assert after.corrected in (None, "undecided", before.verdict)
        assert after.p is None or after.p >= (before.comparisons[0].p or 0.0)
    alone = [corrected([one])[0] for one in raw]
    assert all(one.corrected in (None, one.verdict) for one in alone)  # a family of one needs no correction
