"""The account in rho: its price in epsilon agrees with dp-accounting, and no history gets past the budget."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from hypothesis import given
from hypothesis import strategies as st

from pausefl.errors import BudgetExceededError, ScheduleChangedError
from pausefl.privacy import FixedHorizon, Gaussian, Geometric, PowerLaw, SqliteLedger
from pausefl.privacy.ledger.charge import Past, Reservation, alone_epsilon, next_charge
from pausefl.privacy.ledger.hash_chain import check_rows, row_of
from pausefl.privacy.ledger.price import leaked
from pausefl.privacy.ledger.statement import statement
from pausefl.privacy.zcdp import zcdp_epsilon, zcdp_within

DELTAS = st.floats(1e-12, 1e-2)
RECORD = Gaussian(l2=1.0, delta=1e-5, unit="record")


@given(st.floats(1e-6, 1e3), st.floats(1.0001, 10.0), DELTAS)
def test_epsilon_grows_with_rho(rho, factor, delta):
    assert 0.0 <= zcdp_epsilon(rho, delta) <= zcdp_epsilon(rho * factor, delta)


@given(st.floats(1e-4, 1e3), DELTAS)
def test_a_budget_is_worth_the_most_rho_that_fits_into_it(epsilon, delta):
    rho = zcdp_within(epsilon, delta)
    assert zcdp_epsilon(rho, delta) <= epsilon < zcdp_epsilon(rho * 1.001, delta)


@given(st.floats(1e-4, 100.0), DELTAS, st.floats(1e-6, 1.0))
def test_no_order_gives_a_smaller_epsilon(rho, delta, place):
    """The bound holds for every order, so the least of a whole grid must not be below ours."""
    orders = 1.0 + np.geomspace(1e-4, 1.0 / delta, 2000)
    bounds = rho * orders + np.log1p(-1.0 / orders) - np.log(delta * orders) / (orders - 1.0)
    assert zcdp_epsilon(rho, delta) <= max(0.0, float(bounds.min())) * (1.0 + 1e-12)


def charges(schedule, mechanism, count):
    """Return so many charges by the ledger's own rule, or fewer if it refuses."""
    made = []
    for number in range(count):
        columns = ([getattr(one, name) for one in made] for name in ("release", "epsilon", "delta", "rho"))
        past = Past(made[0] if made else None, made[-1] if made else None, *columns)
        try:
            made.append(next_charge(past, Reservation("a", f"{number}", schedule, mechanism), 0.0))
        except BudgetExceededError:
            break
    return made


def google(rhos, delta):
    """Return the epsilon of dp-accounting, at its own orders and at many near the best."""
    total = math.fsum(rhos)
    coarse = 1.0 + np.geomspace(1e-3, 1.0 / delta, 4000)
    bounds = total * coarse + np.log1p(-1.0 / coarse) - np.log(delta * coarse) / (coarse - 1.0)
    best = float(coarse[bounds.argmin()]) - 1.0
    orders = np.concatenate([rdp.rdp_privacy_accountant.DEFAULT_RDP_ORDERS, 1.0 + best * np.linspace(0.98, 1.02, 201)])
    accountant = rdp.RdpAccountant(orders=[order for order in orders if order > 1.02])
    for rho in rhos:
        accountant.compose(dp_accounting.dp_event.ZCDpEvent(rho))
    return accountant.get_epsilon(delta)


def test_500_random_histories_agree_with_dp_accounting():
    rng = np.random.default_rng(16)
    for _ in range(500):
        budget, delta = float(np.exp(rng.uniform(-3.0, 3.0))), float(10.0 ** rng.uniform(-9.0, -3.1))
        schedule = [
            FixedHorizon(budget, int(rng.integers(1, 30))), Geometric(budget, float(rng.uniform(0.01, 0.5))),
            PowerLaw(budget, float(rng.uniform(1.1, 3.0))),
        ][rng.integers(3)]  # fmt: skip
        unit = ("update", "record")[rng.integers(2)]
        mechanism = Gaussian(l2=float(np.exp(rng.normal())), delta=delta, unit=unit, account="zcdp")
        made = charges(schedule, mechanism, int(rng.integers(1, 31)))
        spent = math.fsum(one.epsilon for one in made)
        assert spent == pytest.approx(google([one.rho for one in made], delta), rel=1e-6, abs=1e-9)
        assert spent <= budget
        assert math.fsum(one.delta for one in made) == delta
        assert leaked(mechanism, budget, float(schedule.spent(len(made))))[0] == pytest.approx(spent, rel=1e-9)


