"""What a state file keeps, and that a selector made with other arguments refuses it."""

import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pausefl.errors import StateFileError
from pausefl.privacy import FixedHorizon, Geometric, PowerLaw
from pausefl.rewards import LabelDiversity
from pausefl.selection import POLICIES, Annealer, Candidates, Fastest, Policy, SaPause
from pausefl.selector import Selector
from pausefl.selector.decision import Selection


def step(sel: Selector, number: int) -> Selection:
    chosen = sel.select()
    sel.observe({k: 0.5 + 0.01 * ((number + len(str(k))) % 5) for k in chosen.members})
    return chosen


def played(sel: Selector, rounds: int) -> list[Selection]:
    return [step(sel, number) for number in range(rounds)]


@pytest.mark.parametrize("schedule", [Geometric(40.0, 0.04), PowerLaw(10.0, 2.0), FixedHorizon(100.0, 50)])
@pytest.mark.parametrize("pending", [False, True])
def test_load_continues_to_the_bit(tmp_path: Path, schedule: object, pending: bool) -> None:
    def fresh() -> Selector:
        return Selector(
            {"a": 3, "b": 5, "c": 2, "d": 4, "e": 1}, 2, schedule=schedule,
            clusters={"a": 0, "b": 0, "c": 1, "d": 1, "e": 7}, rho=0.01, seed=9,
        )  # fmt: skip

    straight = fresh()
    wanted = played(straight, 9)
    sel = fresh()
    got = played(sel, 4)
    sel.leave(["e"])
    sel.join({"e": 1}, clusters={"e": 7})
    open_round = sel.select() if pending else None
    sel.save(tmp_path / "state")
    again = Selector.load(tmp_path / "state")
    if open_round is not None:
        again.observe({k: 0.5 + 0.01 * ((4 + len(str(k))) % 5) for k in open_round.members})
        got.append(open_round)
    got += [step(again, number) for number in range(len(got), 9)]
    assert got == wanted
    for column in ("picks", "rate", "sizes", "keys"):
        assert getattr(again.cohort, column).tobytes() == getattr(straight.cohort, column).tobytes()
    again.save(tmp_path / "again")
    straight.save(tmp_path / "straight")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "straight").read_bytes()


def test_numbered_clients_survive_a_save(tmp_path: Path) -> None:
    sel = Selector(np.ones(50), 3, seed=2)
    played(sel, 3)
    sel.save(tmp_path / "state")
    assert played(Selector.load(tmp_path / "state"), 3) == played(sel, 3)


