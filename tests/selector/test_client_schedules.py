"""A selector whose clients have schedules of their own."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pausefl.errors import InvalidValueError, NotEnoughClientsError, PauseError, StateFileError
from pausefl.privacy import FixedHorizon, Geometric, PowerLaw
from pausefl.selector import Selector
from pausefl.selector.decision import Selection
from pausefl.sim.engine import Simulation
from pausefl.sim.latency import two_groups
from pausefl.sim.network import Network

KINDS = [Geometric(40.0, 0.04), Geometric(4.0, 0.5), PowerLaw(10.0, 2.0), FixedHorizon(8.0, 6), FixedHorizon(8.0, 9)]
POLICIES = ["pause", "sa-pause", "random", "clustered"]


class Own:
    """A schedule of the user's own: equal ones are different objects."""

    limit = None

    def __init__(self, budget: float) -> None:
        self.budget = budget

    def spent(self, plays: np.ndarray) -> np.ndarray:
        return self.budget * -np.expm1(-0.1 * np.asarray(plays, dtype=float))


def step(sel: Selector) -> Selection:
    chosen = sel.select(allow_fewer=True)
    sel.observe({k: 0.5 + 0.01 * ((chosen.round + sum(map(ord, str(k)))) % 5) for k in chosen})
    return chosen


def played(sel: Selector, rounds: int) -> list[Selection]:
    return [step(sel) for _ in range(rounds)]


def same_state(one: Selector, two: Selector) -> bool:
    (header, arrays), (other, columns) = one.state(), two.state()
    same = arrays.keys() == columns.keys() and all(np.array_equal(arrays[n], columns[n]) for n in arrays)
    return header == other and same


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", KINDS)
def test_equal_schedules_are_a_single_one_to_the_bit(policy: str, kind: object) -> None:
    sizes = {f"c{number}": 10.0 + number for number in range(9)}
    each = {client: type(kind)(*(getattr(kind, name) for name in kind.__slots__)) for client in sizes}
    many, single = (Selector(sizes, 2, policy, schedule=given, tau_min=0.05, seed=5) for given in (each, kind))
    assert played(many, 12) == played(single, 12)
    assert many.spent().tolist() == single.spent().tolist()
    assert same_state(many, single)
    assert many.reward.schedule == kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_beside_others_is_rated_as_if_all_had_its_schedule(kind: object) -> None:
    others = [one for one in KINDS if one != kind]
    schedules = {number: kind if number % 2 else others[number // 2 % len(others)] for number in range(20)}
    several, single = (Selector(np.ones(20), 3, "random", schedule=given, seed=1) for given in (schedules, kind))
    counts = {number: number % 6 for number in range(20)}
    several.report(counts)
    single.report(counts)
    mine = np.arange(1, 20, 2)
    pairs = [(sel.problem().terms().privacy, sel.spent(), sel.problem().solvent()) for sel in (several, single)]
    for one, other in zip(*pairs, strict=True):
        assert one[mine].tolist() == other[mine].tolist()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=4, max_size=12), st.randoms(), st.sampled_from(["pause", "random"]))
def test_permuting_clients_permutes_the_choice(kinds: list[int], order: object, policy: str) -> None:
    clients = [f"c{number}" for number in range(len(kinds))]
    mixed = list(clients)
    order.shuffle(mixed)
    schedules = {client: KINDS[kind] for client, kind in zip(clients, kinds, strict=True)}
    sizes = {client: 10.0 + number for number, client in enumerate(clients)}
    one = Selector(sizes, 2, policy, schedule=schedules, tau_min=0.05, seed=2)
    two = Selector({client: sizes[client] for client in mixed}, 2, policy, schedule=schedules, tau_min=0.05, seed=2)
    for _ in range(8):
        assert set(step(one)) == set(step(two))
    spent = [dict(zip(sel.cohort.ids, sel.spent().tolist(), strict=True)) for sel in (one, two)]
    assert spent[0] == spent[1]


