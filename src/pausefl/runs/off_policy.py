"""Another policy judged by the rounds of a run: inverse propensities, a model, and both together (doubly robust).

Reference: Dudik, Langford and Li, "Doubly Robust Policy Evaluation and Learning" (2011), for sums over the members of
a round as in semi-bandits.  With chances p of the policy that played, q of the one that is judged, values y of the
members M, and a model f of them, a round's doubly robust term is (sum of q·f + sum over M of (q/p)·(y - f)) / sum of q.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from pausefl.errors import InvalidValueError, require
from pausefl.runs.replay import LoggedRound, replay
from pausefl.runs.run_data import RunData
from pausefl.selection import Policy
from pausefl.types import FloatArray, IntArray, Seconds

MEASURES = ("seconds", "speed", "answers")
"""What is estimated of the members: mean latency of those that answer, mean of tau_min / latency, share of answers."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its standard error and its 95 % interval."""

    value: float
    error: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimates:
    """The estimates of one measure, each made in another way.

    Attributes:
        played: The value of the policy that has played.
        inverse: The value of the other policy, by inverse propensities.  It has no bias, but often a large error.
        direct: The same by the mean of what each client was seen to do.  Its bias is unknown, and its error does not
            include it.
        doubly_robust: The same by both.  It has no bias, and a smaller error if the model is good.
    """

    played: Estimate
    inverse: Estimate
    direct: Estimate
    doubly_robust: Estimate


@dataclass(frozen=True, slots=True)
class OffPolicy:
    """What a policy would be worth in the states of a run that another policy has played.

    Attributes:
        played: The policy that has played.
        policy: The policy that is evaluated.
        rounds: How many rounds were used.
        left_out: How many rounds were left out, because nobody was there or the chances are not known.
        largest_weight: The largest q/p of a member.  If it is large, a few rounds decide the estimate.
        silent: How many members did not answer.
        measures: The estimates, by measure.
    """

    played: str
    policy: str
    rounds: int
    left_out: int
    largest_weight: float
    silent: int
    measures: dict[str, Estimates]


def off_policy(run: RunData, policy: str | Policy, *, first: int = 1) -> OffPolicy:
    """Estimate what another policy would be worth in the states of a run whose policy has recorded its chances.

    Args:
        run: A run whose policy has recorded its chances.
        policy: The policy to evaluate, or its name.
        first: The first round to evaluate.

    The question is: if this policy had chosen in each round of the run, with what was known then, what would its
    members have been like?  Its choices do not change what is known later, so the answer differs from that of its own
    run.  The estimate is a mean over members.  The seconds of a round are those of its slowest member, which is not
    such a mean, so they cannot be estimated in this way.  If some members did not answer, the mean latency of the
    others is a ratio of two estimates, with a bias that shrinks like one over the number of rounds.  All other
    estimates have no bias.

    The intervals hold for many rounds, and they are too wide rather than too narrow.  If the evaluated policy may
    choose a client that could not be picked in the run, the run cannot tell what that is worth, and the call is
    refused.

    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from pausefl.runs.config import make_config
    >>> from pausefl.runs.play import run
    >>> config = make_config({"learning": {"enabled": False}, "selection": {"policy": "random"}})
    >>> found = off_policy(run(config, Path(mkdtemp())), "fastest").measures["seconds"]
    >>> found.doubly_robust.value < 0.2 < found.played.value
    True
    """
    rounds = [one for one in replay(run, policy) if one.number >= first]
    judged = policy.name if isinstance(policy, Policy) else policy
    return OffPolicy(
        run.settings.selection.policy, judged, len(rounds),
        sum(record["round"] >= first for record in run.records) - len(rounds),
        max((float(_weights(one).max()) for one in rounds), default=0.0),
        sum(int(np.isnan(one.seconds).sum()) for one in rounds),
        estimates(rounds, tau_min=run.settings.network.tau_min),
    )  # fmt: skip


def estimates(rounds: Sequence[LoggedRound], *, tau_min: Seconds) -> dict[str, Estimates]:
    """Return the estimates by measure; for logs of your own, in which clients are numbered from 0.

    Args:
        rounds: The logged rounds, 2 or more.
        tau_min: The smallest possible latency in seconds.

    >>> two = np.array([0, 1])
    >>> log = [
    ...     LoggedRound(
    ...         number=number, candidates=two, chances=np.array([0.5, 0.5]), target=np.array([1.0, 0.0]),
    ...         members=np.array([number % 2]), seconds=np.array([0.1 + number % 2]), arrived=np.array([True]),
    ...     )
    ...     for number in range(1, 101)
    ... ]
    >>> round(estimates(log, tau_min=0.05)["seconds"].doubly_robust.value, 2)
    0.1
    """
    require(len(rounds) > 1, "number of rounds", len(rounds), "2 or more", "log more rounds with known chances")
    _require_overlap(rounds)
    seconds = [np.nan_to_num(one.seconds) for one in rounds]
    heard = [(~np.isnan(one.seconds)).astype(np.float64) for one in rounds]
    speed = [said * tau_min / np.maximum(took, tau_min) for took, said in zip(seconds, heard, strict=True)]
    every = all(bool(said.all()) for said in heard)
    return {
        "seconds": _estimated(rounds, seconds, None if every else heard),
        "speed": _estimated(rounds, speed),
        "answers": _estimated(rounds, [one.arrived.astype(np.float64) for one in rounds]),
    }


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """What each round adds to each of the estimates, and what was expected of it before the round."""

    played: FloatArray
    inverse: FloatArray
    direct: FloatArray
    doubly_robust: FloatArray
    expected_played: FloatArray
    expected: FloatArray