def test_the_noise_of_a_release_is_worth_the_rho_that_was_charged():
    for one in charges(Geometric(2.0, 0.1), RECORD, 20):
        sigma = RECORD.sigma(alone_epsilon(one, RECORD))
        assert (2.0 * RECORD.l2 / sigma) ** 2 / 2.0 == pytest.approx(one.rho, rel=1e-6)
        assert (2.0 * RECORD.l2 / sigma) ** 2 / 2.0 <= one.rho


def test_many_releases_cost_far_less_than_their_sum():
    made = charges(FixedHorizon(1.0, 20), RECORD, 20)
    assert len(made) == 20
    assert math.fsum(alone_epsilon(one, RECORD) for one in made) > 3.5 * math.fsum(one.epsilon for one in made)


def test_several_passes_together_cost_what_one_would():
    for mechanism in (RECORD, Gaussian(l2=1.0, delta=1e-5)):
        assert mechanism.sigma(0.5, 4) > mechanism.sigma(0.5)
    assert RECORD.sigma(0.5, 4) == pytest.approx(2.0 * RECORD.sigma(0.5))


def test_a_ledger_enforces_rho_and_tells_epsilon(tmp_path):
    ledger, schedule = SqliteLedger.create(tmp_path / "ledger.db"), FixedHorizon(1.0, 5)
    for number in range(5):
        ledger.reserve("a", f"{number}", schedule, mechanism=RECORD, dimension=10)
    with pytest.raises(BudgetExceededError):
        ledger.reserve("a", "more", schedule, mechanism=RECORD)
    rows = SqliteLedger(ledger.path).charges("a")
    assert math.fsum(row.rho for row in rows) <= zcdp_within(1.0, 1e-5)
    assert ledger.spent("a") == pytest.approx(1.0, rel=1e-6) and ledger.spent("a") <= 1.0
    assert ledger.spent_delta("a") == 1e-5
    assert {row.protects for row in rows} == {"one record, any one record replaced"}
    told = statement(ledger, "a")
    assert (told.method, told.bound, told.bound_delta) == ("zcdp", ledger.spent("a"), 1e-5)
    assert (told.whole_update, told.releases_left, told.unit) == (None, 0, "record")
    assert told.protects == "one record, any one record replaced"


def test_a_lavish_schedule_is_stopped_by_the_filter(tmp_path):
    class Lavish(Geometric):
        def _share(self, release):
            return 0.4

        def __repr__(self):
            return "Lavish()"

    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    for number in range(2):
        ledger.reserve("a", f"{number}", Lavish(1.0, 0.1), mechanism=RECORD)
    with pytest.raises(BudgetExceededError, match="would bring it to rho"):
        ledger.reserve("a", "more", Lavish(1.0, 0.1), mechanism=RECORD)


@pytest.mark.parametrize("delta", [1e-12, 1e-8])
def test_a_release_too_small_to_be_counted_is_refused_and_breaks_no_ledger(delta):
    schedule, mechanism = Geometric(budget=1000.0, decay=0.1), Gaussian(l2=1.0, delta=delta, unit="record")
    made = charges(schedule, mechanism, 400)
    with pytest.raises(BudgetExceededError, match="too little to count"):
        next_charge(Past.of(made), Reservation("a", "next", schedule, mechanism), 0.0)
    previous, rows = "start", []
    for number, charge in enumerate(made, 1):
        rows.append(row_of(previous, number, charge))
        previous = rows[-1][-1]
    check_rows("start", rows)


@pytest.mark.parametrize(
    ("first", "then", "why"),
    [
        (RECORD, Gaussian(l2=1.0, delta=1e-5, unit="record", account="sum"), "account is 'sum'"),
        (Gaussian(l2=1.0, delta=1e-5), Gaussian(l2=1.0, delta=1e-5, account="zcdp"), "account is 'zcdp'"),
        (RECORD, Gaussian(l2=1.0, delta=2e-5, unit="record"), "delta is 2e-05"),
        (RECORD, Gaussian(l2=1.0, delta=1e-5, account="zcdp"), "unit is 'update'"),
        (RECORD, None, "unit is 'unstated'"),
    ],
)
def test_account_delta_and_unit_are_fixed_by_the_first_release(tmp_path, first, then, why):
    ledger, schedule = SqliteLedger.create(tmp_path / "ledger.db"), FixedHorizon(1.0, 5)
    ledger.reserve("a", "1", schedule, mechanism=first)
    with pytest.raises(ScheduleChangedError, match=why):
        ledger.reserve("a", "2", schedule, mechanism=then)
    assert len(ledger.charges("a")) == 1


def test_a_retired_account_has_nothing_left(tmp_path):
    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    ledger.reserve("a", "1", FixedHorizon(1.0, 5), mechanism=RECORD)
    ledger.retire("a")
    assert SqliteLedger(ledger.path).spent("a") == pytest.approx(1.0)
