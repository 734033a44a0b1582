"""Silence: a client that does not answer waits, longer each time, and comes back quickly once it answers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pausefl.errors import InvalidValueError, NotEnoughClientsError
from pausefl.privacy import FixedHorizon
from pausefl.selector import Selector

NAMES = [f"c{k}" for k in range(10)]


def picked_in(sel: Selector, rounds: int, silent: set[str]) -> dict[str, list[int]]:
    """In which rounds each client was picked; those that are silent never answer."""
    seen: dict[str, list[int]] = {str(name): [] for name in sel.cohort.ids}
    for _ in range(rounds):
        chosen = sel.select()
        for client in chosen:
            seen[str(client)].append(chosen.round)
        sel.observe({client: None if client in silent else 0.2 for client in chosen})
    return seen


def test_the_wait_doubles_and_every_further_silence_is_the_same_outage() -> None:
    sel = Selector(dict.fromkeys("abc", 1), 1, "all")
    rounds = picked_in(sel, 70, {"a"})
    assert rounds["a"] == [1, 3, 7, 15, 31, 63]
    assert rounds["b"] == list(range(1, 71))
    assert sel.cohort.timings.tolist() == [1, 70, 70]
    assert sel.cohort.picks.tolist() == sel.cohort.releases.tolist() == [6, 70, 70]  # it may have released


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 99), st.integers(20, 600))
def test_a_dead_client_costs_a_logarithm(seed: int, rounds: int) -> None:
    sel = Selector(dict.fromkeys(NAMES, 1), 3, seed=seed, tau_min=0.05)
    assert len(picked_in(sel, rounds, {"c4"})["c4"]) <= math.log2(rounds) + 1


def test_one_that_is_late_once_stays_a_candidate_and_then_waits_as_a_silent_one() -> None:
    sel = Selector(dict.fromkeys("abc", 1), 1, "all")
    seen = []
    for number in range(1, 17):
        if "a" in sel.select():
            seen.append(number)
        sel.observe({"b": 0.2, "c": 0.2}, late=["a"] if "a" in sel.select() else ())
    assert seen == [1, 2, 4, 8, 16]
    assert sel.cohort.timings[0] == 0  # nobody waited for it
    sel.expect({"a": 0.4})
    assert "a" in sel.select()
    sel.observe({"b": 0.2, "c": 0.2}, late=["a"])
    assert "a" in sel.select()  # its answer has ended the outage, so it is late for the first time
    sel.observe({"b": 0.2, "c": 0.2})
    assert "a" not in sel.select()  # now it was waited for in vain
    assert sel.cohort.timings[0] == 2


def test_no_wait_is_longer_than_1023_rounds() -> None:
    sel = Selector(dict.fromkeys("ab", 1), 1, "all")
    rounds = picked_in(sel, 6000, {"a"})["a"]
    assert max(np.diff(rounds)) == 1024


def test_waiting_is_soft_and_those_whose_wait_ends_first_are_taken_in() -> None:
    sel = Selector(dict.fromkeys("abcd", 1), 2, tau_min=0.05)
    for _ in range(3):
        sel.select(["a", "b"])
        sel.observe({"b": 0.2})
    sel.select(["c", "d"])
    sel.observe({"d": 0.2})  # c waits for one round, a for three more
    assert sel.select(["a", "b", "c"]).members == ("b", "c")
    assert sel.select(["a", "b"]).members == ("a", "b")
    assert sel.select(["a"], allow_fewer=True).members == ("a",)
    assert set(sel.select(["a", "b", "c", "d"], per_round=3)) == {"b", "c", "d"}
    with pytest.raises(NotEnoughClientsError, match=r"per_round is 2, but only 1 available clients have budget left"):
        sel.select(["a"])


def test_those_who_wait_are_not_counted_among_those_without_budget() -> None:
    sel = Selector(dict.fromkeys("abc", 1), 3, schedule=FixedHorizon(4.0, 4))
    sel.select()
    sel.observe({"b": 0.2, "c": 0.2})
    sel.report({"b": 4})
    with pytest.raises(NotEnoughClientsError, match=r"only 2 available clients have budget left .1 have spent"):
        sel.select()
    assert sel.select(allow_fewer=True).members == ("a", "c")


def test_a_client_that_joins_waits_no_longer() -> None:
    sel = Selector(dict.fromkeys("abc", 1), 1, "all")
    picked_in(sel, 7, {"a"})
    assert "a" not in sel.select()
    sel.join({"a": 1})
    assert "a" in sel.select()


def test_what_is_known_without_a_round_ends_a_wait_too() -> None:
    sel = Selector(dict.fromkeys("abc", 1), 1, "all")
    picked_in(sel, 7, {"a"})
    sel.expect({"a": 0.2})
    assert "a" in sel.select()


def test_waiting_survives_a_save_to_the_bit(tmp_path: Path) -> None:
    straight, broken = (Selector(dict.fromkeys(NAMES, 1), 3, seed=4) for _ in range(2))
    wanted = picked_in(straight, 40, {"c1", "c2"})
    first = picked_in(broken, 20, {"c1", "c2"})
    broken.save(tmp_path / "state")
    again = Selector.load(tmp_path / "state")
    assert again.cohort.silences.dtype == np.int8
    second = picked_in(again, 20, {"c1", "c2"})
    assert {name: first[name] + second[name] for name in first} == wanted
    again.save(tmp_path / "again")
    straight.save(tmp_path / "straight")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "straight").read_bytes()


def test_a_state_file_from_before_has_nobody_waiting() -> None:
    sel = Selector.load(Path(__file__).with_name("older.state"))
    assert not sel.cohort.silences.any() and not sel.cohort.provisional.any()


def test_a_round_of_its_own_size(tmp_path: Path) -> None:
    sel = Selector(dict.fromkeys(NAMES, 1), 3, tau_min=0.05)
    assert len(sel.select(per_round=5)) == 5
    assert len(sel.select()) == 3
    wide = sel.select(per_round=10)
    assert wide.terms["privacy"] == pytest.approx(5.0)  # a mean over ten
    sel.save(tmp_path / "state")
    again = Selector.load(tmp_path / "state")
    assert again.pending == wide
    again.observe(dict.fromkeys(wide, 0.2))
    assert len(again.select()) == 3
    with pytest.raises(NotEnoughClientsError, match="per_round is 11, but only 10 clients joined"):
        sel.select(per_round=11)
    assert len(sel.select(per_round=11, allow_fewer=True)) == 10
    with pytest.raises(InvalidValueError, match="per_round is 0"):
        sel.select(per_round=0)


@pytest.mark.parametrize("warm_up", [1, 2, 3])
def test_the_first_answers_count_until_others_arrive(warm_up: int) -> None:
    sel = Selector({"a": 1}, 1, warm_up=warm_up)
    told = [8.0, 4.0, 2.0, 0.5, 0.25]
    for number, seconds in enumerate(told):
        sel.select()
        sel.observe({"a": seconds})
        counted = told[: number + 1] if number < warm_up else told[warm_up : number + 1]
        assert sel.cohort.seconds[0] == pytest.approx(np.mean(counted))
        assert sel.cohort.rate[0] == pytest.approx(np.mean(1 / np.array(counted)))
        assert sel.cohort.timings[0] == len(counted)
    assert sel.cohort.picks[0] == len(told)


def test_a_warm_up_is_not_used_up_by_silence() -> None:
    sel = Selector({"a": 1}, 1, warm_up=1)
    for seconds in (None, 8.0, 0.5):
        sel.select()
        sel.observe({"a": seconds})
    assert (sel.cohort.timings[0], sel.cohort.seconds[0]) == (1, 0.5)


def test_a_provisional_answer_counts_only_while_nothing_else_is_known(tmp_path: Path) -> None:
    sel = Selector({"a": 1, "b": 1}, 2, prior={"b": 0.5})
    sel.select()
    sel.observe({"a": 8.0, "b": 8.0}, provisional=["a", "b"])
    assert sel.cohort.seconds.tolist() == [8.0, 0.5]
    sel.save(tmp_path / "state")
    again = Selector.load(tmp_path / "state")
    again.select()
    again.observe({"a": 1.0, "b": 1.0})
    assert again.cohort.seconds.tolist() == [1.0, 0.75]
    assert again.cohort.timings.tolist() == [1, 2]
    again.select()
    with pytest.raises(InvalidValueError, match="client id is 'z'"):
        again.observe({"a": 1.0}, provisional=["z"])
    with pytest.raises(InvalidValueError, match=r"pass \['a'\]"):
        again.observe({"a": 1.0}, provisional="a")
    assert again.rounds == 2
