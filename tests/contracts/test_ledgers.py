"""Laws of every ledger: plays without gaps, no name twice, a fixed budget never exceeded, nothing on refusal."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pausefl.errors import AlreadyReservedError, BudgetExceededError, InvalidValueError, ScheduleChangedError
from pausefl.privacy import FixedHorizon, Geometric, Ledger, MemoryLedger, PowerLaw, Schedule, SqliteLedger

Make = Callable[[], Ledger]
LEDGERS = ["memory", "sqlite"]


@pytest.fixture(params=LEDGERS)
def ledger(request, tmp_path) -> Iterator[Ledger]:
    yield MemoryLedger() if request.param == "memory" else SqliteLedger(tmp_path / "ledger.db", clock=lambda: 5.0)


@dataclass(frozen=True, slots=True)
class Lavish(Schedule):
    """A schedule that breaks its law: it hands out the whole budget every time."""

    budget: float

    def _share(self, release):
        return 0.6

    def _shares(self, plays):
        return plays * 0.6


def test_plays_count_from_one_without_gaps(ledger):
    schedule = Geometric(40.0, 0.04)
    for play in range(1, 6):
        charge = ledger.reserve("a", f"run/{play}", schedule, unit="update", mechanism="laplace")
        assert (charge.play, charge.release, charge.epsilon) == (play, f"run/{play}", schedule.epsilon(play))
        assert (charge.unit, charge.mechanism, charge.budget) == ("update", "laplace", 40.0)
    assert ledger.spent("a") == pytest.approx(float(schedule.spent(5)))
    assert ledger.charges("a")[-1] == charge
    assert ledger.charges("nobody") == () and ledger.spent("nobody") == 0.0


def test_subjects_are_apart(ledger):
    ledger.reserve("b", "run/1", Geometric(40.0, 0.04))
    assert ledger.reserve("a", "run/1", PowerLaw(10.0, 2.0)).play == 1
    assert ledger.subjects() == ("b", "a")
    assert ledger.spent("a") != ledger.spent("b")


def test_a_name_is_charged_once(ledger):
    schedule = Geometric(40.0, 0.04)
    first = ledger.reserve("a", "run/1", schedule)
    with pytest.raises(AlreadyReservedError, match="run/1"):
        ledger.reserve("a", "run/1", schedule)
    assert ledger.charges("a") == (first,)


@pytest.mark.parametrize(
    "later", [Geometric(80.0, 0.04), Geometric(20.0, 0.04), Geometric(40.0, 0.05), PowerLaw(40.0, 2.0)]
)
def test_budget_and_schedule_are_fixed_at_the_first_reservation(ledger, later):
    first = ledger.reserve("a", "run/1", Geometric(40.0, 0.04))
    with pytest.raises(ScheduleChangedError, match="fixed"):
        ledger.reserve("a", "run/2", later)
    assert ledger.charges("a") == (first,)
    assert ledger.reserve("a", "run/2", Geometric(40.0, 0.04)).play == 2


def test_over_budget_is_refused_even_if_the_schedule_breaks_its_law(ledger):
    ledger.reserve("a", "run/1", Lavish(1.0))
    with pytest.raises(BudgetExceededError, match=r"budget is 1\.0"):
        ledger.reserve("a", "run/2", Lavish(1.0))
    assert len(ledger.charges("a")) == 1


def test_the_end_of_a_fixed_horizon(ledger):
    schedule = FixedHorizon(3.0, 3)
    for play in range(3):
        ledger.reserve("a", f"{play}", schedule)
    with pytest.raises(BudgetExceededError):
        ledger.reserve("a", "3", schedule)
    assert ledger.spent("a") <= 3.0 and len(ledger.charges("a")) == 3


@pytest.mark.parametrize("name", ["", "x" * 1001, "a\nb", "a\x00b", "\ud800", 7, None])
def test_bad_names_are_refused(ledger, name):
    for subject, release in ((name, "run/1"), ("a", name)):
        with pytest.raises(InvalidValueError):
            ledger.reserve(subject, release, Geometric(40.0, 0.04))
    with pytest.raises(InvalidValueError):
        ledger.reserve("a", "run/1", Geometric(40.0, 0.04), unit=name)
    assert ledger.subjects() == ()


def test_a_schedule_that_does_not_print_its_values_is_refused(ledger):
    class Nameless(Schedule):
        budget = 1.0
        _share = _shares = lambda self, release: 0.1

    with pytest.raises(InvalidValueError, match="printed by its values"):
        ledger.reserve("a", "run/1", Nameless())


def test_there_is_no_way_back(ledger):
    assert not {"refund", "delete", "update", "release", "cancel", "reset"} & set(dir(ledger))
    charge = ledger.reserve("a", "run/1", Geometric(40.0, 0.04))
    with pytest.raises(FrozenInstanceError):
        charge.epsilon = 0.0


def test_threads_never_share_a_play(ledger):
    schedule = Geometric(40.0, 0.04)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: ledger.reserve("a", f"run/{i}", schedule).play, range(40)))
    assert sorted(found) == list(range(1, 41))


class Life(RuleBasedStateMachine):
    """Any sequence of calls, against a model that is a plain dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.ledgers = [MemoryLedger(), SqliteLedger(Path(self.folder.name) / "ledger.db")]
        self.model: dict[str, tuple[Schedule, list[str]]] = {}

    @rule(
        subject=st.sampled_from("ab"),
        release=st.sampled_from([f"run/{i}" for i in range(8)]),
        schedule=st.sampled_from([FixedHorizon(2.0, 3), FixedHorizon(9.0, 3), Geometric(5.0, 0.5)]),
    )
    def reserve(self, subject: str, release: str, schedule: Schedule) -> None:
        fixed, names = self.model.get(subject, (schedule, []))
        full = schedule.limit is not None and len(names) >= schedule.limit
        for ledger in self.ledgers:
            if fixed != schedule:
                with pytest.raises(ScheduleChangedError):
                    ledger.reserve(subject, release, schedule)
            elif release in names:
                with pytest.raises(AlreadyReservedError):
                    ledger.reserve(subject, release, schedule)
            elif full:
                with pytest.raises(BudgetExceededError):
                    ledger.reserve(subject, release, schedule)
            else:
                assert ledger.reserve(subject, release, schedule).play == len(names) + 1
        if fixed == schedule and release not in names and not full:
            self.model[subject] = (schedule, [*names, release])

    @rule()
    def reopen(self) -> None:
        self.ledgers[1] = SqliteLedger(Path(self.folder.name) / "ledger.db", create=False)

    @invariant()
    def both_agree_with_the_model(self) -> None:
        for ledger in self.ledgers:
            assert set(ledger.subjects()) == set(self.model)
            for subject, (schedule, names) in self.model.items():
                rows = ledger.charges(subject)
                assert [row.release for row in rows] == names
                assert [row.play for row in rows] == list(range(1, len(names) + 1))
                assert ledger.spent(subject) == math.fsum(schedule.epsilon(row.play) for row in rows) <= schedule.budget

    def teardown(self) -> None:
        self.folder.cleanup()


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
