"""What a release costs, by the one rule of ledger and simulator: epsilon and delta that are added up, or rho."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from pausefl.errors import BudgetExceededError, is_finite, require
from pausefl.privacy.mechanisms.base import Mechanism
from pausefl.privacy.schedule import SHAVE, Schedule
from pausefl.privacy.zcdp import zcdp_epsilon, zcdp_within
from pausefl.types import Epsilon

IN_RHO = "zcdp"
"""The account of releases that are paid in rho, and the name of their privacy loss."""

DELTA_LIMIT = 1e-3
"""The most delta a subject may give up in its life, whatever its budget of epsilon.

Whatever happens may be likelier by delta than epsilon allows, with no bound on what shows then.  Over all releases that
must stay small: somebody who guesses is right at most once in a thousand times more often.  At the usual delta of 1e-6
it allows a thousand releases, more than most schedules have any epsilon for.
"""


def releases_within_limit(delta: float, spent: float = 0.0) -> int:
    """Return how many releases of this delta the limit allows beside what is ``spent``, rounded as the rule rounds."""
    count = max(0, (Fraction(DELTA_LIMIT) - Fraction(spent)) // Fraction(delta))
    return count + (float(Fraction(spent) + (count + 1) * Fraction(delta)) <= DELTA_LIMIT)


@dataclass(frozen=True, slots=True)
class Price:
    """What one release costs: what it adds to the account, and ``alone``, the epsilon that its mechanism works with."""

    epsilon: Epsilon
    delta: float
    rho: float
    alone: Epsilon


def release_price(
    schedule: Schedule, play: int, mechanism: Mechanism | None, deltas: Sequence[float], rho: float, subject: object,
    *, whole: Epsilon | None = None,
) -> Price:  # fmt: skip
    """Return what the subject's ``play``-th release costs, or refuse; the ledger and the simulator share this rule.

    Args:
        schedule: How the subject's budget is spread over its releases.
        play: Which release of the subject this is: 1, 2, 3, ….
        mechanism: The mechanism that will make the release, if it is known.
        deltas: The deltas of the subject's earlier releases.
        rho: What the earlier releases cost in rho, in all.
        subject: Whose release it is, for the message of an error.
        whole: The budget for life, where the schedule spreads only a part of it and :func:`signal_price` charges the
            rest.

    A price at which the mechanism would refuse to release is refused too, because it would be spent for nothing.

    >>> from pausefl.privacy import FixedHorizon, Gaussian, PrivUnit
    >>> round(release_price(FixedHorizon(budget=8.0, releases=4), 4, PrivUnit(l2=1.0), [], 0.0, "clinic-7").epsilon, 6)
    2.0
    >>> record = Gaussian(l2=1.0, delta=1e-5, unit="record")
    >>> first = release_price(FixedHorizon(budget=1.0, releases=20), 1, record, [], 0.0, "clinic-7")
    >>> round(first.rho, 5), round(first.epsilon, 3)
    (0.00153, 0.198)
    """
    share = _share(schedule, play)
    if mechanism is None:
        return Price(share, 0.0, 0.0, share)
    delta = float(mechanism.guarantee.delta)
    price = Price(share, delta, 0.0, share)
    if in_rho(mechanism):
        price = _price_in_rho(schedule, play, delta, not deltas, rho, subject, whole)
        price = replace(price, alone=zcdp_epsilon(price.rho, delta))
    if price.alone < mechanism.least_epsilon:
        raise BudgetExceededError(
            f"release {play} of {subject!r} has epsilon {price.alone!r} left, but {mechanism.name} needs "
            f"{mechanism.least_epsilon:g}; stop taking part"
        )
    if not price.epsilon > 0.0:
        # Beside a large account floats lose a tiny release, and a row that adds nothing would make the ledger damaged.
        raise BudgetExceededError(
            f"release {play} of {subject!r} costs rho {price.rho!r}, which is too little to count beside the "
            f"{rho!r} of the releases before; stop taking part"
        )
    most = mechanism.most_epsilon
    fine = price.alone <= most
    require(
        fine, "epsilon", price.alone, f"at most {most:g} for {mechanism.name}", "spread the budget over more releases"
    )
    total = math.fsum([*deltas, price.delta])
    if not total <= DELTA_LIMIT:
        raise BudgetExceededError(
            f"release {play} of {subject!r} would bring its delta to {total:g}, but the limit is {DELTA_LIMIT:g}; "
            "use a mechanism with a smaller delta from the start, or one without delta"
        )
    return price


def signal_price(
    schedule: Schedule, play: int, mechanism: Mechanism | None, deltas: Sequence[float], rho: float, subject: object,
    *, whole: Epsilon, numbers: int = 1,
) -> Price:  # fmt: skip
    """Return what it costs to tell signals for the ``play``-th time, or refuse: paid as updates are, from one budget.

    A signal is a number that is noised under pure epsilon.  Where updates are paid in rho, so are signals: a pure
    epsilon e costs rho = e^2 / 2 (Bun and Steinke, 2016, Proposition 1.4).  ``schedule`` is the part of the ``whole``
    budget that is kept for signals, ``mechanism`` that of the updates, and ``rho`` what updates and signals have cost
    so far.  The ``numbers`` that are told at once share the price equally, and ``alone`` is the epsilon of each.

    >>> from pausefl.privacy import FixedHorizon, Gaussian
    >>> part, record = FixedHorizon(budget=0.2, releases=10), Gaussian(l2=1.0, delta=1e-5, unit="record")
    >>> price = signal_price(part, 1, record, [], 0.0, "clinic-7", whole=1.0)
    >>> round(price.rho, 6), round(price.alone, 4), round(price.alone**2 / 2, 6)
    (0.000611, 0.035, 0.000611)
    """
    share = _share(schedule, play)
    if not in_rho(mechanism) or mechanism is None:
        return Price(share, 0.0, 0.0, share / numbers)
    price = _price_in_rho(schedule, play, float(mechanism.guarantee.delta), not deltas, rho, subject, whole)
    return replace(price, alone=math.sqrt(2.0 * price.rho / numbers) * SHAVE)


def _share(schedule: Schedule, play: int) -> Epsilon:
    share = schedule.epsilon(play)
    fine = is_finite(share) and share > 0.0
    require(fine, "epsilon", share, "a finite number above 0", "let the schedule return such a number")
    return float(share)


def _price_in_rho(
    schedule: Schedule, play: int, delta: float, first: bool, spent: float, subject: object, whole: Epsilon | None
) -> Price:  # fmt: skip
    """Return the price of a release that is paid in rho: its share of what the whole budget is worth at this delta.

    What it is worth ``alone`` is left to the caller.
    """
    budget = schedule.budget if whole is None else whole
    worth, rho = zcdp_within(budget, delta), rho_share(budget, delta, schedule.epsilon(play))
    # The filter of Feldman and Zrnic (2021): what rho adds up to is bounded beforehand, whoever decides when to stop.
    if not spent + rho <= worth:
        raise BudgetExceededError(
            f"release {play} of {subject!r} would bring it to rho {spent + rho!r}, but its budget is worth {worth!r}; "
            "stop taking part"
        )
    epsilon = zcdp_epsilon(spent + rho, delta) - zcdp_epsilon(spent, delta)
    return Price(epsilon, delta if first else 0.0, rho, 0.0)


def rho_share(budget: Epsilon, delta: float, epsilon: Epsilon) -> float:
    """Return what is paid in rho where a schedule says ``epsilon``: the same share of what its budget is worth."""
    return zcdp_within(budget, delta) * (float(epsilon) / budget)


def leaked(mechanism: Mechanism | None, budget: Epsilon, spent: Epsilon) -> tuple[Epsilon, float]:
    """Return what a subject has leaked when its schedule says that ``spent`` of the budget is: epsilon, and rho.

    Where releases are paid in rho, a schedule spends shares of what the budget is worth in rho; elsewhere rho is 0.

    >>> from pausefl.privacy import Gaussian
    >>> epsilon, rho = leaked(Gaussian(l2=1.0, delta=1e-5, unit="record"), 1.0, spent=0.5)
    >>> round(epsilon, 3), round(rho, 4)
    (0.686, 0.0153)
    """
    if not in_rho(mechanism) or mechanism is None:
        return float(spent), 0.0
    delta = mechanism.guarantee.delta
    rho = rho_share(budget, delta, spent)
    return zcdp_epsilon(rho, delta), rho


def in_rho(mechanism: Mechanism | None) -> bool:
    """Whether releases of this mechanism are paid in rho."""
    return mechanism is not None and mechanism.composition == IN_RHO