def test_every_client_keeps_its_own_limit() -> None:
    limits = {"a": 1, "b": 2, "c": 3, "d": 4}
    schedules = {client: FixedHorizon(8.0, limit) for client, limit in limits.items()}
    sel = Selector(dict.fromkeys("abcde", 1.0), 5, "all", schedule=schedules | {"e": Geometric(40.0, 0.04)})
    assert [chosen.members for chosen in played(sel, 6)] == [tuple("abcde"[at:]) for at in (0, 1, 2, 3, 4, 4)]
    assert sel.spent()[:4].tolist() == pytest.approx([8.0] * 4)
    sel.leave(["e"])
    with pytest.raises(NotEnoughClientsError, match="4 have spent theirs"):
        sel.select()


@pytest.mark.parametrize("pending", [False, True])
def test_load_continues_to_the_bit(tmp_path: Path, pending: bool) -> None:
    def fresh() -> Selector:
        schedules = {f"c{number}": KINDS[number % 5] for number in range(7)}
        sel = Selector(dict.fromkeys(schedules, 5.0), 2, schedule=schedules, seed=9)
        played(sel, 2)
        sel.join({"new": 9.0, "c1": 8.0}, schedules={"new": FixedHorizon(3.0, 3)})
        return sel

    straight, sel = fresh(), fresh()
    wanted, got = played(straight, 9), played(sel, 4)
    open_round = sel.select() if pending else None
    sel.save(tmp_path / "state")
    again = Selector.load(tmp_path / "state")
    assert again.pending == open_round
    assert got + played(again, 5) == wanted
    again.save(tmp_path / "again")
    straight.save(tmp_path / "straight")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "straight").read_bytes()


def test_numbered_clients_too(tmp_path: Path) -> None:
    sel = Selector(np.ones(50), 3, schedule={number: KINDS[number % 3] for number in range(50)})
    played(sel, 3)
    sel.save(tmp_path / "state")
    assert played(Selector.load(tmp_path / "state"), 3) == played(sel, 3)


@pytest.mark.parametrize("here", [{"c": Geometric(9.0, 0.1)}, None])
def test_a_changed_schedule_is_refused_with_the_client_s_name(tmp_path: Path, here: dict | None) -> None:
    schedules = {"a": KINDS[0], "b": KINDS[0], "c": KINDS[1]}
    used = Selector(dict.fromkeys("abc", 1.0), 1, schedule=schedules)
    used.save(tmp_path / "state")
    other = KINDS[0] if here is None else schedules | here
    with pytest.raises(StateFileError, match=r"its schedule of client 'c' is .*'budget': 4.0.* a budget is for life"):
        Selector(dict.fromkeys("abc", 1.0), 1, schedule=other).restore(*used.state())
    with pytest.raises(StateFileError, match="client 'c'"):
        Selector.load(tmp_path / "state", schedule=other)
    Selector.load(tmp_path / "state", schedule=dict(reversed(schedules.items())))


def test_a_single_schedule_does_not_become_several(tmp_path: Path) -> None:
    used = Selector(np.ones(3), 1, schedule=KINDS[0])
    with pytest.raises(StateFileError, match=r"its schedule of client 2 is .*40.0"):
        Selector(np.ones(3), 1, schedule={0: KINDS[0], 1: KINDS[0], 2: KINDS[1]}).restore(*used.state())


def test_schedules_of_your_own_are_passed_again(tmp_path: Path) -> None:
    schedules = {"a": KINDS[0], "b": Own(3.0), "c": Own(3.0)}
    Selector(dict.fromkeys("abc", 1.0), 1, schedule=schedules).save(tmp_path / "state")
    with pytest.raises(StateFileError, match=r"schedule of your own for client 'b'; pass the schedules of all clients"):
        Selector.load(tmp_path / "state")
    mine = Own(3.0)  # one object for both
    Selector.load(tmp_path / "state", schedule={"a": KINDS[0], "b": mine, "c": mine})
    with pytest.raises(StateFileError, match="schedule of client 'c'"):
        Selector.load(tmp_path / "state", schedule=schedules | {"c": Own(4.0)})


