"""Why a round was decided so: the numbers are those of the reward, and the stated change brings the client in."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pausefl.errors import InvalidValueError, OutOfOrderError
from pausefl.privacy import Geometric
from pausefl.selection import Objective, Policy
from pausefl.selector import Selector

SECONDS = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4, "e": 0.5}
SIZES = {"a": 10, "b": 20, "c": 30, "d": 40, "e": 50}
SCHEDULE = Geometric(40.0, 0.04)


def after(rounds: int, **given: Any) -> Selector:
    sel = Selector(**{"sizes": SIZES, "per_round": 2, "tau_min": 0.05, "schedule": SCHEDULE, **given})
    for _ in range(rounds):
        sel.observe({client: SECONDS[client] for client in sel.select()})
    return sel


def test_the_numbers_are_those_of_the_equations() -> None:
    sel = after(5, alpha=80.0, gamma=3.0, zeta=2.0)
    picks = dict(zip(SIZES, sel.cohort.picks.tolist(), strict=True))
    chosen = sel.select()
    assert list(chosen.reasons) == list(chosen.members)
    for client, reason in chosen.reasons.items():
        gap = 2 * SIZES[client] / 150 - picks[client] / 5
        left = 1.0 - SCHEDULE.spent(picks[client]) / 40.0
        assert reason.picks == picks[client]
        assert reason.mean_speed == pytest.approx(0.05 / SECONDS[client])
        assert reason.speed_bonus == pytest.approx(math.sqrt(3 * math.log(5) / picks[client]))
        assert reason.ucb == pytest.approx(2.0 * reason.mean_speed + reason.speed_bonus)
        assert reason.generalization == pytest.approx(80.0 * math.copysign(gap**2, gap) / 2)
        assert reason.budget_left == pytest.approx(left)
        assert reason.score == pytest.approx(reason.generalization + 3.0 * left / 2)


def test_they_add_up_to_the_terms_and_stay_as_they_were() -> None:
    sel = after(6)
    chosen = sel.select()
    sel.observe({client: SECONDS[client] for client in chosen})
    assert min(reason.ucb for reason in chosen.reasons.values()) == chosen.terms["speed"]
    assert sum(r.generalization for r in chosen.reasons.values()) == pytest.approx(chosen.terms["generalization"])
    assert sum(5.0 * r.budget_left / 2 for r in chosen.reasons.values()) == pytest.approx(chosen.terms["privacy"])


def test_a_client_never_timed_has_an_infinite_bonus() -> None:
    chosen = after(1).select()
    assert {reason.speed_bonus for reason in chosen.reasons.values()} == {math.inf}


def test_a_speed_that_is_no_longer_believed_is_none() -> None:
    sel = after(0, memory=3)
    for number in range(8):
        chosen = sel.select(["a", "b"] if number else ["c", "d"])
        sel.observe(dict.fromkeys(chosen, 0.3))
    assert sel.select(["c", "d"]).reasons["c"].speed_bonus == math.inf


def test_a_client_that_is_no_member_has_no_reason() -> None:
    chosen = after(3).select()
    stranger = next(client for client in SIZES if client not in chosen)
    with pytest.raises(KeyError):
        chosen.reasons[stranger]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_stated_change_brings_the_client_in_and_no_smaller_one_does(data: st.DataObject) -> None:
    clients = data.draw(st.integers(3, 7))
    m = data.draw(st.integers(1, clients - 1))
    seconds = data.draw(st.lists(st.floats(0.06, 2.0), min_size=clients, max_size=clients))
    grouped = data.draw(st.booleans())
    sel = Selector(
        data.draw(st.lists(st.floats(1.0, 9.0), min_size=clients, max_size=clients)), m,
        data.draw(st.sampled_from(["pause", "brute"])), alpha=data.draw(st.sampled_from([0.0, 1.0, 30.0])), gamma=20.0,
        tau_min=0.05, clusters=[k % 2 for k in range(clients)] if grouped else None, rho=0.1 if grouped else 0.0,
    )  # fmt: skip
    for _ in range(data.draw(st.integers(0, 12))):
        sel.observe({client: seconds[client] for client in sel.select()})
    state = sel.state()
    chosen = sel.select()
    out = chosen.reasons.left_out
    assert out is not None and out.client not in chosen
    assert set(out.replaces) <= set(chosen.members)
    assert len(out.replaces) == 1 + len(out.together_with)
    if out.more_budget is None:
        return
    assert out.short_by == pytest.approx(20.0 * out.more_budget / m)
    sel.restore(*state)

    def with_budget(left: float) -> bool:
        sel.restore(*state)
        sel.report(left={out.client: left})
        return out.client in sel.select()

    enough = out.reason.budget_left + out.more_budget + 1e-9
    assume(enough <= 1.0)
    assert with_budget(enough)
    if out.more_budget > 1e-9:
        assert not with_budget(out.reason.budget_left + out.more_budget - 1e-9)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_nobody_else_came_closer(data: st.DataObject) -> None:
    """Of all clients left out, none gets in with a smaller change of its score: every one is tried."""
    clients = data.draw(st.integers(3, 6))
    m = data.draw(st.integers(1, clients - 1))
    numbers = st.lists(st.floats(0.0, 3.0), min_size=clients, max_size=clients)
    objective = Objective(np.array(data.draw(numbers)), np.array(data.draw(numbers)), m)

    class Fixed(Policy):
        name = "fixed"

        def maximises(self, candidates: Any) -> Objective:
            return objective

        def pick(self, candidates: Any) -> Any:
            from pausefl.selection.brute import brute

            return brute(objective, candidates.tickets).members

    chosen = Selector([1.0] * clients, m, Fixed()).select()
    out = chosen.reasons.left_out
    assert out is not None

    def enters(client: int, more: float) -> bool:
        from pausefl.selection import solve_brute

        score = objective.score.copy()
        score[client] += more
        return client in solve_brute(objective.ucb, score, m).members

    others = [client for client in range(clients) if client not in chosen]
    assert enters(int(out.client), out.short_by + 1e-9)
    if out.short_by > 1e-9:
        assert not any(enters(client, out.short_by - 1e-9) for client in others)
    assert out.more_budget is None, "the budget is no part of what this policy maximises"


def test_who_was_never_timed_comes_first_whatever_the_score() -> None:
    out = after(1).select().reasons.left_out
    assert out is not None and math.isfinite(out.short_by), "somebody else was never timed either"
    out = after(2).select(["a", "b", "c", "d", "e"]).reasons.left_out
    assert out is not None and math.isfinite(out.short_by)
    sel = Selector([1.0, 1.0, 1.0], 1, tau_min=0.05, prior=[0.1, 0.1, None])
    chosen = sel.select()
    out = chosen.reasons.left_out
    assert chosen.members == (2,)
    assert out is not None and (out.short_by, out.more_budget) == (math.inf, None)


@pytest.mark.parametrize("policy", ["random", "all", "sa-pause", "oort"])
def test_a_policy_that_maximises_nothing_exactly_leaves_nobody_out(policy: str) -> None:
    assert after(3, policy=policy).select().reasons.left_out is None


def test_pause_auto_is_explained_by_what_it_maximises_itself() -> None:
    out = after(6, policy="pause-auto").select().reasons.left_out
    assert out is not None and out.short_by >= 0.0 and out.more_budget is None


def test_where_all_candidates_are_chosen_nobody_is_left_out() -> None:
    assert after(3).select(["a", "b"]).reasons.left_out is None


@pytest.mark.parametrize(
    "goes_on",
    [
        lambda sel: sel.observe({}),
        lambda sel: sel.report({"a": 1}),
        lambda sel: sel.expect({"a": 0.1}),
        lambda sel: sel.join({"f": 3}),
        lambda sel: sel.leave(["a"]),
        lambda sel: sel.select(),
        lambda sel: sel.restore(*sel.state()),
    ],
)
def test_who_was_left_out_is_to_be_looked_at_while_the_round_is_open(goes_on: Any) -> None:
    sel = after(4)
    chosen = sel.select()
    goes_on(sel)
    with pytest.raises(OutOfOrderError, match="read it before you call observe, or pass log"):
        _ = chosen.reasons.left_out
    sel = after(4)
    chosen = sel.select()
    seen = chosen.reasons.left_out
    goes_on(sel)
    assert chosen.reasons.left_out is seen is not None


def test_a_copy_does_not_bring_the_cohort_along() -> None:
    sel = Selector(np.ones(50_000), 3, tau_min=0.05)
    chosen = sel.select()
    sent = pickle.dumps(chosen)
    assert len(sent) < 5_000
    assert pickle.loads(sent) == chosen
    assert dict(copy.deepcopy(chosen).reasons) == dict(chosen.reasons)
    with pytest.raises(OutOfOrderError):
        _ = pickle.loads(sent).reasons.left_out


def test_a_policy_of_your_own_must_name_an_objective_of_the_candidates() -> None:
    class Wrong(Policy):
        name = "wrong"

        def maximises(self, candidates: Any) -> Any:
            return 3

        def pick(self, candidates: Any) -> Any:
            return [0]

    with pytest.raises(
        InvalidValueError, match=r"must return an Objective of 2 candidates, or None; change its maximis"
    ):
        _ = Selector([1.0, 1.0], 1, Wrong()).select().reasons.left_out