def round_terms(
    rounds: Sequence[LoggedRound], values: Sequence[FloatArray], model: FloatArray | None = None
) -> Terms:  # fmt: skip
    """Return the terms of the estimates, a number per round, for values of the members.

    The model of the doubly robust terms is the mean of what a client did before the round, so that it knows nothing of
    the draw that it is corrected by; of a client not yet seen, the mean of all.  That of the direct ones is the mean
    over all rounds.  ``model`` takes the place of both: a number per client.
    """
    clients = _clients(rounds)
    whole = _Means(clients)
    for one, seen in zip(rounds, values, strict=True):
        whole.add(one.candidates[one.members], seen)
    overall, so_far = whole.of() if model is None else model, _Means(clients)
    found = np.empty((6, len(rounds)))
    for at, (one, seen) in enumerate(zip(rounds, values, strict=True)):
        members, size = one.candidates[one.members], float(one.target.sum())
        before = so_far.of() if model is None else model
        weights, expected = _weights(one), float((one.target * before[one.candidates]).sum()) / size
        found[:, at] = (
            seen.sum() / one.chances.sum(),
            (weights * seen).sum() / size,
            (one.target * overall[one.candidates]).sum() / size,
            expected + (weights * (seen - before[members])).sum() / size,
            (one.chances * before[one.candidates]).sum() / one.chances.sum(),
            expected,
        )
        so_far.add(members, seen)
    return Terms(*found)


class _Means:
    """The mean of each client's values, and of all for those without any."""

    def __init__(self, clients: int) -> None:
        self._sums, self._counts = np.zeros(clients), np.zeros(clients)

    def add(self, clients: IntArray, values: FloatArray) -> None:
        self._sums[clients] += values
        self._counts[clients] += 1.0

    def of(self) -> FloatArray:
        count = float(self._counts.sum())
        every = float(self._sums.sum()) / count if count else 0.0
        return np.where(self._counts > 0.0, self._sums / np.maximum(self._counts, 1.0), every)


def _estimated(
    rounds: Sequence[LoggedRound], values: Sequence[FloatArray], counted: Sequence[FloatArray] | None = None
) -> Estimates:  # fmt: skip
    """Return the estimates of a mean over members, or over those of them that ``counted`` says."""
    above, below = round_terms(rounds, values), None if counted is None else round_terms(rounds, counted)
    found = {}
    for name in ("played", "inverse", "doubly_robust"):
        before = "expected_played" if name == "played" else "expected"
        terms = [(getattr(one, name), getattr(one, before)) for one in (above, below) if one is not None]
        found[name] = _mean(*terms)
    share = 1.0 if below is None else float(below.direct.mean()) or math.nan
    by_model = float(above.direct.mean()) / share
    ones = [np.ones(len(seen)) for seen in values] if counted is None else counted
    residuals = [(seen - by_model * one) / share for seen, one in zip(values, ones, strict=True)]
    return Estimates(**found, direct=_interval(by_model, _model_error(rounds, residuals), len(rounds)))


def _model_error(rounds: Sequence[LoggedRound], values: Sequence[FloatArray]) -> float:
    """Return the standard error of the direct estimate, as if clients had been seen so often by plan.

    Clients that were seen once have the variance that is usual within a client.
    """
    clients = _clients(rounds)
    sums, squares, counts, weights = (np.zeros(clients) for _ in range(4))
    for one, seen in zip(rounds, values, strict=True):
        members = one.candidates[one.members]
        sums[members] += seen
        squares[members] += seen**2
        counts[members] += 1.0
        weights[one.candidates] += one.target / one.target.sum() / len(rounds)
    around = np.maximum(squares - sums**2 / np.maximum(counts, 1.0), 0.0)
    usual = float(around.sum()) / max(float((counts - 1.0)[counts > 1.0].sum()), 1.0)
    variance = np.where(counts > 1.0, around / np.maximum(counts - 1.0, 1.0), usual)
    return math.sqrt(float((weights**2 * variance / np.maximum(counts, 1.0)).sum()))


def _mean(
    above: tuple[FloatArray, FloatArray], below: tuple[FloatArray, FloatArray] | None = None
) -> Estimate:  # fmt: skip
    """Return the mean of terms, or its ratio to the mean of others, with its error.

    Each is given with what was expected before the round.  A term is right on average given all before its round, so
    the squares of the differences from whatever was expected then are, on average, no smaller than its variance.
    """
    count, (terms, expected) = len(above[0]), above
    value, share = float(terms.mean()), 1.0
    differences = terms - expected
    differences[0] = terms[0] - value  # nothing was expected of the first round
    if below is not None:
        others, expected = below
        share = float(others.mean()) or math.nan
        value /= share
        further = others - expected
        further[0] = others[0] - share
        differences = differences - value * further
    error = math.sqrt(float((differences**2).sum()) / (count - 1) / count) / abs(share)
    return _interval(value, error, count)


def _interval(value: float, error: float, count: int) -> Estimate:
    reach = float(stdtrit(count - 1, 0.975)) * error
    return Estimate(value, error, value - reach, value + reach)


def _clients(rounds: Sequence[LoggedRound]) -> int:
    return 1 + max(int(one.candidates.max()) for one in rounds)


def _weights(one: LoggedRound) -> FloatArray:
    weights: FloatArray = one.target[one.members] / one.chances[one.members]
    return weights


def _require_overlap(rounds: Sequence[LoggedRound]) -> None:
    for one in rounds:
        alone = np.flatnonzero((one.target > 0.0) & (one.chances == 0.0))
        if len(alone):
            raise InvalidValueError(
                f"client {one.candidates[alone[0]]} could not be picked in round {one.number}, but the evaluated "
                "policy "
                "may pick it, so the run cannot tell what that is worth; pass first=… to start at a later round, or "
                "use a "
                "run of 'random'"
            )