def test_newcomers_and_their_schedules() -> None:
    sel = Selector({"a": 1.0, "b": 1.0}, 1, schedule=KINDS[0])
    sel.join({"c": 1.0})
    assert sel.reward.schedule == KINDS[0]
    sel.join({"d": 1.0, "e": 1.0}, schedules={"e": FixedHorizon(6.0, 1)})
    sel.report(dict.fromkeys("abcde", 1))
    one = float(KINDS[0].spent(1))
    assert sel.spent().tolist() == pytest.approx([one, one, one, one, 6.0])
    assert sel.problem().solvent().tolist() == [True] * 4 + [False]
    with pytest.raises(InvalidValueError, match="schedules have none for client 'g', but must have one for every newc"):
        sel.join({"a": 3.0, "f": 1.0, "g": 1.0}, schedules={"f": KINDS[0]})
    assert sel.cohort.sizes.tolist() == [1.0] * 5
    sel.join({"a": 3.0})  # one that is known needs none
    sel.join({"e": 2.0}, schedules={"e": FixedHorizon(6.0, 1)})
    sel.leave(["e"])
    with pytest.raises(
        InvalidValueError, match=r"schedule of client 'e' is .*9\), but must stay .* a budget is for li"
    ):
        sel.join({"e": 2.0}, schedules={"e": FixedHorizon(6.0, 9)})
    with pytest.raises(InvalidValueError, match="schedules name client 'E'"):
        sel.join({"e": 2.0}, schedules={"E": FixedHorizon(6.0, 1)})
    with pytest.raises(InvalidValueError, match="schedules are a Geometric, but must be a mapping"):
        sel.join({"h": 2.0}, schedules=KINDS[0])
    with pytest.raises(InvalidValueError, match="size of client 'h'"):
        sel.join({"h": -2.0}, schedules={"h": FixedHorizon(7.0, 7)})
    assert len(sel.reward.budgets.table.schedules) == 2


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ({"a": KINDS[0]}, "schedule has none for client 'b', but must have one for every client; add it"),
        ({}, "schedule has none for client 'a'"),
        ({"a": KINDS[0], "b": 40.0}, "schedule of client 'b' is 40.0, but must be a schedule"),
        ([KINDS[0]] * 50_000, "schedule is .Geometric"),
        ({"a": KINDS[0], "b": dict.fromkeys(range(50000), KINDS[0])}, "schedule of client 'b' is .0: Geometric"),
        ({"a": KINDS[0], "b": "x" * 10**6}, "schedule of client 'b' is 'xxx"),
    ],
)
def test_wrong_schedules_are_named_in_a_short_line(schedule: object, words: str) -> None:
    with pytest.raises(InvalidValueError, match=words) as refused:
        Selector({"a": 1.0, "b": 1.0}, 1, schedule=schedule)
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)


LONG, HUGE = "x" * 10**5, dict.fromkeys(range(10**5), 0.5)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Selector({"a": HUGE}, 1),
        lambda: Selector({LONG: 0.0}, 1),
        lambda: Selector(LONG, 1),
        lambda: Selector({"a": 1.0}, 1, alpha=HUGE),
        lambda: Selector({"a": 1.0}, 1, policy=HUGE),
        lambda: Selector({"a": 1.0}, 1, policy="brute", phi=HUGE),
        lambda: Selector({"a": 1.0}, HUGE),
        lambda: Selector({"a": 1.0}, 1, clusters=np.ones((300, 300))),
        lambda: Selector({LONG: 1.0}, 1, clusters={}),
        lambda: Selector({LONG: 1.0}, 1, schedule={}),
        lambda: Selector({"a": 1.0}, 1, prior={"a": HUGE}),
        lambda: Selector({"a": 1.0}, 1).select([LONG]),
        lambda: Selector({"a": 1.0}, 1).leave(LONG),
        lambda: Selector({"a": 1.0}, 1).join(list(HUGE)),
        lambda: Selector({"a": 1.0}, 1).report({LONG: 1}),
        lambda: Selector({"a": 1.0}, 1).report({"a": HUGE}),
        lambda: Selector({"a": 1.0}, 1).report(left={LONG: HUGE}),
    ],
)
def test_no_message_prints_all_of_something_large(wrong: object) -> None:
    with pytest.raises(PauseError) as refused:
        wrong()
    assert len(str(refused.value)) < 700


def test_the_simulator_wants_a_single_schedule() -> None:
    sel = Selector(np.ones(2), 1, schedule={0: KINDS[0], 1: KINDS[1]})
    with pytest.raises(InvalidValueError, match="schedules are 2 different ones, but must be one for all clients here"):
        Simulation(sel, Network(two_groups(2), 0))
