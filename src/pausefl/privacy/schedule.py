"""How a lifetime budget is spread over releases: eps_1, eps_2, … with a sum that never exceeds the budget.

Reference: PAUSE, eq. (epsilonSeq).  The law holds in floating point: a billionth of the budget is never handed out,
more than the rounding of any sum of up to eight million releases, added in any order.
"""

from __future__ import annotations

import ast
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
from scipy.special import zeta

from pausefl.errors import BudgetExceededError, InvalidValueError, is_finite, require
from pausefl.types import Epsilon, FloatArray

SHAVE = 1.0 - 2.0**-30
"""Taken off a bound beforehand, so that floats keep it: more than rounding adds to a sum of eight million terms."""
_MANY = 2**23
_LEAST = 1e-100
"""Below it shares come near the smallest floats, where rounding is no longer relative and the shave is no cover."""


class Schedule(ABC):
    """A client's i-th release may leak ``epsilon(i)``; all releases together never leak more than ``budget``.

    Law: ``sum(epsilon(i) for i in 1..n) <= budget`` holds in floating point, in any order of addition.  ``spent(n)`` is
    that sum.  It never falls as ``plays`` grows, up to rounding.

    A schedule of the package is a frozen dataclass with a ``name`` and a line in ``SCHEDULES``.  The configuration of a
    run, the owner's file, the state of a selector and the rows of a ledger all identify it by its name and its fields.
    """

    __slots__ = ()
    name: ClassVar[str]
    """What configurations call it; its words are joined by hyphens."""
    budget: Epsilon

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> Self:
        """Return the schedule that a run's ``[privacy]`` section describes; the keys are those of its fields."""
        return cls(**{field.name: values[field.name] for field in fields(cast(Any, cls))})

    @property
    def limit(self) -> int | None:
        """How many releases there can ever be; None if they never end."""
        return None

    def epsilon(self, release: int) -> Epsilon:
        """Return what the ``release``-th release (1, 2, …) may leak."""
        fine = _is_whole(release) and 1 <= release < 2**53
        require(fine, "release", release, "a whole number from 1", "the first release is 1")
        epsilon = self.budget * SHAVE * self._share(int(release))
        if epsilon <= 0.0:
            raise BudgetExceededError(
                f"nothing is left of the budget {self.budget!r} for release {release}; stop taking part"
            )
        return epsilon

    def spent(self, plays: npt.ArrayLike) -> FloatArray:
        """Return what the first ``plays`` releases leak in all, elementwise."""
        count = np.asarray(plays)
        require(count.dtype.kind in "iuf", "type of plays", str(count.dtype), "a number", "count releases from 0")
        bad = count[~(count >= 0)]
        require(bad.size == 0, "plays", bad.flat[0].item() if bad.size else 0, "0 or more", "count releases from 0")
        return self.budget * SHAVE * np.clip(self._shares(count.astype(np.float64)), 0.0, 1.0)

    @abstractmethod
    def _share(self, release: int) -> float:
        """Return eps_i / budget."""

    @abstractmethod
    def _shares(self, plays: FloatArray) -> FloatArray:
        """Return the sum of the first shares, in closed form."""


@dataclass(frozen=True, slots=True)
class Geometric(Schedule):
    """The paper's schedule, eps_i = budget (e^decay - 1) e^(-decay i); it never ends.

    Args:
        budget: Epsilon of all releases together, for life.
        decay: How fast the shares fall: each is e^-decay times the one before.

    Use it to repeat the paper.  Early releases get most of the budget, and later ones carry more and more noise.

    >>> round(float(Geometric(budget=40.0, decay=0.04).spent(50)), 3)
    34.587
    """

    name: ClassVar[str] = "geometric"
    budget: Epsilon
    decay: float

    def __post_init__(self) -> None:
        _settle(
            self, "budget", _LEAST, f"a finite number from {_LEAST:g}", "set it to what a client may leak in its life"
        )
        _settle(self, "decay", 0.0, "a finite number above 0", "the paper uses 0.04", above=True)

    def _share(self, release: int) -> float:
        # PAUSE, eq. (epsilonSeq), with e^-decay drawn in: e^decay - 1 alone would overflow.
        return -math.expm1(-self.decay) * math.exp(-self.decay * (release - 1))

    def _shares(self, plays: FloatArray) -> FloatArray:
        return -np.expm1(-self.decay * plays)


@dataclass(frozen=True, slots=True)
class PowerLaw(Schedule):
    """eps_i proportional to i^-exponent, normalised by the zeta function: a long tail that never ends.

    Args:
        budget: Epsilon of all releases together, for life.
        exponent: How fast the shares fall, above 1.

    Use it if a client may take part for very long, because in the long run its shares fall more slowly than those of
    ``Geometric``.

    >>> round(PowerLaw(budget=10.0, exponent=2.0).epsilon(1), 3)
    6.079
    """

    name: ClassVar[str] = "power-law"
    budget: Epsilon
    exponent: float

    def __post_init__(self) -> None:
        _settle(
            self, "budget", _LEAST, f"a finite number from {_LEAST:g}", "set it to what a client may leak in its life"
        )
        _settle(self, "exponent", 1.0, "a finite number above 1", "raise it, because the sum diverges at 1", above=True)

    def _share(self, release: int) -> float:
        return float(release**-self.exponent / zeta(self.exponent))

    def _shares(self, plays: FloatArray) -> FloatArray:
        # The Hurwitz zeta function is the sum of what comes after.
        shares: FloatArray = 1.0 - zeta(self.exponent, plays + 1.0) / zeta(self.exponent, 1.0)
        return shares


