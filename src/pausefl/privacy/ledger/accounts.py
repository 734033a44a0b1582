"""What is kept of a subject's rows once they were checked: enough to decide on the next one, however many there are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pausefl.privacy.ledger.charge import RETIRED, Charge, Past


@dataclass(frozen=True, slots=True)
class Account:
    """One subject: its first and last row, and exact sums of what its rows were charged.

    Each sum is a few numbers that add up, without any rounding, to the same as all rows do.
    """

    first: Charge
    last: Charge
    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    rhos: tuple[float, ...]

    @classmethod
    def of_first(cls, charge: Charge) -> Account:
        """Return the account of a subject that was charged for the first time."""
        return cls(charge, charge, (charge.epsilon,), (charge.delta,), (charge.rho,))

    def after(self, charge: Charge) -> Account:
        """Return the account with one more charge."""
        sums = (self.epsilons, charge.epsilon), (self.deltas, charge.delta), (self.rhos, charge.rho)
        return Account(self.first, charge, *(exact_sum([*before, more]) for before, more in sums))

    @property
    def releases(self) -> int:
        """How many rows are releases: all but the one that only spends what is left."""
        return self.last.play - (self.last.release == RETIRED)


@dataclass(frozen=True, slots=True)
class CountedNames:
    """Names of releases that are looked up where they are kept; here is only how many there are."""

    count: int
    known: Callable[[object], bool]

    def __len__(self) -> int:
        return self.count

    def __contains__(self, name: object) -> bool:
        return self.known(name)


def past_of(account: Account | None, known: Callable[[object], bool] = lambda _: False) -> Past:
    """Return what a decision needs of a subject's past; ``known`` says whether a release was charged before."""
    if account is None:
        return Past.of([])
    names = CountedNames(account.last.play, known)
    return Past(account.first, account.last, names, account.epsilons, account.deltas, account.rhos)


def exact_sum(values: Sequence[float]) -> tuple[float, ...]:
    """Return a few numbers, at least one, whose sum is exactly that of the values, which must be finite.

    >>> exact_sum([0.1, 0.2, 0.3]), exact_sum([1e300, 1.0, -1e300])
    ((0.6, 2.7755575615628914e-17), (1.0,))
    """
    found: list[float] = []
    while rest := math.fsum([*values, *(-one for one in found)]):
        found.append(rest)
    return tuple(found) or (0.0,)
