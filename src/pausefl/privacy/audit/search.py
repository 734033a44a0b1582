"""The search for the pair and the event that accuse most, and the measurement of that one event on fresh trials.

References: Jagielski, Ullman and Oprea (2020) for choosing on some trials and measuring on others; Mironov (2012) for
the low bits; Kong et al., "DP-Auditorium" (2023), for the search over inputs.

All pairs are tried with a few trials each, the most telling of each size again with more, and the most telling event is
then measured with many.  Trials are never used twice, so choosing costs no confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from pausefl.errors import require
from pausefl.privacy.audit.bounds import AnyMechanism, Bound, Counts, GaussianCurve
from pausefl.privacy.audit.input_pairs import ROWS, SIZES, InputPair, input_pairs, probe, tensor_ends
from pausefl.privacy.audit.views import Views
from pausefl.privacy.mechanisms.base import Guarantee, Mechanism
from pausefl.privacy.mechanisms.noise import Noise
from pausefl.privacy.mechanisms.tensor_rules import Layers
from pausefl.rng import stream
from pausefl.types import BoolArray, Epsilon, FloatArray, IntArray

Trial: TypeAlias = Callable[[Sequence[FloatArray]], FloatArray]
"""Releases updates one after the other, and returns what was released, a row each."""

_FREE = 8
"""Up to so many numbers per trial a pair gets all runs; larger ones get fewer, so that each costs about the same."""
_PROBES = 256
_EXPLORING, _CHOOSING = 1e-4, 0.5
"""The errors of the bounds by which pairs and events are chosen, for all views of one together: luck must not win."""
_TAILS = 0.5 ** np.arange(1.0, 7.5, 0.5)
"""The shares of all trials that an event may have."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What the attack achieved.  A correct mechanism is accused in at most ``error`` of all audits.

    Attributes:
        mechanism: What was attacked.
        source: Where its noise came from.
        private: Whether this source claims to be private.
        claimed: The epsilon that the mechanism claims.
        delta: The delta that it claims.
        lower: What it must have leaked, with confidence 1 - ``error``.
        attainable: What as many runs show of a mechanism without any noise: an epsilon above it cannot be refuted.
        event: The event by which the two inputs were told apart.
        runs: About how many releases of each input there were.
        error: How likely the bound may be wrong.

    :func:`audit` returns it, and has an example.
    """

    mechanism: str
    source: str
    private: bool
    claimed: Epsilon
    delta: float
    lower: Epsilon
    attainable: Epsilon
    event: str
    runs: int
    error: float

    @property
    def passed(self) -> bool:
        """Whether the claim survived the attack; this does not prove the claim."""
        return self.lower <= self.claimed

    @property
    def verdict(self) -> str:
        """What the attack says of the claim."""
        if not self.passed:
            return "BROKEN"
        if self.attainable <= self.claimed:
            return f"inconclusive: at most {self.attainable:.3f} could be shown with {self.runs} runs; raise --runs"
        return "not refuted"


@dataclass(frozen=True, slots=True)
class Event:
    """A guess at the input by one view: the first where it is ``high`` or more, the second below ``low``, else none.

    ``flipped`` guesses the other way round.
    """

    views: Views
    column: int
    low: float
    high: float
    flipped: bool
    strength: float

    def counts(self, seen: FloatArray, coins: BoolArray) -> Counts:
        """Return how often it was right and how often wrong, of how many trials."""
        score = self.views.scores(seen)[:, self.column]
        coins = coins ^ self.flipped
        upper, lower = score >= self.high, score < self.low
        right, wrong = int((upper & coins | lower & ~coins).sum()), int((upper & ~coins | lower & coins).sum())
        runs = int(coins.sum()), int((~coins).sum())
        return np.array(right), np.array(wrong), runs if self.high < math.inf else runs[::-1]

    def __str__(self) -> str:
        pair, view = self.views.pair, self.views.names[self.column]
        sides = [f">= {self.high:.6g}"] * (self.high < math.inf) + [f"< {self.low:.6g}"] * (self.low > -math.inf)
        return f"{view} {' or '.join(sides)}; {pair.name}, {pair.size} numbers"


def audit(
    mechanism: Mechanism, epsilon: Epsilon, noise: Noise, *, runs: int = 40_000, error: float = 0.01,
    low_bits: bool | None = None,
) -> Audit:  # fmt: skip
    """Attack ``mechanism`` with about ``runs`` releases of each input; the bound has the confidence 1 - ``error``.

    Args:
        mechanism: What is attacked.
        epsilon: The epsilon of each release, which the mechanism claims to keep.
        noise: Where the noise comes from.
        runs: About how many releases there are of each input.  More runs show more.
        error: How likely the bound may be wrong.
        low_bits: Whether to look also at the last bits of the floats, where noise from plain floats gives its input
            away.  None does so for sources that claim to be private.

    >>> from pausefl.privacy import Laplace, SimulatedNoise
    >>> noise = SimulatedNoise(np.random.default_rng(0))
    >>> found = audit(Laplace(unit="coordinate", width=0.003), 1.5, noise, runs=5000)
    >>> found.passed, found.lower > 1.2
    (True, True)
    """

    def trial(updates: Sequence[FloatArray]) -> FloatArray:
        return np.stack([_release(mechanism, update, epsilon, noise) for update in updates])

    bits, guarantee = noise.private if low_bits is None else low_bits, mechanism.guarantee
    lower, most, event = attack(trial, guarantee, bound_for(mechanism), runs=runs, error=error, low_bits=bits)
    return Audit(repr(mechanism), noise.name, noise.private, epsilon, guarantee.delta, lower, most, event, runs, error)


def bound_for(mechanism: Mechanism) -> Bound:
    """Return the bound that fits what the mechanism claims.

    Args:
        mechanism: The mechanism that is to be attacked.

    >>> from pausefl.privacy import Laplace
    >>> bound_for(Laplace(unit="coordinate", width=1.0))
    AnyMechanism(delta=0.0)
    """
    delta = mechanism.guarantee.delta
    if mechanism.loss != "gaussian":
        return AnyMechanism(delta)
    return GaussianCurve(delta, in_rho=mechanism.composition == "zcdp")


def attack(
    trial: Trial, guarantee: Guarantee, bound: Bound, *, runs: int, error: float, low_bits: bool,
    sizes: Iterable[int] = tuple(SIZES), least: int = 400, count: int = ROWS, given: InputPair | None = None,
) -> tuple[Epsilon, Epsilon, str]:  # fmt: skip
    """Return a lower bound on epsilon, the largest that could have been shown, and the event that showed it.

    Args:
        trial: Releases updates one after the other, and returns what was released, a row each.
        guarantee: What is claimed.
        bound: How counts become a bound, see :func:`bound_for`.
        runs: About how many releases there are of each input.
        error: How likely the bound may be wrong.
        low_bits: Whether to look also at the last bits of the floats.
        sizes: How many numbers the inputs may have.
        least: With how many trials each pair of inputs is tried at least.
        count: The public number of records, where these are protected.
        given: The pair of inputs to use; None searches for one.

    Here a client clips and then forgets its noise, so the attack shows all that so few runs can show:

    >>> def trial(updates):
    ...     return np.stack([np.clip(update, -1.0, 1.0) for update in updates])
    >>> claim = Guarantee("coordinate", "linf", 1.0)
    >>> lower, most, _ = attack(trial, claim, AnyMechanism(0.0), runs=400, error=0.01, low_bits=False, sizes=(4,))
    >>> round(lower, 2) == round(most, 2) > 4.0
    True
    """
    require(runs >= 100, "runs", runs, "100 or more", "raise it, because fewer runs show nothing")
    require(0.0 < error < 0.5, "error", error, "between 0 and 0.5", "0.05 is common")
    rng = stream(0, "audit")

    def tried(pair: InputPair, trials: int) -> tuple[FloatArray, BoolArray]:
        coins = rng.random(trials) < 0.5
        known = [pair.first] * pair.before
        return np.stack([trial([*known, pair.first if coin else pair.second]) for coin in coins]), coins

    def best(pair: InputPair, trials: int, luck: float) -> Event:
        """Fit the views to one half of new trials, and choose the event by the other."""
        (seen, coins), half = tried(pair, trials), trials // 2
        views = Views.fit(pair, guarantee, seen[:half], coins[:half], low_bits)
        event = _best_event(views, seen[half:], coins[half:], bound, luck)
        # Pairs are compared at the smaller error, because the many views of a large one have more luck.
        strength = bound.lower(*event.counts(seen[half:], coins[half:]), _EXPLORING)
        return replace(event, strength=float(strength))

    def shared(pair: InputPair) -> int:
        return max(100, runs * _FREE // max(_FREE, pair.cost))

    pairs = [given] if given is not None else []
    if not pairs:
        noise = trial([probe(guarantee, rng)] * min(_PROBES, least))
        pairs = list(input_pairs(guarantee, rng, noise, sizes, count))
    found = [best(pair, max(least, min(shared(pair) // 10, 2000)), _EXPLORING) for pair in pairs]
    # Within each cost: of a costly pair there are few trials, so that it could not compete with a cheap one.
    found.sort(key=lambda event: event.strength)
    chosen = {event.views.pair.cost: event.views.pair for event in found}
    # The first pair are opposites: they show too little noise best, which a few trials cannot tell.
    again = dict.fromkeys([*chosen.values(), pairs[0]])
    event = max((best(pair, shared(pair) // 2, _CHOOSING) for pair in again), key=lambda event: event.strength)
    pair = event.views.pair
    right, wrong, of = event.counts(*tried(pair, 2 * shared(pair)))
    always = sum(of) if bound.both_sides else of[0]
    lower, most = bound.lower(right, wrong, of, error), bound.lower(np.array(always), np.array(0), of, error)
    return bound.epsilon(float(lower)), bound.epsilon(float(most)), str(event)


def _release(mechanism: Mechanism, update: FloatArray, epsilon: Epsilon, noise: Noise) -> FloatArray:
    """Release an update as a client would: some sizes as a flat array, others as tensors by name.

    A table of records comes as tensors by name, of which the first is small.
    """
    if update.ndim == 2:
        cuts = tensor_ends(update.shape[1])[:-1]
        rows = {f"tensor {i}": part for i, part in enumerate(np.split(update, cuts, axis=1))}
        layers = Layers({name: part.shape[1:] for name, part in rows.items()})
        made = mechanism.release_records(rows, ROWS, epsilon, noise, layers=layers).update
        return np.concatenate([np.ravel(made[name]) for name in rows])
    if SIZES[update.size] == 1:
        return np.asarray(mechanism.release(update, epsilon, noise).update)
    parts = {f"tensor {i}": part for i, part in enumerate(np.array_split(update, SIZES[update.size]))}
    released = mechanism.release(parts, epsilon, noise, layers=Layers.of(parts)).update
    return np.concatenate([np.ravel(released[name]) for name in parts])


def _best_event(views: Views, seen: FloatArray, coins: BoolArray, bound: Bound, luck: float) -> Event:
    """Return the event that accuses most, by the bound that will be taken of it at the error ``luck``."""
    scores = views.scores(seen)
    ours, theirs = np.sort(scores[coins], axis=0), np.sort(scores[~coins], axis=0)
    runs = len(ours), len(theirs)
    if not min(runs):
        return Event(views, 0, -math.inf, math.inf, False, -math.inf)
    low, high = np.quantile(scores, [_TAILS, 1.0 - _TAILS], axis=0, method="higher")
    # An event that one of the inputs never has.
    low = np.vstack([low, ours[0], theirs[0]])
    high = np.vstack([high, np.nextafter([ours[-1], theirs[-1]], math.inf)])
    above = runs[0] - _below(ours, high), runs[1] - _below(theirs, high)
    below = _below(ours, low), _below(theirs, low)
    none = np.full(low.shape, math.inf)
    sides = [(-none, high, above, runs), (low, none, below[::-1], runs[::-1])]
    if bound.both_sides:
        sides.append((low, high, (above[0] + below[1], above[1] + below[0]), runs))
    error = luck / scores.shape[1]
    strengths = np.stack(
        [
            bound.lower(*counts, error)
            for _, _, (right, wrong), of in sides
            for counts in ((right, wrong, of), (wrong, right, of[::-1]))  # the second is flipped
        ],
        axis=-1,
    )
    # Of equal ones the first view, then the first side, then the first threshold.
    best = int(np.argmax(strengths.transpose(1, 2, 0)))
    column, side, i = np.unravel_index(best, strengths.transpose(1, 2, 0).shape)
    lows, highs, _, _ = sides[side // 2]
    strength = float(strengths[i, column, side])
    return Event(views, int(column), float(lows[i, column]), float(highs[i, column]), bool(side % 2), strength)


def _below(sorted_columns: FloatArray, thresholds: FloatArray) -> IntArray:
    """Return how many numbers of each column lie below each of its thresholds."""
    return np.stack([np.searchsorted(*both) for both in zip(sorted_columns.T, thresholds.T, strict=True)], axis=1)
