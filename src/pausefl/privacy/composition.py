"""What many releases leak together: by plain addition, and by tight composition of their privacy loss distributions.

References: PAUSE, Theorem 3 (addition); Koskela et al. (2020) and Doroshenko et al. (2022) for the second, through
Google's dp-accounting, whose discretisation only ever rounds the loss up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np

from pausefl.errors import MissingExtraError, require
from pausefl.privacy.ledger.charge import Charge
from pausefl.privacy.mechanisms.gaussian import noise_multiplier
from pausefl.types import Epsilon

Kind: TypeAlias = Literal["laplace", "gaussian", "pure"]

_POINTS = 2**16
_TAIL = 1e-15
_LEAST_DELTA = 1e-10
"""Below it, the rounding of long convolutions was seen to make the bound too small."""


@dataclass(frozen=True, slots=True)
class Event:
    """One release: its epsilon, and the shape of its privacy loss.

    Args:
        epsilon: The epsilon of the release by itself.
        kind: The shape of its loss.  ``pure`` is the worst that an epsilon-DP release can have.
        delta: The delta of the release: above 0 for ``gaussian``, else 0.

    >>> Event(0.5, "gaussian", 1e-6)
    Event(epsilon=0.5, kind='gaussian', delta=1e-06)
    """

    epsilon: Epsilon
    kind: Kind = "laplace"
    delta: float = 0.0

    def __post_init__(self) -> None:
        fine = math.isfinite(self.epsilon) and self.epsilon > 0.0
        require(fine, "epsilon", self.epsilon, "a finite number above 0", "list only what was released")
        require(
            self.kind in get_args(Kind),
            "kind",
            self.kind,
            "laplace, gaussian or pure",
            "pure fits every mechanism without delta",
        )
        fine = (self.delta > 0.0) == (self.kind == "gaussian")
        require(fine, "delta", self.delta, "above 0 for gaussian only", "pass delta only with kind='gaussian'")


@dataclass(frozen=True, slots=True)
class Leakage:
    """What was leaked in all; of two bounds at the same delta the smaller one counts, and ``method`` names it.

    The sum brings its own delta, the sum of the releases' deltas, and so competes only if that is no larger than the
    delta asked for.  It holds whenever one stops.  The tight bound is for a list of releases settled beforehand; if
    whether to go on was decided by looking at what was released, it is an estimate, and the sum (or the tight bound of
    the whole schedule) is the promise.

    Attributes:
        releases: How many releases there were.
        sum_epsilon: The sum of their epsilons.
        sum_delta: The sum of their deltas.
        tight_epsilon: The tight bound, at ``tight_delta``.
        tight_delta: The delta that was asked for.

    >>> leaked = Leakage(50, sum_epsilon=34.6, sum_delta=0.0, tight_epsilon=28.5, tight_delta=1e-6)
    >>> leaked.method, leaked.epsilon, leaked.delta
    ('pld', 28.5, 1e-06)
    """

    releases: int
    sum_epsilon: Epsilon
    sum_delta: float
    tight_epsilon: Epsilon
    tight_delta: float

    @property
    def method(self) -> Literal["sum", "pld"]:
        """Which of the two bounds is smaller; a sum with more delta than you asked for does not count."""
        fair = self.sum_delta <= self.tight_delta
        return "sum" if fair and self.sum_epsilon <= self.tight_epsilon else "pld"

    @property
    def epsilon(self) -> Epsilon:
        """What was leaked, at ``delta``."""
        return self.sum_epsilon if self.method == "sum" else self.tight_epsilon

    @property
    def delta(self) -> float:
        """The delta that belongs to ``epsilon``."""
        return self.sum_delta if self.method == "sum" else self.tight_delta


def compose(events: Sequence[Event], *, delta: float = 1e-6) -> Leakage:
    """Return what these releases leak together, at this delta for the tight bound.

    Args:
        events: The releases.
        delta: The delta of the tight bound.

    >>> from pausefl.privacy import Geometric
    >>> schedule = Geometric(budget=40.0, decay=0.04)
    >>> both = compose([Event(schedule.epsilon(i)) for i in range(1, 51)])
    >>> round(both.sum_epsilon, 3), round(both.tight_epsilon, 2), both.method
    (34.587, 28.52, 'pld')
    """
    require(_LEAST_DELTA <= delta < 1.0, "delta", delta, f"from {_LEAST_DELTA:g} to 1", "1e-6 is common")
    total = math.fsum(event.epsilon for event in events)
    slack = math.fsum(event.delta for event in events)
    tight = _tight(events, delta, total) if events else 0.0
    return Leakage(len(events), total, slack, tight, delta)


def events_of(charges: Iterable[Charge]) -> list[Event] | None:
    """Read a ledger's rows as events, or None if a row's mechanism is not known: then there is no tight bound.

    Args:
        charges: The rows.

    >>> import tempfile
    >>> from pausefl.privacy import FixedHorizon, Laplace, SqliteLedger
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = SqliteLedger.create(f"{folder}/ledger.db")
    ...     laplace = Laplace(unit="coordinate", width=1.0)
    ...     charge = ledger.reserve("clinic-7", "trial/1", FixedHorizon(8.0, 4), mechanism=laplace)
    >>> events_of([charge])
    [Event(epsilon=2.0, kind='laplace', delta=0.0)]
    """
    found = list(charges)
    if any(charge.loss not in get_args(Kind) for charge in found):
        return None
    return [Event(charge.epsilon, cast(Kind, charge.loss), charge.delta) for charge in found]


def _tight(events: Sequence[Event], delta: float, total: Epsilon) -> Epsilon:
    """Compose pairwise, so that most convolutions are short; the interval keeps the last one at 65,536 points."""
    try:
        pld = import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError:
        raise MissingExtraError(
            "tight accounting needs dp-accounting, which is not installed; run: pip install 'pausefl[private]'"
        ) from None
    interval = max(1e-4, 2.0 * total / _POINTS)
    parts = [
        _distribution(pld, event, interval).self_compose(count, tail_mass_truncation=_TAIL)
        for event, count in sorted(Counter(_gather(events, interval)).items(), key=lambda item: item[0].epsilon)
    ]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        left = parts[-1:] if len(parts) % 2 else []
        parts = [first.compose(second, tail_mass_truncation=_TAIL) for first, second in pairs] + left
    return float(parts[0].get_epsilon_for_delta(delta))


def _gather(events: Sequence[Event], interval: float) -> list[Event]:
    """Replace the smallest releases, as many as fit into one interval, by one pure release of their sum."""
    pure = sorted((event for event in events if event.delta == 0.0), key=lambda event: event.epsilon)
    total, count = 0.0, 0
    while count < len(pure) and total + pure[count].epsilon <= interval:
        total += pure[count].epsilon
        count += 1
    rest = [*pure[count:], *(event for event in events if event.delta > 0.0)]
    return [*rest, Event(total * (1.0 + 1e-12), "pure")] if count else rest


def _distribution(pld: Any, event: Event, interval: float) -> Any:
    if event.kind == "laplace":
        # The vector mechanism is dominated by one coordinate that moves by the whole sensitivity.
        return pld.from_laplace_mechanism(1.0 / event.epsilon, value_discretization_interval=interval)
    if event.kind == "gaussian":
        multiplier = noise_multiplier(event.epsilon, event.delta)
        return pld.from_gaussian_mechanism(multiplier, value_discretization_interval=interval)
    # Randomised response dominates every pure release.  Its delta is linear in e^epsilon up to its two kinks, so
    # connecting the dots around these loses next to nothing, where rounding each loss up would lose an interval.
    kink = event.epsilon / interval
    places = np.unique([-math.ceil(kink), -math.floor(kink), math.floor(kink), math.ceil(kink)])
    at = places * interval
    above = -np.expm1(np.minimum(at - event.epsilon, 0.0)) / (1.0 + math.exp(-event.epsilon))
    deltas = np.where(at < -event.epsilon, -np.expm1(np.minimum(at, 0.0)), above)
    pmf = import_module("dp_accounting.pld.pld_pmf").create_pmf_pessimistic_connect_dots(interval, places, deltas)
    return pld.PrivacyLossDistribution(pmf)
