"""What clients say of themselves: the fraction of their budget that is left, and how loud their next release is."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pausefl.errors import InvalidValueError, UnknownClientError
from pausefl.privacy import FixedHorizon, Geometric
from pausefl.rewards import budget_left
from pausefl.selection import Candidates, Policy
from pausefl.selector import Selector


def privacy(sel: Selector) -> list[float]:
    return sel.problem().terms().privacy.tolist()


def everybody(sel: Selector, rounds: int = 1) -> None:
    for _ in range(rounds):
        sel.observe(dict.fromkeys(sel.select(), 0.3))


@settings(max_examples=40, deadline=None)
@given(st.floats(0.001, 1.0), st.integers(0, 9), st.integers(0, 9), st.booleans())
def test_the_word_stands_and_then_falls_in_proportion(said: float, before: int, after: int, ends: bool) -> None:
    schedule = FixedHorizon(8.0, 40) if ends else Geometric(40.0, 0.04)
    sel = Selector({"a": 1.0, "b": 1.0}, 2, "all", schedule=schedule)
    everybody(sel, before)
    sel.report(left={"a": said})
    assert privacy(sel)[0] == said
    assert sel.spent()[0] == pytest.approx(schedule.budget * (1.0 - said))
    everybody(sel, after)
    guess = budget_left(schedule, np.arange(before + after + 1))
    assert privacy(sel) == pytest.approx([said * guess[before + after] / guess[before], guess[before + after]])
    sel.report(left={"a": 0.5 * said})
    assert privacy(sel)[0] == 0.5 * said
    sel.report(left={"a": math.nan})
    assert privacy(sel)[0] == guess[before + after]


def test_its_word_moves_the_choice_and_the_policy_sees_it() -> None:
    seen = []

    class Looking(Policy):
        name = "looking"

        def pick(self, candidates: Candidates) -> list[int]:
            seen.append((candidates.ids, candidates.budget_left.tolist(), candidates.noise_level.tolist()))
            return [0]

    sel = Selector({"a": 1.0, "b": 1.0, "c": 1.0}, 1, Looking())
    sel.report(left={"a": 0.25, "b": 0.0}, noise={"c": 7.5})
    sel.observe(dict.fromkeys(sel.select(), 0.3))
    sel.select()
    assert seen[0] == (["a", "c"], [0.25, 1.0], pytest.approx([math.nan, 7.5], nan_ok=True))
    paused = Selector({"a": 1.0, "b": 1.0, "c": 1.0}, 1, alpha=0.0, gamma=5.0, prior=[0.3, 0.3, 0.3])
    paused.report(left={"a": 0.25, "b": 0.5, "c": 0.1})
    assert paused.select().members == ("b",)
    assert paused.select().terms["privacy"] == 2.5


def test_whoever_has_nothing_left_is_no_candidate_until_it_says_otherwise() -> None:
    sel = Selector({"a": 1.0, "b": 1.0}, 2, "all", schedule=Geometric(40.0, 0.04))
    sel.report(left={"a": 0})
    assert sel.select().members == ("b",)
    everybody(sel)
    sel.report({"a": 0})  # a count of releases does not take it back
    assert sel.select().members == ("b",)
    sel.report(left={"a": None})
    assert sel.select().members == ("a", "b")


def test_its_word_stands_against_the_limit_for_one_release() -> None:
    sel = Selector({"a": 1.0, "b": 1.0}, 2, "all", schedule=FixedHorizon(8.0, 2))
    everybody(sel, 2)
    assert not sel.problem().solvent().any()
    sel.report(left={"a": 0.4})
    assert sel.problem().solvent().tolist() == [True, False]
    assert privacy(sel)[0] == 0.4
    everybody(sel)
    assert not sel.problem().solvent().any()
    early = Selector({"a": 1.0}, 1, schedule=FixedHorizon(8.0, 3))
    early.report(left={"a": 0.9})
    everybody(early, 3)
    assert not early.problem().solvent().any()


def test_a_corrected_count_moves_the_word_with_it() -> None:
    schedule = FixedHorizon(8.0, 8)
    sel = Selector({"a": 1.0}, 1, schedule=schedule)
    everybody(sel, 4)
    sel.report(left={"a": 0.3})
    sel.report({"a": 2})  # two of the picks were no releases
    assert privacy(sel) == [0.3]
    everybody(sel)
    left = budget_left(schedule, np.array([2, 3]))
    assert privacy(sel) == pytest.approx([0.3 * left[1] / left[0]])
    sel.report({"a": 5}, left={"a": 0.2})
    assert privacy(sel) == [0.2]


def test_noise_is_of_the_next_release_alone(tmp_path: Path) -> None:
    sel = Selector({"a": 1.0, "b": 1.0}, 1)
    sel.report(noise={"a": 3.0, "b": 4.0})
    [picked] = sel.select()
    sel.observe({})
    sel.save(tmp_path / "state")
    for one in (sel, Selector.load(tmp_path / "state")):
        known = dict(zip("ab", one.cohort.noise.tolist(), strict=True))
        assert math.isnan(known.pop(picked))
        assert list(known.values()) == [{"a": 3.0, "b": 4.0}[next(iter(known))]]
    sel.report(noise={"a": None, "b": None})
    assert "noise" not in sel.state()[1]


def test_a_loaded_selector_remembers_what_was_said(tmp_path: Path) -> None:
    def fresh() -> Selector:
        schedules = {f"c{number}": [FixedHorizon(9.0, 9), Geometric(4.0, 0.1)][number % 2] for number in range(6)}
        sel = Selector(dict.fromkeys(schedules, 1.0), 2, schedule=schedules, seed=4)
        everybody(sel, 3)
        sel.report({"c1": 4}, left={"c1": 0.5, "c2": 0.0, "c4": 0.75}, noise={"c0": 2.0, "c3": 1.0})
        sel.join({"new": 1.0}, schedules={"new": Geometric(4.0, 0.1)})
        everybody(sel, 2)
        return sel

    def rest(sel: Selector) -> list[object]:
        seen: list[object] = []
        for number in range(6):
            seen.append(sel.select())
            sel.observe(dict.fromkeys(sel.pending or (), 0.2))
            sel.report(left={"new": 0.9 - 0.1 * number})
        return seen

    straight, broken = fresh(), fresh()
    broken.save(tmp_path / "state")
    again = Selector.load(tmp_path / "state")
    assert rest(again) == rest(straight)
    again.save(tmp_path / "again")
    straight.save(tmp_path / "straight")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "straight").read_bytes()


def test_saying_nothing_changes_nothing() -> None:
    one, two = (Selector({"a": 1.0, "b": 1.0, "c": 1.0}, 1, seed=1) for _ in range(2))
    one.report(left={"a": None, "b": math.nan}, noise={"a": np.float64(np.nan)})
    one.report()
    everybody(one, 5)
    everybody(two, 5)
    (header, arrays), (other, columns) = one.state(), two.state()
    assert header == other and arrays.keys() == columns.keys()
    assert all(np.array_equal(arrays[name], columns[name]) for name in arrays)


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (
            {"left": {"a": 1.5}},
            InvalidValueError,
            "fraction left of client 'a' is 1.5, but must be a number from 0 to 1",
        ),
        ({"left": {"a": -0.1}}, InvalidValueError, "is -0.1"),
        ({"left": {"a": True}}, InvalidValueError, "is True"),
        ({"left": {"a": "0.5"}}, InvalidValueError, "is '0.5'"),
        ({"left": {"z": 0.5}}, UnknownClientError, "client id is 'z'"),
        ({"left": [0.5]}, InvalidValueError, "left is a list, but must be a mapping"),
        (
            {"noise": {"a": math.inf}},
            InvalidValueError,
            "noise of client 'a' is inf, but must be a finite number from 0",
        ),
        ({"noise": {"a": -1.0}}, InvalidValueError, "is -1.0"),
        ({"noise": {"z": 1.0}}, UnknownClientError, "client id is 'z'"),
        ({"releases": {"a": 2**53}}, InvalidValueError, "releases of client 'a' is 9007199254740992"),
        ({"releases": {"a": 1.0}}, InvalidValueError, "is 1.0"),
        ({"releases": 3}, InvalidValueError, "releases is a int"),
    ],
)
def test_a_report_that_makes_no_sense_changes_nothing(words: dict, error: type[Exception], message: str) -> None:
    sel = Selector({"a": 1.0, "b": 1.0}, 1)
    good = {"releases": {"b": 3}, "left": {"b": 0.5}, "noise": {"b": 1.0}}
    with pytest.raises(error, match=message):
        sel.report(**(good | words))
    assert privacy(sel) == [1.0, 1.0]
    assert sel.cohort.releases.tolist() == [0, 0]
    assert np.isnan(sel.cohort.noise).all()
