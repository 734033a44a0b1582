"""Laws of the ledger: plays without gaps, no name twice, a fixed budget never exceeded, nothing on refusal."""

from __future__ import annotations

import math
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pausefl.errors import (
    AlreadyReservedError,
    BudgetExceededError,
    InvalidValueError,
    LedgerError,
    ScheduleChangedError,
)
from pausefl.privacy import (
    FixedHorizon,
    Gaussian,
    Geometric,
    Laplace,
    PowerLaw,
    PrivUnit,
    Schedule,
    SimulatedNoise,
    SqliteLedger,
)
from pausefl.privacy.ledger.charge import epsilon_left
from pausefl.privacy.ledger.price import DELTA_LIMIT, releases_within_limit


@pytest.fixture
def ledger(tmp_path) -> SqliteLedger:
    return SqliteLedger.create(tmp_path / "ledger.db", clock=lambda: 5.0)


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
        charge = ledger.reserve("a", f"run/{play}", schedule)
        assert (charge.play, charge.release, charge.epsilon) == (play, f"run/{play}", schedule.epsilon(play))
        assert (charge.unit, charge.mechanism, charge.noise, charge.budget) == (*["unstated"] * 3, 40.0)
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
        if name is not None:
            with pytest.raises(InvalidValueError):
                ledger.reserve("a", "run/1", Geometric(40.0, 0.04), mechanism=name)
    with pytest.raises(InvalidValueError, match="subject"):
        ledger.charges(name)
    with pytest.raises(InvalidValueError, match="schedule"):
        ledger.reserve("a", "run/1", name)
    assert ledger.subjects() == ()


def test_a_name_that_cannot_be_looked_up_is_refused_in_one_line(ledger):
    for name in ([], {}, b"a"):
        with pytest.raises(InvalidValueError, match="printable"):
            ledger.reserve(name, "run/1", Geometric(40.0, 0.04))
        with pytest.raises(InvalidValueError, match="printable"):
            ledger.reserve("a", name, Geometric(40.0, 0.04))


@dataclass(frozen=True)
class Worded(Schedule):
    """A schedule from elsewhere, that prints as it likes."""

    text: str = "Worded()"
    budget: float = 1.0

    def __repr__(self):
        return self.text

    def _share(self, release):
        return 0.1

    def _shares(self, plays):
        return plays * 0.1


@pytest.mark.parametrize(
    "schedule",
    [
        *(Worded(text) for text in ("a\nb", "\x1b[2J", "\ud800", "", "x" * 1001)),
        *(Worded(budget=budget) for budget in (math.inf, math.nan, -1.0, 0.0, "40")),
    ],
    ids=lambda schedule: ascii(schedule.text)[:12] + repr(schedule.budget),
)
def test_a_foreign_schedule_is_checked(ledger, schedule):
    with pytest.raises(InvalidValueError):
        ledger.reserve("a", "run/1", schedule)
    assert ledger.subjects() == ()
    assert ledger.reserve("a", "run/1", Worded()).epsilon == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("mechanism", "unit", "delta", "loss"),
    [
        (Laplace(unit="coordinate", width=1.0), "coordinate", 0.0, "laplace"),
        (Laplace(unit="update", l1=1.0), "update", 0.0, "laplace"),
        (Gaussian(l2=1.0, delta=1e-5), "update", 1e-5, "gaussian"),
        (PrivUnit(l2=1.0), "update", 0.0, "pure"),
    ],
)
def test_unit_and_delta_come_from_the_mechanism(ledger, mechanism, unit, delta, loss):
    noise = SimulatedNoise(np.random.default_rng(0))
    charge = ledger.reserve("a", "run/1", FixedHorizon(8.0, 4), mechanism=mechanism, noise=noise)
    assert (charge.unit, charge.delta, charge.loss) == (unit, delta, loss)
    assert (charge.mechanism, charge.noise) == (repr(mechanism), "simulated")
    assert charge.least == mechanism.least_epsilon > 0.0
    assert ledger.charges("a") == (charge,) and ledger.spent_delta("a") == delta


def test_the_dimension_is_written_down(ledger):
    schedule = Geometric(40.0, 0.04)
    assert [ledger.reserve("a", str(d), schedule, dimension=d).dimension for d in (None, 1, 2410, 2**53)] == [
        0, 1, 2410, 2**53,
    ]  # fmt: skip
    assert [row.dimension for row in ledger.charges("a")] == [0, 1, 2410, 2**53]
    for wrong in (0, -1, 2**53 + 1, 1.0, True, "7", np.int64(7)):
        with pytest.raises(InvalidValueError, match="dimension"):
            ledger.reserve("a", "next", schedule, dimension=wrong)
    assert len(ledger.charges("a")) == 4