@pytest.mark.parametrize("damage", ["empty", "cut", "flip", "version", "foreign", "tail"])
def test_damaged_state_is_refused_and_left_alone(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "state"
    Selector(np.ones(9), 2).save(path)
    content = bytearray(path.read_bytes())
    if damage == "empty":
        content = bytearray()
    elif damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "flip":
        content[len(content) // 2] ^= 4
    elif damage == "version":
        content = content.replace(b"pausefl state 1", b"pausefl state 7", 1)
    elif damage == "foreign":
        content = bytearray(b"hello\n" * 9)
    else:
        content += b"x"
    path.write_bytes(content)
    with pytest.raises(StateFileError) as refused:
        Selector.load(path)
    assert "\n" not in str(refused.value)
    assert ("version 7" in str(refused.value)) == (damage == "version")
    assert path.read_bytes() == content


def test_a_state_that_is_not_there_is_told_from_one_that_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist; pass a file") as missing:
        Selector.load(tmp_path / "none")
    assert isinstance(missing.value, StateFileError)
    with pytest.raises(StateFileError, match="cannot be read"):
        Selector.load(tmp_path)


def test_settings_of_your_own_must_be_passed_again(tmp_path: Path) -> None:
    mine = SaPause(Annealer(steps=77))
    Selector(np.ones(5), 2, mine).save(tmp_path / "a")
    with pytest.raises(StateFileError, match="pass it again as policy"):
        Selector.load(tmp_path / "a")
    Selector.load(tmp_path / "a", policy=mine)
    for other in ("random", SaPause(Annealer(steps=5))):
        with pytest.raises(StateFileError, match="its policy is"):
            Selector.load(tmp_path / "a", policy=other)
    with pytest.raises(StateFileError, match="a budget is for life"):
        Selector.load(tmp_path / "a", policy=mine, schedule=Geometric(400.0, 0.04))
    Selector(np.ones(5), 2, "brute", phi=lambda ids: float(len(ids))).save(tmp_path / "b")
    with pytest.raises(StateFileError, match="phi"):
        Selector.load(tmp_path / "b")


def test_saving_is_atomic_under_kill(tmp_path: Path) -> None:
    # A child saves alternating states as fast as it can; whenever it is killed, the file must load.
    path = tmp_path / "state"
    code = (
        "import sys, numpy as np\n"
        "from pausefl.selector import Selector\n"
        "sel = Selector(np.ones(20000), 5)\n"
        "sel.save(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    sel.observe(dict.fromkeys(sel.select().members, 0.3))\n"
        "    sel.save(sys.argv[1])\n"
        "    print(sel.rounds, flush=True)\n"
    )
    for saves in range(1, 5):
        child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        for _ in range(saves):
            begun = time.monotonic()
            child.stdout.readline()
        time.sleep(0.2 * saves * (time.monotonic() - begun))  # another part of the next save each time
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        assert Selector.load(path).rounds >= saves


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    sel = Selector(np.ones(5), 2)
    sel.save(path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    played(sel, 1)
    with pytest.raises(OSError, match="No space left"):
        sel.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["state"]


def test_numpy_numbers_can_be_saved(tmp_path: Path) -> None:
    sel = Selector(np.array([1, 2, 3]), np.int64(2), alpha=np.float32(3), schedule=Geometric(np.float64(4.0), 0.5))
    sel.save(tmp_path / "state")
    assert Selector.load(tmp_path / "state").reward.alpha == 3.0


def test_links_and_modes_are_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    Selector(np.ones(3), 1).save(real)
    real.chmod(0o640)
    link.symlink_to(real)
    Selector(np.ones(4), 1).save(link)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert len(Selector.load(real).cohort) == 4
    with pytest.raises(StateFileError, match="in a folder that exists"):
        Selector(np.ones(3), 1).save(tmp_path / "nowhere" / "x")


class Own:
    """A schedule of somebody's own."""

    limit = None

    def __init__(self, budget: float, rate: float) -> None:
        self.budget, self.rate = budget, rate

    def spent(self, plays: np.ndarray) -> np.ndarray:
        return self.budget * -np.expm1(-self.rate * np.asarray(plays, dtype=float))


class Named(Policy):
    """A policy that calls itself like one of ours."""

    name = "sa-pause"

    def pick(self, candidates: object) -> object:
        raise NotImplementedError

    def settings(self) -> str:
        return SaPause().settings()


def spread(ids: object) -> float:
    return float(len(set(map(str, ids))))


def even(ids: object) -> float:
    return float(len(list(ids)) % 2)


LABELS = {"a": [1, 2], "b": [2, 1], "c": [3, 3]}
MADE = {
    "sizes": {"a": 1, "b": 2, "c": 3}, "per_round": 2, "policy": "sa-pause", "alpha": 100.0, "beta": 2.0, "gamma": 5.0,
    "zeta": 1.0, "schedule": FixedHorizon(8.0, 4), "tau_min": 0.05, "clusters": [0, 0, 1], "rho": 0.1,
    "phi": spread, "prior": [0.3, None, None], "memory": 9, "warm_up": 1, "seed": 3,
}  # fmt: skip
DIFFERENT = [
    ("sizes", {"c": 3, "b": 2, "a": 1}, "ids is ['a', 'b', 'c'], but here it is ['c', 'b', 'a']"),
    ("sizes", {"x": 1, "b": 2, "c": 3}, "ids is ['a'"),
    ("sizes", [1, 2, 3], "ids is ['a', 'b', 'c'], but here it is None"),
    ("per_round", 1, "per_round is 2, but here it is 1"),
    ("policy", "brute", "policy is sa-pause, but here it is brute"),
    ("policy", SaPause(Annealer(steps=9)), "policy is SaPause(how=Annealer(steps=None"),
    ("policy", SaPause(Annealer(restarts=False)), "restarts=True), start=None), but here it is …"),
    ("policy", Named(), "policy's class is SaPause, but here it is Named"),
    ("alpha", 0.0, "alpha is 100.0, but here it is 0.0"),
    ("beta", 3.0, "beta is 2.0, but here it is 3.0"),
    ("gamma", 0.0, "gamma is 5.0, but here it is 0.0"),
    ("zeta", 2.0, "zeta is 1.0, but here it is 2.0"),
    ("schedule", FixedHorizon(4000.0, 4), "8.0, 'releases': 4}, but here it is {'kind': 'FixedHorizon', 'budget'"),
    ("schedule", FixedHorizon(8.0, 5), "a budget is for life"),
    ("schedule", Geometric(8.0, 0.04), "'kind': 'FixedHorizon'"),
    ("schedule", Own(8.0, 0.1), "'own': 'Own'"),
    ("tau_min", None, "tau_min is 0.05, but here it is None"),
    ("clusters", [0, 1, 1], "clusters is 0 for client number 1, but here it is 1 for client number 1"),
    ("rho", 0.2, "rho is 0.1, but here it is 0.2"),
    ("phi", None, "phi is spread, but here it is None"),
    ("phi", even, "phi is spread, but here it is even"),
    ("phi", LabelDiversity(LABELS), "phi is spread, but here it is LabelDiversity"),
    ("memory", None, "memory is 9, but here it is None"),
    ("warm_up", 0, "warm_up is 1, but here it is 0"),
    ("prior", None, "prior is set, but here it is None"),
    ("prior", {"a": 0.4}, "prior is 0.3 for client number 0, but here it is 0.4 for client number 0"),
    ("prior", [0.3, 0.3, None], "prior is nan for client number 1, but here it is 0.3 for client number 1"),
    ("seed", 4, "seed is 3, but here it is 4"),
]  # fmt: skip


def test_every_argument_of_a_selector_has_a_row() -> None:
    arguments = set(inspect.signature(Selector.__init__).parameters) - {"self", "log"}  # a log is no part of a state
    assert arguments == set(MADE) == {name for name, _, _ in DIFFERENT}


@pytest.mark.parametrize(("name", "value", "words"), DIFFERENT)
def test_the_state_of_a_selector_with_another_argument_is_refused(name: str, value: object, words: str) -> None:
    used = Selector(**MADE)
    played(used, 2)
    other = Selector(**(MADE | {name: value}))
    with pytest.raises(StateFileError) as refused:
        other.restore(*used.state())
    assert str(refused.value).startswith("the state belongs to another selector: its ")
    assert words in str(refused.value)
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)
    assert other.rounds == 0
    Selector(**MADE).restore(*used.state())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"clusters": None, "rho": 0.0}, "rho is 0.1"),
        ({"sizes": {"a": 1, "b": 2}, "clusters": [0, 0], "prior": None}, "number of clients is 3, but here it is 2"),
    ],
)
def test_arguments_that_can_only_change_together(change: dict, words: str) -> None:
    with pytest.raises(StateFileError, match=words):
        Selector(**(MADE | change)).restore(*Selector(**MADE).state())


