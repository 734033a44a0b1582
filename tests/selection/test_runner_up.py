"""The best set but one, against a search of all sets."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pausefl.selection import Objective
from pausefl.selection import runner_up as module
from pausefl.selection.exact import exact
from pausefl.selection.objective import no_tickets
from pausefl.selection.runner_up import runner_up


def all_ranks(objective: Objective) -> list[tuple[bool, float]]:
    sets = combinations(range(len(objective.ucb)), objective.m)
    return sorted((objective.solution(np.array(one)).rank for one in sets), reverse=True)


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 8), st.data())
def test_it_is_the_second_of_all_sets(clients: int, data: st.DataObject) -> None:
    m = data.draw(st.integers(1, clients - 1))
    numbers = st.lists(st.integers(-4, 4).map(float) | st.floats(-3, 3), min_size=clients, max_size=clients)
    ucb = np.array(data.draw(numbers)) + 5.0
    ucb[: data.draw(st.integers(0, clients))] = math.inf
    clusters = data.draw(st.none() | st.lists(st.integers(0, 2), min_size=clients, max_size=clients))
    objective = Objective(
        ucb, np.array(data.draw(numbers)), m, None if clusters is None else np.array(clusters),
        data.draw(st.sampled_from([0.0, 0.5, 4.0])),
    )  # fmt: skip
    best = exact(objective, no_tickets)
    second = runner_up(objective, best, no_tickets)
    assert second is not None
    assert set(second.members.tolist()) != set(best.tolist())
    expected = all_ranks(objective)[1]
    assert second.rank[0] == expected[0]
    assert second.rank[1] == pytest.approx(expected[1], abs=1e-9)


def test_a_function_of_sets_is_honoured() -> None:
    objective = Objective(np.ones(5), np.arange(5.0), 2, phi=lambda at: 10.0 * (0 in at))
    second = runner_up(objective, np.array([0, 4]), no_tickets)
    assert second is not None
    assert second.members.tolist() == [0, 3]


def test_nobody_comes_second_where_everybody_takes_part() -> None:
    assert runner_up(Objective(np.ones(3), np.ones(3), 3), np.arange(3), no_tickets) is None


@pytest.mark.parametrize("kind", ["independent", "opposed", "tied"])
@pytest.mark.parametrize("collision", [0.0, 0.05, 5.0])
@pytest.mark.parametrize("weight", [1.0, 0.01])
def test_in_a_large_network_few_optima_are_worked_out(
    kind: str, collision: float, weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(int(100 * weight))
    count, m = 6000, 25
    ucb, score = rng.random(count), weight * rng.random(count)
    if kind == "opposed":
        score = weight * (1.0 - ucb + 0.01 * rng.random(count))
    if kind == "tied":
        ucb, score = np.round(ucb, 1), np.round(score, 2)
    objective = Objective(ucb, score, m, rng.integers(0, 40, count), collision)
    best = exact(objective, no_tickets)
    without = module._without
    slow = max((without(objective, member, no_tickets) for member in best.tolist()), key=lambda one: one.rank)
    looked_at: list[int] = []
    monkeypatch.setattr(module, "_without", lambda o, member, t: looked_at.append(member) or without(o, member, t))
    quick = runner_up(objective, best, no_tickets)
    assert quick is not None
    assert quick.rank[0] == slow.rank[0]
    assert quick.value == pytest.approx(slow.value, abs=1e-12)
    if kind != "tied":
        assert quick.members.tolist() == slow.members.tolist()
        assert len(looked_at) <= 5