def test_delta_is_summed_and_limited(ledger):
    """Ten releases of 1e-4 reach the limit of 1e-3; epsilon would have lasted for a hundred."""
    schedule, mechanism = FixedHorizon(40.0, 100), Gaussian(l2=1.0, delta=1e-4)
    for i in range(9):
        ledger.reserve("a", f"{i}", schedule, mechanism=mechanism)
    assert ledger.spent_delta("a") == pytest.approx(9e-4)
    with pytest.raises(BudgetExceededError, match=r"delta to 0\.0010.*limit is 0\.001"):
        ledger.reserve("a", "next", schedule, mechanism=Gaussian(l2=1.0, delta=1.01e-4))
    assert ledger.reserve("a", "next", schedule, mechanism=Laplace(unit="update", l1=1.0)).delta == 0.0
    with pytest.raises(BudgetExceededError, match="delta"):
        ledger.reserve("b", "1", schedule, mechanism=Gaussian(l2=1.0, delta=0.01))
    assert len(ledger.charges("a")) == 10 and ledger.subjects() == ("a",)


MECHANISMS = [
    None,
    Laplace(unit="coordinate", width=1.0),
    Laplace(unit="update", l1=1.0),
    Gaussian(l2=1.0, delta=1e-6),
    PrivUnit(l2=1.0),
]


@pytest.mark.parametrize("later", MECHANISMS, ids=repr)
@pytest.mark.parametrize("first", MECHANISMS, ids=repr)
def test_the_unit_is_fixed_at_the_first_reservation(ledger, first, later):
    """A budget of whole updates that goes on per coordinate would promise the same number and mean d times it."""
    units = [mechanism.guarantee.unit if mechanism else "unstated" for mechanism in (first, later)]
    schedule = FixedHorizon(8.0, 4)
    ledger.reserve("a", "run/1", schedule, mechanism=first)
    if units[0] == units[1]:
        assert ledger.reserve("a", "run/2", schedule, mechanism=later).unit == units[0]
        return
    with pytest.raises(ScheduleChangedError, match=f"unit is '{units[1]}', but 'a' was fixed to '{units[0]}'"):
        ledger.reserve("a", "run/2", schedule, mechanism=later)
    assert len(ledger.charges("a")) == 1
    assert ledger.reserve("b", "run/1", schedule, mechanism=later).unit == units[1]


def test_a_retired_subject_has_spent_everything_for_ever(ledger):
    schedule = Geometric(40.0, 0.04)
    for i in range(3):
        ledger.reserve("a", f"run/{i}", schedule, mechanism=PrivUnit(l2=1.0))
    ledger.reserve("b", "run/0", schedule)
    last = ledger.retire("a")
    assert (last.release, last.play, last.budget, last.unit, last.delta) == ("retired", 4, 40.0, "update", 0.0)
    assert ledger.spent("a") == 40.0 and ledger.charges("a")[-1] == last
    assert ledger.checked_releases() == {"a": 3, "b": 1}
    for mechanism, other in ((PrivUnit(l2=1.0), schedule), (None, FixedHorizon(99.0, 3))):
        with pytest.raises(BudgetExceededError, match=r"'a' was retired at 1970-01-01T00:00:05\.000Z"):
            ledger.reserve("a", "run/9", other, mechanism=mechanism)
    with pytest.raises(BudgetExceededError, match="retired at"):  # not even what left before is sent again
        ledger.reserve("a", "run/1", schedule, mechanism=PrivUnit(l2=1.0))
    with pytest.raises(AlreadyReservedError, match="retired at"):
        ledger.retire("a")
    assert ledger.reserve("b", "run/1", schedule).play == 2 and len(ledger.charges("a")) == 4


def test_a_subject_without_releases_can_be_retired(ledger):
    last = ledger.retire("a")
    assert (last.play, last.epsilon, last.budget, last.schedule) == (1, 0.0, 0.0, "retired")
    assert ledger.checked_releases() == {"a": 0} and SqliteLedger(ledger.path).verify().rows == 1
    with pytest.raises(BudgetExceededError, match="retired"):
        ledger.reserve("a", "run/1", Geometric(40.0, 0.04))
    with pytest.raises(InvalidValueError, match="subject"):
        ledger.retire("a\nb")


def test_nobody_else_may_use_the_name_of_a_retirement(ledger):
    with pytest.raises(InvalidValueError, match="marks a subject that was retired"):
        ledger.reserve("a", "retired", Geometric(40.0, 0.04))
    assert ledger.subjects() == ()


@settings(max_examples=300, deadline=None)
@given(budget=st.floats(1e-6, 1e6), shares=st.lists(st.floats(0.0, 1.0, exclude_min=True), min_size=0, max_size=12))
def test_what_is_left_brings_the_sum_to_the_budget_and_never_above(budget, shares):
    spent = []
    for share in shares:
        now = share * (budget - math.fsum(spent))
        if now > 0.0 and math.fsum([*spent, now]) <= budget:
            spent.append(now)
    total = math.fsum([*spent, epsilon_left(budget, spent)])
    assert math.nextafter(budget, 0.0) <= total <= budget