def test_clusters_are_set_or_not() -> None:
    with pytest.raises(StateFileError, match="clusters is set, but here it is None"):
        Selector([1, 2], 1).restore(*Selector([1, 2], 1, clusters=[0, 1]).state())


@pytest.mark.parametrize("other", [Own(41.0, 0.1), Own(40.0, 0.2), Geometric(40.0, 0.1)])
def test_a_schedule_of_your_own_is_known_by_what_it_spends(tmp_path: Path, other: object) -> None:
    used = Selector(np.ones(4), 2, schedule=Own(40.0, 0.1))
    used.save(tmp_path / "state")
    with pytest.raises(StateFileError, match=r"saved with a schedule of your own; pass it again"):
        Selector.load(tmp_path / "state")
    Selector.load(tmp_path / "state", schedule=Own(40.0, 0.1))
    with pytest.raises(StateFileError, match="a budget is for life"):
        Selector.load(tmp_path / "state", schedule=other)


def test_a_set_function_that_is_a_dataclass_is_known_by_its_values() -> None:
    one, same, other = (
        Selector(dict.fromkeys(LABELS, 1), 2, "brute", phi=LabelDiversity(LABELS, weight=weight))
        for weight in (1.0, 1.0, 2.0)
    )
    same.restore(*one.state())
    with pytest.raises(StateFileError, match="phi is LabelDiversity"):
        other.restore(*one.state())


