import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pausefl
from pausefl.errors import InvalidValueError, NotEnoughClientsError, OutOfOrderError, StateFileError, UnknownClientError
from pausefl.privacy import FixedHorizon, Geometric
from pausefl.rewards import LabelDiversity
from pausefl.selection import Annealer, SaPause
from pausefl.selector import Selector
from pausefl.selector.decision import Selection


def step(sel: Selector, number: int) -> Selection:
    chosen = sel.select()
    sel.observe({k: 0.5 + 0.01 * ((number + len(str(k))) % 5) for k in chosen.members})
    return chosen


def played(sel: Selector, rounds: int) -> list[Selection]:
    return [step(sel, number) for number in range(rounds)]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.data())
def test_nobody_twice_before_everybody_once(clients: int, data: st.DataObject) -> None:
    m = data.draw(st.integers(1, clients))
    sizes = data.draw(st.lists(st.floats(0.001, 1e6), min_size=clients, max_size=clients))
    policy = data.draw(st.sampled_from(["pause", "sa-pause"]))
    if policy == "sa-pause":
        policy = SaPause(Annealer(steps=50))
    sel = Selector(sizes, m, policy, tau_min=0.05, seed=data.draw(st.integers(0, 9)))
    seen: list = []
    for chosen in played(sel, clients // m):
        seen += chosen.members
    assert len(seen) == len(set(seen)) == m * (clients // m)


def test_three_calls_and_what_each_term_contributed() -> None:
    sel = pausefl.Selector(
        sizes={"a": 120, "b": 300, "c": 90, "d": 250}, per_round=2, policy="pause", alpha=100.0, beta=2.0, gamma=5.0,
        zeta=1.0, schedule=pausefl.Geometric(budget=40.0, decay=0.04), tau_min=0.05, clusters=None, rho=0.0, seed=0,
    )  # fmt: skip
    first = sel.select(available=None)
    assert math.isinf(first.value)
    for _ in range(3):
        chosen = sel.select()
        sel.observe(dict.fromkeys(chosen.members[:1], 0.31) | {chosen.members[1]: None})
    chosen = sel.select()
    assert chosen.round == 4
    assert sum(chosen.terms.values()) == pytest.approx(chosen.value)
    assert set(chosen.terms) == {"speed", "generalization", "privacy"}


def test_terms_with_clusters_and_a_function_of_your_own() -> None:
    labels = {k: [k % 3, 1.0, (k + 1) % 3] for k in range(8)}
    sel = Selector(
        np.ones(8), 3, "sa-pause", tau_min=0.05, clusters=[0, 0, 0, 0, 1, 1, 1, 1], rho=0.1,
        phi=LabelDiversity(labels, weight=2.0),
    )  # fmt: skip
    played(sel, 5)
    chosen = sel.select()
    assert set(chosen.terms) == {"speed", "generalization", "privacy", "clusters", "phi"}
    assert chosen.terms["clusters"] in (-10.0, -20.0)
    assert sum(chosen.terms.values()) == pytest.approx(chosen.value)
    brute = Selector(
        np.ones(8), 3, "brute", tau_min=0.05, clusters=[0, 0, 0, 0, 1, 1, 1, 1], rho=0.1,
        phi=LabelDiversity(labels, weight=2.0),
    )  # fmt: skip
    played(brute, 5)
    assert chosen.value == pytest.approx(brute.select().value)


def test_clusters_spread_the_choice() -> None:
    apart = Selector(np.ones(8), 4, tau_min=0.05, clusters=[0, 0, 1, 1, 2, 2, 3, 3], rho=10.0)
    for chosen in played(apart, 10):
        assert len({int(k) // 2 for k in chosen.members}) == 4


def test_no_answer_counts_as_the_slowest_answer() -> None:
    sel = Selector(np.ones(4), 2, tau_min=0.05, alpha=0.0, gamma=0.0)
    first = sel.select().members
    sel.observe({first[0]: 0.06})
    rows = sel.cohort.rows(first)
    assert sel.cohort.picks[rows].tolist() == [1, 1]
    assert sel.cohort.rate[rows].tolist() == pytest.approx([1 / 0.06, 0.0])
    assert set(sel.select().members).isdisjoint(first)


def test_without_tau_min_the_smallest_latency_seen_counts() -> None:
    known, learned = (Selector(np.ones(6), 2, tau_min=tau, seed=1) for tau in (0.2, None))
    for number in range(20):
        pair = known.select(), learned.select()
        assert pair[0].members == pair[1].members
        seen = {k: 0.2 + 0.1 * int(k) if number else 0.2 for k in pair[0].members}
        known.observe(seen)
        learned.observe(seen)


def test_clients_join_and_leave_and_are_remembered() -> None:
    sel = Selector({"a": 1, "b": 1, "c": 1}, 1, tau_min=0.05)
    played(sel, 6)
    picks = dict(zip(sel.cohort.ids, sel.cohort.picks.tolist(), strict=True))
    sel.leave(["b"])
    sel.join({"d": 2, "e": 3})
    members = {k for chosen in played(sel, 4) for k in chosen.members}
    assert members >= {"d", "e"}
    assert "b" not in members
    sel.join({"b": 5})
    assert sel.cohort.picks[sel.cohort.rows(["b"])[0]] == picks["b"]
    assert sel.cohort.shares.sum() == pytest.approx(1.0)


def test_joining_with_clusters() -> None:
    sel = Selector({"a": 1, "b": 1}, 2, clusters={"a": 4, "b": 9}, rho=1.0)
    with pytest.raises(InvalidValueError, match="clusters has none for client 'c'"):
        sel.join({"c": 1})
    assert len(sel.cohort) == 2
    sel.join({"c": 1}, clusters={"c": 4})
    assert set(played(sel, 1)[0].members) in ({"a", "b"}, {"b", "c"})


def test_exhausted_clients_are_no_candidates() -> None:
    sel = Selector(np.ones(4), 2, schedule=FixedHorizon(budget=4.0, releases=2), tau_min=0.05)
    played(sel, 4)
    assert sel.spent().tolist() == pytest.approx([4.0] * 4)
    with pytest.raises(NotEnoughClientsError, match=r"only 0 available clients have budget left .4 have spent"):
        sel.select()


def test_integer_ids_in_a_mapping_and_in_a_sequence_are_the_same() -> None:
    a = Selector([3.0, 1.0, 2.0, 5.0], 2, "random", seed=4)
    b = Selector({0: 3.0, 1: 1.0, 2: 2.0, 3: 5.0}, 2, "random", seed=4)
    c = Selector({3: 5.0, 1: 1.0, 0: 3.0, 2: 2.0}, 2, "random", seed=4)
    first = [set(s.select().members) for s in (a, b, c)]
    assert first[0] == first[1] == first[2]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"per_round": 0}, InvalidValueError, "per_round is 0, but must be a whole number from 1"),
        ({"per_round": 2.5}, InvalidValueError, "per_round is 2.5"),
        ({"per_round": 4}, NotEnoughClientsError, "per_round is 4, but only 3 clients joined"),
        ({"sizes": {"a": 1, "b": 0, "c": 2}}, InvalidValueError, "size of client 'b' is 0"),
        ({"sizes": [1.0, -2.0, 3.0]}, InvalidValueError, "size of client 1 is -2"),
        ({"sizes": [1.0, math.nan, 3.0]}, InvalidValueError, "size of client 1 is nan"),
        ({"sizes": {}}, InvalidValueError, "sizes"),
        ({"sizes": {"a": "many", "b": 1, "c": 2}}, InvalidValueError, "size of client 'a' is 'many'"),
        ({"sizes": {("a", 1): 1, "b": 1, "c": 2}}, InvalidValueError, "client id"),
        ({"beta": 1.0}, InvalidValueError, "beta is 1.0, but must be a finite number above 1"),
        ({"alpha": -1.0}, InvalidValueError, "alpha is -1.0"),
        ({"zeta": math.inf}, InvalidValueError, "zeta is inf"),
        ({"tau_min": 0.0}, InvalidValueError, "tau_min is 0.0"),
        ({"clusters": [0, 1]}, InvalidValueError, "clusters length is 2, but must be 3"),
        ({"clusters": {"a": 0}}, InvalidValueError, "clusters has none for client"),
        ({"clusters": [0.5, 1.0, 2.0]}, InvalidValueError, "whole numbers"),
        ({"policy": "puase"}, InvalidValueError, "did you mean 'pause'"),
        ({"policy": "fastest"}, InvalidValueError, "pass pausefl.Fastest"),
        ({"policy": 3}, InvalidValueError, "policy is 3"),
        ({"phi": len}, InvalidValueError, "pass policy='sa-pause' or 'brute'"),
        ({"seed": -1}, InvalidValueError, "seed is -1"),
        ({"sizes": 5}, InvalidValueError, "sizes is 5"),
        ({"sizes": {"a": 1, True: 2, "c": 1}}, InvalidValueError, "client id is True"),
        ({"sizes": {"a": 1, 2**5000: 2, "c": 1}}, InvalidValueError, "client id is 'a number of 5001 bits'"),
        ({"alpha": "1"}, InvalidValueError, "alpha is '1'"),
        ({"schedule": 40.0}, InvalidValueError, "schedule is 40.0"),
        ({"policy": "brute", "phi": 3}, InvalidValueError, "phi is 3"),
        ({"rho": 1.0}, InvalidValueError, "rho is 1.0, but must be 0 without clusters"),
        ({"clusters": 5}, InvalidValueError, "clusters length"),
    ],
)
def test_bad_construction_is_named(change: dict, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as refused:
        Selector(**({"sizes": {"a": 1, "b": 2, "c": 3}, "per_round": 2} | change))
    assert "\n" not in str(refused.value)
    assert isinstance(refused.value, pausefl.PauseError)


@pytest.mark.parametrize(
    ("latencies", "error", "words"),
    [
        ({"nobody": 0.1}, InvalidValueError, "client id is 'nobody', but must be one of the 2 selected"),
        (
            math.nan,
            InvalidValueError,
            "is nan, but must be a finite number of seconds above 0 .at least 1e-9.; report None",
        ),
        (-1.0, InvalidValueError, "is -1.0"),
        (math.inf, InvalidValueError, "is inf"),
        (0.0, InvalidValueError, "is 0.0"),
        (1e-310, InvalidValueError, "is 1e-310"),
        ("0.3", InvalidValueError, "is '0.3'"),
        (True, InvalidValueError, "is True"),
    ],
)
def test_bad_latencies_are_named_and_change_nothing(latencies: object, error: type[Exception], words: str) -> None:
    sel = Selector({"a": 1, "b": 2, "c": 3}, 2)
    chosen = sel.select()
    bad = latencies if isinstance(latencies, dict) else {chosen.members[0]: 0.2, chosen.members[1]: latencies}
    with pytest.raises(error, match=words):
        sel.observe(bad)
    assert sel.rounds == 0
    assert sel.cohort.picks.sum() == 0
    sel.observe(dict.fromkeys(chosen.members, 0.2))
    assert sel.rounds == 1


def test_calls_out_of_order_and_strangers() -> None:
    sel = Selector({"a": 1, "b": 2}, 1)
    with pytest.raises(OutOfOrderError, match="call select first"):
        sel.observe({})
    with pytest.raises(UnknownClientError, match="client id is 'z', but must be one of the 2 that joined"):
        sel.select(["a", "z"])
    with pytest.raises(UnknownClientError):
        Selector([1.0, 1.0], 1).select([-1])
    sel.leave(["a"])
    with pytest.raises(UnknownClientError, match="has left"):
        sel.select(["a"])
    with pytest.raises(InvalidValueError, match="clients left"):
        sel.leave(["b"])
    assert sel.select().members == ("b",)
    with pytest.raises(InvalidValueError, match="mask of shape"):
        sel.select(np.array([True]))


def test_bools_strings_and_mappings_are_no_lists_of_ids() -> None:
    sel = Selector(np.ones(5), 2)
    masked = sel.select([False, False, False, True, True])
    assert masked.members == (3, 4)
    assert 3 in masked
    assert list(masked) == [3, 4]
    named = Selector({"a": 1, "b": 2, "ab": 3}, 1)
    for wrong in ("ab", {"a": True}):
        with pytest.raises(InvalidValueError, match="list of client ids"):
            named.select(wrong)
    with pytest.raises(InvalidValueError, match=r"pass \['ab'\]"):
        named.leave("ab")
    with pytest.raises(InvalidValueError, match="mapping"):
        sel.observe([0.1, 0.2])
    with pytest.raises(InvalidValueError, match="mask of shape"):
        named.select([True])
    with pytest.raises(UnknownClientError):
        named.cohort.rows([True])


def test_a_smaller_round_if_allowed() -> None:
    sel = Selector({"a": 1, "b": 2, "c": 3}, 2)
    assert sel.select(["a"], allow_fewer=True).members == ("a",)
    with pytest.raises(NotEnoughClientsError):
        sel.select([], allow_fewer=True)


@pytest.mark.parametrize("policy", ["pause", "clustered-similarity"])
def test_an_open_round_survives_joining_and_leaving(policy: str) -> None:
    sel = Selector({"a": 1, "b": 2, "c": 3}, 2, policy)
    chosen = sel.select().members
    sel.leave([chosen[0]])
    sel.join({"d": 5})
    sel.observe(dict.fromkeys(chosen, 0.2), {client: np.ones(3) for client in chosen})
    assert sel.cohort.picks[:3].sum() == 2
    assert sel.pending is None


def test_a_refused_join_changes_nothing(tmp_path: Path) -> None:
    sel = Selector({"a": 1, "b": 2}, 1)
    for wrong in ({2**5000: 1.0}, {"c": 1.0, "d": -1.0}, {"a": 9.0, 2**5000: 1.0}):
        with pytest.raises(InvalidValueError):
            sel.join(wrong)
    assert sel.cohort.sizes.tolist() == [1.0, 2.0]
    sel.join({"c": 7})
    sel.save(tmp_path / "state")
    assert Selector.load(tmp_path / "state").cohort.rows(["c"]).tolist() == [2]


def test_ids_of_any_size_are_ids_and_survive_a_restart(tmp_path: Path) -> None:
    """Flower's node ids go up to 2^64."""
    ids = [2**64 - 1, 2**63, 2**63 - 1, -(2**63) - 1, 10**300, str(2**64 - 1), np.uint64(2**63 + 1)]
    sel = Selector(dict.fromkeys(ids, 1.0), 3, tau_min=0.05)
    assert len(set(sel.cohort.keys.tolist())) == len(ids)
    for _ in range(4):
        sel.observe({client: 0.1 + hash(client) % 7 for client in sel.select()})
    sel.join({10**40: 2.0})
    sel.save(tmp_path / "state")
    back = Selector.load(tmp_path / "state")
    assert list(back.cohort.ids) == [*ids, 10**40] and all(type(one) in (int, str) for one in back.cohort.ids)
    assert back.select().members == sel.select().members


def test_what_clients_report_corrects_the_estimate_of_what_leaked(tmp_path: Path) -> None:
    sel = Selector({"a": 1, "b": 1, "c": 1}, 1, schedule=FixedHorizon(8.0, 4), alpha=0.0)
    sel.report({"a": 4, "b": 2})
    assert sel.spent().tolist() == pytest.approx([8.0, 4.0, 0.0])
    assert sel.cohort.picks.tolist() == [0, 0, 0]
    assert sel.problem().terms().privacy.tolist() == pytest.approx([0.0, 0.5, 1.0], abs=1e-6)
    sel.save(tmp_path / "state")
    back = Selector.load(tmp_path / "state")
    assert back.cohort.releases.tolist() == [4, 2, 0]
    for _ in range(6):
        back.select()
        back.observe({})
    assert back.cohort.picks.tolist() == [0, 2, 4]  # the first one's budget is gone, though it was never picked here
    with pytest.raises(NotEnoughClientsError):
        back.select()
    with pytest.raises(InvalidValueError):
        back.report({"b": -1})
    with pytest.raises(UnknownClientError):
        back.report({"d": 1})


@pytest.mark.parametrize("beta", [2.0, 1.7])
@pytest.mark.parametrize("several", [False, True])
def test_terms_are_the_same_block_by_block_and_for_all_at_once(beta: float, several: bool) -> None:
    rng = np.random.default_rng(3)
    count = 70_001  # several blocks, and a part of one
    kinds = [Geometric(40.0, 0.04), FixedHorizon(8.0, 400)]
    schedule = {k: kinds[k % 2] for k in range(count)} if several else kinds[0]
    sel = Selector(rng.integers(1, 500, count), 10, tau_min=0.05, beta=beta, schedule=schedule, memory=5)
    for part in (1.0, 0.4, 0.1):
        some = np.flatnonzero(rng.random(count) < part)
        sel.cohort.observe(some, 0.05 + rng.random(len(some)), floor=0.05)
    sel.report(left={int(k): float(rng.random()) for k in rng.integers(0, count, 500)})
    problem, cohort = sel.problem(), sel.cohort
    speed = sel.reward.mean_speed(cohort.rate, cohort.fastest_seen)
    whole = sel.reward.terms(
        speed, cohort.shares, cohort.picks, cohort.releases, problem.timings, rounds=problem.number - 1, m=10
    )
    terms, rows = problem.terms(), rng.permutation(count)[:300]
    for name in ("ucb", "score", "generalization", "privacy"):
        assert np.array_equal(getattr(terms, name), getattr(whole, name))
        assert np.array_equal(getattr(problem.terms_of(rows), name), getattr(whole, name)[rows])


def test_an_open_list_of_clients_is_that_of_the_state() -> None:
    def made(ids: str) -> Selector:
        return Selector(dict.fromkeys(ids, 2.0), 2, prior={"a": 0.5})

    before = made("abc")
    before.observe(dict.fromkeys(before.select(), 0.2))
    before.join({"d": 7.0})
    before.leave(["b"])
    other, after = Selector(dict.fromkeys("xa", 1.0), 2, seed=1), made("xca")
    with pytest.raises(StateFileError, match="seed"):
        other.restore(*before.state(), open_list=True)
    assert list(other.cohort.ids) == ["x", "a"]  # as if nobody had tried
    after.restore(*before.state(), open_list=True)
    assert list(after.cohort.ids) == ["a", "b", "c", "d"]
    for _ in range(3):
        assert after.select() == before.select()
        for one in (after, before):
            one.observe(dict.fromkeys(one.pending, 0.4))
    (header, arrays), (same, columns) = after.state(), before.state()
    assert header == same
    assert {name: array.tolist() for name, array in arrays.items() if name != "prior"} == {
        name: array.tolist() for name, array in columns.items() if name != "prior"
    }
    assert np.array_equal(arrays["prior"], columns["prior"], equal_nan=True)


@pytest.mark.parametrize(
    "more", [{"clusters": {"a": 0, "b": 1}}, {"schedule": {"a": Geometric(4, 0.1), "b": Geometric(8, 0.1)}}]
)
def test_what_belongs_to_each_client_keeps_a_list_closed(more: dict[str, Any]) -> None:
    sel = Selector({"a": 1.0, "b": 1.0}, 1, **more)
    with pytest.raises(InvalidValueError, match="open_list is True, but must be False with a schedule or cluster"):
        sel.restore(*sel.state(), open_list=True)