@dataclass(frozen=True, slots=True)
class FixedHorizon(Schedule):
    """Equal shares for a known number of releases; the next one is refused.

    Args:
        budget: Epsilon of all releases together, for life.
        releases: How many releases there are.

    Use it if you know how often a client takes part. docs/choosing.md says why few and equal releases are best for a
    model.

    >>> FixedHorizon(budget=8.0, releases=4).epsilon(5)
    Traceback (most recent call last):
    pausefl.errors.BudgetExceededError: nothing is left of the budget 8.0 for release 5; stop taking part
    """

    name: ClassVar[str] = "fixed-horizon"
    budget: Epsilon
    releases: int

    def __post_init__(self) -> None:
        _settle(
            self, "budget", _LEAST, f"a finite number from {_LEAST:g}", "set it to what a client may leak in its life"
        )
        require(
            _is_whole(self.releases) and 1 <= self.releases <= _MANY,
            "releases", self.releases, f"a whole number from 1 to {_MANY}", "set it to how often "
            "a client may take part",
        )  # fmt: skip
        object.__setattr__(self, "releases", int(self.releases))

    @property
    def limit(self) -> int | None:
        """How many releases there can ever be."""
        return self.releases

    def _share(self, release: int) -> float:
        return 1.0 / self.releases if release <= self.releases else 0.0

    def _shares(self, plays: FloatArray) -> FloatArray:
        return np.minimum(plays / self.releases, 1.0)


SCHEDULES: dict[str, type[Schedule]] = {kind.name: kind for kind in (Geometric, PowerLaw, FixedHorizon)}
"""The schedules by name."""


def describe_schedule(schedule: object) -> dict[str, Any] | None:
    """Return a schedule as its kind and its numbers, ready for JSON; None if it is not in ``SCHEDULES``.

    >>> describe_schedule(PowerLaw(budget=10.0, exponent=2.0))
    {'kind': 'PowerLaw', 'budget': 10.0, 'exponent': 2.0}
    """
    name = getattr(schedule, "name", "")
    if SCHEDULES.get(name) is not type(schedule):
        return None
    numbers = {field.name: getattr(schedule, field.name) for field in fields(cast(Any, schedule))}
    return {"kind": _spelled(name), **numbers}


def described_schedule(description: Mapping[str, Any]) -> Schedule:
    """Return the schedule of a description; the way back from :func:`describe_schedule`."""
    kinds = {_spelled(name): kind for name, kind in SCHEDULES.items()}
    return kinds[description["kind"]](**{name: value for name, value in description.items() if name != "kind"})


def schedule_text(schedule: Schedule) -> str:
    """Return the text by which a ledger knows a schedule; one that is not in ``SCHEDULES`` prints itself.

    Ledgers are kept for life, and a changed text is a changed schedule: this format must stay as it is.

    >>> schedule_text(Geometric(budget=40.0, decay=0.04))
    'Geometric(budget=40.0, decay=0.04)'
    """
    described = describe_schedule(schedule)
    if described is None:
        return repr(schedule)
    kind = described.pop("kind")
    return f"{kind}({', '.join(f'{name}={value!r}' for name, value in described.items())})"


def parse_schedule(text: str) -> Schedule:
    """Return the schedule of a ledger's row; the way back from :func:`schedule_text`.

    >>> parse_schedule("Geometric(budget=40.0, decay=0.04)") == Geometric(40.0, 0.04)
    True
    """
    try:
        call = ast.parse(text, mode="eval").body
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args:
            values = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
            return described_schedule({**values, "kind": call.func.id})
    except (SyntaxError, ValueError, KeyError, TypeError, RecursionError, MemoryError):
        pass
    known = ", ".join(_spelled(name) for name in SCHEDULES)
    raise InvalidValueError(f"schedule is {text!r}, but must be one of {known}; read it with the code that wrote it")


def _spelled(name: str) -> str:
    """Return a name as files that are kept spell it: power-law is PowerLaw there."""
    return "".join(word.capitalize() for word in name.split("-"))


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _settle(schedule: Schedule, name: str, least: float, bound: str, remedy: str, *, above: bool = False) -> None:
    """Check a number, and keep it as a plain float: a schedule is known by its print, and 40 is 40.0."""
    given = getattr(schedule, name)
    value = float(given) if is_finite(given) else math.nan
    require(value > least if above else value >= least, name, given, bound, remedy)
    object.__setattr__(schedule, name, value)