@dataclass(eq=False)
class Weighted(Policy):
    """A policy with fields of many kinds."""

    name = "weighted"
    weights: object = None
    rule: Callable[..., float] = spread

    def pick(self, candidates: object) -> object:
        raise NotImplementedError


class Plain(Policy):
    """A policy that is no dataclass: an option, and a memory."""

    name = "plain"

    def __init__(self, power: float) -> None:
        self.power, self.seen = power, 0

    def pick(self, candidates: Candidates) -> list[int]:
        self.seen += 1
        return [0]

    def state(self) -> dict[str, int]:
        return {"seen": self.seen}


def test_a_policy_is_known_by_its_options_but_not_by_what_it_remembers(tmp_path: Path) -> None:
    sel = Selector(np.ones(3), 1, Plain(2.0))
    sel.select()
    sel.save(tmp_path / "state")
    Selector.load(tmp_path / "state", policy=Plain(2.0))
    with pytest.raises(StateFileError, match=r"its policy is plain \{'power': 2.0\}, but here it is .* 3.0"):
        Selector.load(tmp_path / "state", policy=Plain(3.0))
    header, arrays = sel.state()
    Selector(np.ones(3), 1, Plain(2.0)).restore(header | {"settings": "plain"}, arrays)  # an earlier file


BIG = np.arange(5000.0)


@pytest.mark.parametrize(
    ("one", "same"),
    [
        (SaPause(Annealer(steps=10)), SaPause(Annealer(steps=np.int64(10), kappa=3000))),
        (Fastest({0: 1.0, 1: 2.0, 2: 3.0}), Fastest({2: 3, 1: np.float32(2.0), 0: 1})),
        (Weighted(BIG, even), Weighted(BIG.astype(np.int32), even)),
        (Weighted([{"a": {1, 2}}, LabelDiversity(LABELS)]), Weighted([{"a": {2.0, 1}}, LabelDiversity(LABELS)])),
        (Weighted(Own(1.0, 2.0)), Weighted(Own(1.0, 2.0))),
        (Weighted(-0.0), Weighted(0)),
    ],
)
def test_settings_that_are_equal_are_the_same(one: Policy, same: Policy) -> None:
    Selector(np.ones(3), 1, same).restore(*Selector(np.ones(3), 1, one).state())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Weighted(BIG), Weighted(np.where(BIG == 2500, 0.0, BIG))),
        (Weighted(BIG), Weighted(BIG.reshape(50, 100))),
        (Weighted(np.array([2**62])), Weighted(np.array([2**62 + 1]))),
        (Weighted(np.array(["a"])), Weighted(np.array(["b"]))),
        (Weighted(2**62), Weighted(2**62 + 1)),
        (Weighted(1), Weighted(True)),
        (Weighted(1), Weighted("1.0")),
        (Weighted((1, 2)), Weighted([1, 2])),
        (Weighted({"a": 1}), Weighted({"a": 2})),
        (Weighted(rule=spread), Weighted(rule=even)),
    ],
)
def test_settings_that_differ_are_refused(one: Policy, other: Policy) -> None:
    with pytest.raises(StateFileError, match="its policy is Weighted"):
        Selector(np.ones(3), 1, other).restore(*Selector(np.ones(3), 1, one).state())


