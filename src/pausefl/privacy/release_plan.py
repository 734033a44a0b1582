"""How to spend a budget that must last for life: how many releases, how large a step, and whether a model can learn so.

A run in which every client answers N times has K N / m rounds.  A release is a direction of length 1 with noise of mean
square v, so the mean of m of them has the mean square 1 + v / m, and the theory of stochastic gradients gives

    error  ~  D sqrt((1 + v / m) m / (K N))  =  D q,        step  =  D / sqrt(rounds (1 + v / m)),

with D the distance that the model has to go.  So q, the noise to signal of the whole run, decides.  A model of d useful
parameters bears about sqrt(d) times as much of it as a model of one, because their noise averages out in each answer.
The numbers below were fitted to runs; docs/choosing.md has them, and how often the verdict is right.

Reference: Nemirovski et al., "Robust Stochastic Approximation Approach to Stochastic Programming" (2009), Section 2.2.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pausefl.errors import is_finite, require
from pausefl.privacy.ledger.price import DELTA_LIMIT, releases_within_limit
from pausefl.privacy.mechanisms.base import Mechanism
from pausefl.privacy.mechanisms.privunit import PrivUnit
from pausefl.privacy.schedule import SHAVE
from pausefl.types import Epsilon

_MOST = 200
"""More releases than this are not tried: many weak ones are worth less than few strong ones."""
_DISTANCE = 6.0
"""How far a model of standardised features goes from zero."""
_ROUNDS = 6.0
"""A model needs some rounds even without noise: in so many, what is missing weighs as much as noise equal to signal."""
_FEW = 20.0
"""With so many examples, a client's own direction is as uncertain as it is sure."""
_BEARABLE, _USEFUL = 0.06, 1300
"""The noise to signal that each parameter bears, and of how many parameters that holds; more do not help."""
_EASY, _HARDER = 70.0, 1.0 / 3.0
"""A task that reaches less than this without noise bears only that share."""
_CLIENTS, _BUDGET = 10**8, 500.0
"""How far is looked for what would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePlan:
    """How each client spends its budget, and what comes of it.

    Where nothing can be learned, the ``needed`` numbers say what would help, each of them alone; None if it would not.

    Attributes:
        releases: How often each client answers.
        epsilon: The epsilon of each release.
        rounds: How many rounds the run has.
        step: How large a step the server makes, for updates of length 1.
        per_release: The noise to signal of one answer.
        per_round: The noise to signal of the mean of a round.
        noise_to_signal: The noise to signal of the whole run.
        bearable: The one at which such a task still reaches 80 % of its accuracy without noise.
        verdict: Whether a model can learn so.
        needed_clients: With how many clients it could.
        needed_budget: With which budget it could.
        needed_dimension: With how many parameters it could.

    :func:`suggest` returns it, and has an example.
    """

    releases: int
    epsilon: Epsilon
    rounds: int
    step: float
    per_release: float
    per_round: float
    noise_to_signal: float
    bearable: float
    verdict: Literal["can learn", "cannot learn"]
    needed_clients: int | None
    needed_budget: Epsilon | None
    needed_dimension: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    clients: int
    per_round: int
    dimension: int
    budget: Epsilon
    mechanism: Mechanism
    examples: int | None

    def noise(self, releases: int) -> float:
        """The mean square of a release's noise, for a signal of length 1."""
        return self.mechanism.noise_to_signal(self.dimension, self.epsilon(releases)) ** 2

    def epsilon(self, releases: int) -> Epsilon:
        return self.budget * SHAVE / releases

    def rounds(self, releases: int) -> int:
        return max(1, self.clients * releases // self.per_round)

    def of_run(self, releases: int) -> float:
        """The noise to signal of the whole run."""
        share = 1.0 if self.examples is None else 1.0 + _FEW / self.examples
        return math.sqrt(share * (self.per_round + self.noise(releases)) / (self.clients * releases))

    def bearable(self) -> float:
        """The noise to signal at which a simple task still reaches 80 % of its accuracy."""
        return _BEARABLE * math.sqrt(min(self.dimension, _USEFUL))

    def best(self) -> int:
        """The number of releases of the least error."""
        # The error falls, and then rises: the first rise ends the search.
        fewest = max(1, math.ceil(self.budget * SHAVE / self.mechanism.most_epsilon))
        best, least = fewest, math.inf
        delta = self.mechanism.guarantee.delta
        allowed = releases_within_limit(delta) if delta else math.inf
        for count in range(fewest, fewest + _MOST):
            if self.epsilon(count) < self.mechanism.least_epsilon or count > allowed:
                break
            error = math.hypot(self.of_run(count), _ROUNDS / self.rounds(count))
            if error >= least:
                break
            best, least = count, error
        return best


def suggest(
    clients: int, per_round: int, dimension: int, budget: Epsilon, *,
    mechanism: Mechanism | None = None, examples: int | None = None, accuracy: float = 95.0,
) -> ReleasePlan:  # fmt: skip
    """Return the plan of least error for clients that may each leak ``budget`` in all; docs/choosing.md explains it.

    Args:
        clients: How many clients there are.
        per_round: How many of them take part in a round.
        dimension: How many parameters the model has.
        budget: The epsilon of all releases of a client together, for life.
        mechanism: What makes the releases; :class:`PrivUnit` if left out.
        examples: How many examples a client has, as far as that is public.
        accuracy: What the task reaches without noise, in percent.  A harder task bears less noise.

    >>> plan = suggest(300, 15, 1290, 10.0)
    >>> plan.releases, plan.rounds, plan.verdict
    (1, 20, 'can learn')
    >>> suggest(3, 3, 1290, 10.0).verdict
    'cannot learn'
    """
    for name, value in (("clients", clients), ("per_round", per_round), ("dimension", dimension)):
        require(value >= 1, name, value, "1 or more", "pass how many there are")
    require(per_round <= clients, "per_round", per_round, f"at most the {clients} clients", "lower it")
    require(is_finite(budget) and budget > 0.0, "budget", budget, "a finite number above 0", "10 is common")
    require(examples is None or examples >= 1, "examples", examples, "1 or more", "leave it out if it is unknown")
    require(0.0 < accuracy < 100.0, "accuracy", accuracy, "between 0 and 100 percent", "95 suits simple tasks")
    mechanism = PrivUnit(l2=1.0) if mechanism is None else mechanism
    least, delta = mechanism.least_epsilon, mechanism.guarantee.delta
    require(budget >= least, "budget", budget, f"at least {least:g}, the least for {mechanism.name}", "raise it")
    require(delta <= DELTA_LIMIT, "delta", delta, f"at most {DELTA_LIMIT:g}, the limit for life", "lower it")
    setting = _Setting(
        clients=clients, per_round=per_round, dimension=dimension, budget=float(budget), mechanism=mechanism,
        examples=examples,
    )  # fmt: skip
    known = mechanism.noise_to_signal(dimension, max(mechanism.least_epsilon, min(budget, mechanism.most_epsilon)))
    require(is_finite(known), "mechanism", mechanism.name, "one that states its noise", "use privunit")
    return _plan(setting, 1.0 if accuracy >= _EASY else _HARDER)


def _plan(setting: _Setting, ease: float) -> ReleasePlan:
    releases = setting.best()
    rounds = setting.rounds(releases)
    noise, fine = setting.noise(releases), _learns(setting, ease)
    return ReleasePlan(
        releases=releases, epsilon=setting.epsilon(releases), rounds=rounds,
        step=_DISTANCE / math.sqrt(rounds * (1.0 + noise / setting.per_round)),
        per_release=math.sqrt(noise), per_round=math.sqrt(noise / setting.per_round),
        noise_to_signal=setting.of_run(releases), bearable=ease * setting.bearable(),
        verdict="can learn" if fine else "cannot learn",
        needed_clients=None if fine else _first(setting, ease, "clients", _up_to(setting.clients, _CLIENTS)),
        needed_budget=None if fine else _first(setting, ease, "budget", _up_to(setting.budget, _BUDGET)),
        needed_dimension=None if fine else _first(setting, ease, "dimension", _down_from(setting.dimension)),
    )  # fmt: skip


def _learns(setting: _Setting, ease: float) -> bool:
    return setting.of_run(setting.best()) <= ease * setting.bearable()


def _first(setting: _Setting, ease: float, name: str, values: Sequence[Any]) -> Any:
    """Return the first of the values with which it could learn, all else being as it is; later ones are better yet."""
    place = bisect_left(values, True, key=lambda value: _learns(replace(setting, **{name: value}), ease))
    return values[place] if place < len(values) else None


def _up_to(start: float, end: float) -> list[Any]:
    """Return round numbers above the start: 1, 2, 5, 10, 20, 50, ..."""
    steps = (lead * 10**power for power in range(-3, 9) for lead in (1, 2, 5))
    return [value for value in steps if start < value <= end]


def _down_from(start: int) -> list[int]:
    return [int(value) for value in reversed(_up_to(9, start - 1))]
