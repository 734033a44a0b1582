"""A policy is told of each observed round once, with what it saw when it picked."""

from typing import Any

import numpy as np
import pytest

from pausefl.errors import InvalidValueError, UserCodeError
from pausefl.selection import Candidates, Policy
from pausefl.selector import Selector


class Diary(Policy):
    """The last m candidates, and a note of each round."""

    name = "diary"

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def pick(self, candidates: Candidates) -> Any:
        return np.arange(len(candidates))[-candidates.m :]

    def played(self, candidates: Candidates, members: Any) -> None:
        note = (candidates.round_number, candidates.ids, [candidates.ids[at] for at in members.tolist()])
        self.notes.append((*note, candidates.picks.tolist(), candidates.loss.tolist()))


def test_once_per_observed_round_with_what_was_there() -> None:
    sel = Selector(dict.fromkeys("abcde", 1.0), per_round=2, policy=Diary())
    sel.select()
    sel.select(["a", "b", "d"])  # only the last answer counts
    sel.hear({"loss": {"d": 0.5}})
    sel.observe({"b": 0.1, "d": 0.2})
    sel.select()
    sel.observe({})
    assert sel.policy.notes[0][:4] == (1, ["a", "b", "d"], ["b", "d"], [0, 0, 0])
    np.testing.assert_equal(sel.policy.notes[0][4], [np.nan, np.nan, 0.5])
    assert sel.policy.notes[1][:4] == (2, list("abcde"), ["d", "e"], [0, 1, 0, 1, 0])
    assert len(sel.policy.notes) == 2


def test_the_candidates_of_an_open_round_survive_saving(tmp_path: Any) -> None:
    sel = Selector(dict.fromkeys("abcde", 1.0), per_round=2, policy=Diary())
    sel.select(["a", "c", "d"])
    sel.save(tmp_path / "state")
    again = Selector.load(tmp_path / "state", policy=Diary())
    again.observe({"c": 0.1})
    assert again.policy.notes[0][:3] == (1, ["a", "c", "d"], ["c", "d"])


def test_a_fault_in_played_is_told_and_the_round_stays_open() -> None:
    class Broken(Diary):
        def played(self, candidates: Candidates, members: Any) -> None:
            raise ZeroDivisionError

    sel = Selector([1.0] * 4, per_round=2, policy=Broken())
    sel.select()
    with pytest.raises(UserCodeError, match=r"policy 'diary' failed in played\(\)"):
        sel.observe({})
    assert sel.rounds == 0
    assert sel.pending is not None


@pytest.mark.parametrize("needs", [frozenset({"gradients"}), {"loss"}, "loss", None])
def test_needs_that_nobody_knows_are_refused(needs: Any) -> None:
    class Greedy(Diary):
        name = "greedy"

    Greedy.needs = needs
    with pytest.raises(
        InvalidValueError, match=r"policy 'greedy' has needs .* must have a frozenset of latency, sizes"
    ):
        Selector([1.0], per_round=1, policy=Greedy())


def test_columns_of_everyone_are_not_only_those_of_the_candidates() -> None:
    sel = Selector([1.0, 2.0, 3.0], per_round=1)
    problem = sel.problem()
    some = problem.candidates(problem.terms(), np.array([0, 2]))
    assert some.sizes.tolist() == [1.0, 3.0]
    assert some.everyone("sizes").tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="read-only"):
        some.everyone("sizes")[0] = 5.0


def test_generalization_is_the_score_without_privacy() -> None:
    for gamma in (0.0, 5.0):
        sel = Selector([1.0, 2.0, 3.0], per_round=2, gamma=gamma, tau_min=0.05)
        problem = sel.problem()
        seen = problem.candidates(problem.terms(), np.arange(3))
        # alpha/m · (m·share)²: 50/9, 50·4/9, 50.
        assert seen.generalization == pytest.approx([50 / 9, 200 / 9, 50.0])
        assert seen.score == pytest.approx(seen.generalization + gamma / 2)


def test_timings_count_what_was_known_before() -> None:
    sel = Selector([1.0] * 3, per_round=1, prior={0: 0.1})
    sel.select([1])
    sel.observe({1: 0.2})
    problem = sel.problem()
    seen = problem.candidates(problem.terms(), np.arange(3))
    assert seen.timings.tolist() == [1, 1, 0]
    assert seen.picks.tolist() == [0, 1, 0]