def test_a_large_set_function_is_known_by_all_its_values() -> None:
    one, same, other = (
        Selector({"a": 1, "b": 1}, 1, "brute", phi=LabelDiversity({"a": BIG, "b": last}))
        for last in (BIG, BIG.astype(np.int64), np.where(BIG == 2500, 0.0, BIG))
    )
    same.restore(*one.state())
    with pytest.raises(StateFileError, match="phi is LabelDiversity"):
        other.restore(*one.state())


@pytest.mark.parametrize("policy", [SaPause(Annealer(steps=9)), Fastest({1: 2.0, 0: 1.0, 2: 3.0}), Fastest(np.ones(3))])
def test_settings_as_earlier_files_have_them_are_the_same(policy: Policy) -> None:
    header, arrays = Selector(np.ones(3), 1, policy).state()
    Selector(np.ones(3), 1, policy).restore(header | {"settings": repr(policy)}, arrays)


def test_default_settings_are_stored_as_ever(tmp_path: Path) -> None:
    for name, kind in POLICIES.items():
        if kind.__module__.startswith("pausefl.selection.peers."):
            continue  # no older file has one of these
        sel = Selector(np.ones(3), 1, name)
        assert sel.state()[0]["settings"] in (repr(kind()), name)


def test_stored_sizes_win() -> None:
    used = Selector({"a": 1, "b": 2}, 1)
    used.join({"b": 7})
    again = Selector({"a": 1, "b": 2}, 1)
    again.restore(*used.state())
    assert again.cohort.sizes.tolist() == [1.0, 7.0]


def test_an_open_round_keeps_its_weights(tmp_path: Path) -> None:
    sel = Selector([9.0, 1.0, 1.0, 1.0], 3, "clustered", seed=1)
    chosen = sel.select()
    assert chosen.weights is not None
    sel.save(tmp_path / "s.state")
    assert Selector.load(tmp_path / "s.state").pending == chosen


def test_a_state_file_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    older = Path(__file__).with_name("older.state")
    sel = Selector.load(older)
    assert (sel.rounds, sel.policy.name, sel.cohort.picks.tolist()) == (3, "sa-pause", [1, 2, 1, 2])
    assert sel.pending is not None
    fresh = Selector(
        {"a": 3, "b": 5, "c": 2, "d": 4}, 2, "sa-pause", schedule=Geometric(40.0, 0.04),
        clusters={"a": 0, "b": 0, "c": 1, "d": 1}, rho=0.01, seed=9,
    )  # fmt: skip
    for _ in range(3):
        fresh.observe(dict.fromkeys(fresh.select().members, 0.5))
    assert fresh.select() == sel.pending
    # Earlier files said only whether there was a set function, and nothing of a schedule of the user's own.
    header, arrays = Selector(**(MADE | {"schedule": Own(8.0, 0.1)})).state()
    header |= {"phi": True, "schedule": None}
    Selector(**(MADE | {"schedule": Own(8.0, 0.1)})).restore(header, arrays)
    for change, words in (({"phi": None}, "phi is True, but here it is False"), ({}, "schedule is one of your own")):
        with pytest.raises(StateFileError, match=words):
            Selector(**(MADE | {"schedule": FixedHorizon(8.0, 4) if not change else Own(8.0, 0.1)} | change)).restore(
                header, arrays
            )