def test_a_charge_that_no_release_could_use_is_refused(ledger):
    """A steep schedule soon falls below what a mechanism can do; charging on would spend the name for nothing."""
    schedule, mechanism = Geometric(1.0, 10.0), PrivUnit(l2=1.0)
    ledger.reserve("a", "1", schedule, mechanism=mechanism)
    ledger.reserve("a", "2", schedule, mechanism=mechanism)
    with pytest.raises(BudgetExceededError, match="privunit needs 1e-06"):
        ledger.reserve("a", "3", schedule, mechanism=mechanism)
    with pytest.raises(InvalidValueError, match="at most 500"):
        ledger.reserve("b", "1", FixedHorizon(1000.0, 1), mechanism=mechanism)
    assert len(ledger.charges("a")) == 2 and ledger.subjects() == ("a",)


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
        self.ledger = SqliteLedger.create(Path(self.folder.name) / "ledger.db")
        self.model: dict[str, tuple[Schedule | None, object, list[str]]] = {}
        self.copies = 0

    @rule(
        subject=st.sampled_from("ab"),
        release=st.sampled_from([f"run/{i}" for i in range(8)]),
        schedule=st.sampled_from([FixedHorizon(2.0, 3), FixedHorizon(9.0, 3), Geometric(5.0, 0.5)]),
        mechanism=st.sampled_from([None, PrivUnit(l2=1.0), PrivUnit(l2=1.0), Laplace(unit="coordinate", width=1.0)]),
        dimension=st.none() | st.integers(1, 2**53),
    )
    def reserve(self, subject: str, release: str, schedule: Schedule, mechanism: object, dimension: int | None) -> None:
        fixed, fixed_mechanism, names = self.model.get(subject, (schedule, mechanism, []))
        refused: type[Exception] | None = None
        if "retired" in names:
            refused = BudgetExceededError
        elif (fixed, fixed_mechanism) != (schedule, mechanism):  # here each mechanism has a unit of its own
            refused = ScheduleChangedError
        elif release in names:
            refused = AlreadyReservedError
        elif schedule.limit is not None and len(names) >= schedule.limit:
            refused = BudgetExceededError
        if refused:
            with pytest.raises(refused):
                self.ledger.reserve(subject, release, schedule, mechanism=mechanism, dimension=dimension)
            return
        charge = self.ledger.reserve(subject, release, schedule, mechanism=mechanism, dimension=dimension)
        assert (charge.play, charge.dimension) == (len(names) + 1, dimension or 0)
        self.model[subject] = (schedule, mechanism, [*names, release])

    @precondition(lambda self: self.model)
    @rule(subject=st.sampled_from("abc"), really=st.integers(0, 5))
    def retire(self, subject: str, really: int) -> None:
        schedule, mechanism, names = self.model.get(subject, (None, None, []))
        if "retired" in names:
            with pytest.raises(AlreadyReservedError):
                self.ledger.retire(subject)
        elif not really:  # seldom: most lives should be longer
            assert self.ledger.retire(subject).play == len(names) + 1
            self.model[subject] = (schedule, mechanism, [*names, "retired"])

    @rule()
    def reopen(self) -> None:
        self.ledger = SqliteLedger(self.ledger.path)

    @rule()
    def back_up_and_restore(self) -> None:
        """Going on with the restored ledger is going on with the ledger."""
        self.copies += 1
        backup, ledger = (Path(self.folder.name) / f"{self.copies}-{name}.db" for name in ("backup", "ledger"))
        head = self.ledger.backup(backup)
        with pytest.raises(LedgerError, match="backup"):
            SqliteLedger(backup).retire("a")
        restored = SqliteLedger.restore(backup, ledger)
        assert head == self.ledger.head == restored.head and restored.id == self.ledger.id
        assert restored.contains(head) and not restored.is_backup
        self.ledger = restored

    @invariant()
    def it_agrees_with_the_model(self) -> None:
        assert set(self.ledger.subjects()) == set(self.model)
        counts = {subject: len(set(names) - {"retired"}) for subject, (_, _, names) in self.model.items()}
        assert self.ledger.checked_releases() == counts
        for subject, (schedule, _, names) in self.model.items():
            rows = self.ledger.charges(subject)
            assert [row.release for row in rows] == names
            assert [row.play for row in rows] == list(range(1, len(names) + 1))
            if "retired" in names:
                assert self.ledger.spent(subject) == (schedule.budget if schedule else 0.0)
            else:
                spent = math.fsum(schedule.epsilon(row.play) for row in rows)
                assert self.ledger.spent(subject) == spent <= schedule.budget

    def teardown(self) -> None:
        self.folder.cleanup()


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)


@pytest.mark.parametrize("delta", [1e-3, 3e-4, 1e-5, 1.926782273603083e-06, 2.408477842003854e-07])
def test_the_count_of_releases_within_the_limit_is_the_rules_own(delta: float) -> None:
    count = releases_within_limit(delta)
    assert math.fsum([delta] * count) <= DELTA_LIMIT < math.fsum([delta] * (count + 1))
