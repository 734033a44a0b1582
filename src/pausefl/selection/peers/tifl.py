"""TiFL: each round is drawn from one tier of equally fast clients.

Reference: Chai et al., "TiFL: A Tier-based Federated Learning System" (HPDC 2020), Alg. 2 (adaptive tier selection).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pausefl.errors import require
from pausefl.selection.peers.keyed_draws import drawn
from pausefl.selection.peers.option_checks import check_whole
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.types import FloatArray, IntArray


@dataclass(eq=False)
class TiFL(Policy):
    """TiFL: sorts clients into tiers by their mean seconds, draws a tier, and draws m of its clients uniformly.

    At first all tiers are equally likely.  Every ``interval`` rounds, if the accuracy of the tier just played has not
    risen, the tiers are ranked by accuracy, and of n tiers the one at rank i = 0, 1, …, worst first, gets the
    probability (n - i) / (n(n+1)/2).  A tier that has used up its credits is not drawn any more.

    Deviation: the paper measures the latency of all clients first.  Here clients that were never timed are picked
    before all others.  The tiers are those of the candidates of a round, equally large.  The accuracy of a tier is what
    its clients last told with an update, weighted by their data, and not that on the data of all of them; a tier of
    which nothing is known counts as the worst, and where there is no earlier accuracy it counts as not risen.  Where a
    tier has fewer than m clients, the round is filled from the next faster tiers, which cost no time, and then from the
    next slower ones.  When all credits are used up, they no longer count; the paper's algorithm would not end.

    Args:
        tiers: How many tiers there are.
        interval: After how many rounds the probabilities may change.
        credits: How often each tier may be drawn.  None sets no limit; the paper gives no numbers.
        adaptive: Whether probabilities follow the accuracy.  If not, they stay equal, and clients tell no accuracy.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=TiFL())
    >>> sel.select().members
    ('c', 'd')
    """

    name: ClassVar[str] = "tifl"
    needs = frozenset({"latency", "sizes", "accuracy"})
    tiers: int = 5
    interval: int = 10
    credits: int | None = None
    adaptive: bool = True
    probabilities: FloatArray = field(init=False, repr=False)
    left: FloatArray = field(init=False, repr=False)
    before: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_whole("tiers", self.tiers, "the usual number is 5")
        check_whole("interval", self.interval, "the usual number is 10")
        if self.credits is not None:
            check_whole("credits", self.credits, "None sets no limit")
        require(isinstance(self.adaptive, bool), "adaptive", self.adaptive, "True or False", "True is the default")
        self.needs = frozenset({"latency", "sizes", "accuracy"}) if self.adaptive else frozenset({"latency"})
        self.probabilities = np.full(self.tiers, 1.0 / self.tiers)
        self.left = np.full(self.tiers, np.inf if self.credits is None else float(self.credits))
        self.before = np.full(self.tiers, np.nan)

    def pick(self, candidates: Candidates) -> IntArray:
        """Draw a tier, and m of its clients."""
        untimed, groups = self._groups(candidates)
        chosen = [drawn(candidates, "tifl", candidates.m, untimed)]
        places = candidates.m - len(chosen[0])
        for group in _in_turn(groups, self._tier(candidates, len(groups))) if places else ():
            chosen.append(drawn(candidates, "tifl", places, group))
            places -= len(chosen[-1])
        return np.concatenate(chosen)

    def inclusion(self, candidates: Candidates) -> FloatArray:
        """Return the chances, over all tiers; which of equally fast clients is in which tier is given by tickets."""
        untimed, groups = self._groups(candidates)
        chances = np.zeros(len(candidates))
        chances[untimed] = min(1.0, candidates.m / max(len(untimed), 1))
        most = candidates.m - len(untimed)
        weights = self._weights(len(groups))
        for tier, weight in enumerate(weights / weights.sum() if most > 0 else ()):
            places = most
            for group in _in_turn(groups, tier):
                taken = min(places, len(group))
                chances[group] += weight * taken / len(group)
                places -= taken
        return chances

    def played(self, candidates: Candidates, members: IntArray) -> None:
        """Take a credit from the tier that was played, and change the probabilities when it is time."""
        untimed, groups = self._groups(candidates)
        if len(untimed) >= candidates.m:
            return
        tier = self._tier(candidates, len(groups))
        self.left[tier] = max(self.left[tier] - 1.0, 0.0)
        if not self.adaptive or candidates.round_number % self.interval:
            return
        now = np.full(self.tiers, np.nan)
        now[: len(groups)] = [_mean_accuracy(candidates, group) for group in groups]
        if not np.isnan(now).all() and not now[tier] > self.before[tier]:
            self.probabilities = _worst_first(now)
        self.before = now

    def state(self) -> Mapping[str, Any]:
        """Return the probabilities, the credits and the last accuracies of the tiers."""
        return {"probabilities": self.probabilities, "left": self.left, "before": self.before}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take them over."""
        for name in ("probabilities", "left", "before"):
            setattr(self, name, np.array(state[name], dtype=np.float64))

    def _groups(self, candidates: Candidates) -> tuple[IntArray, list[IntArray]]:
        """Return the candidates that were never timed, and the tiers of the others, fastest first."""
        seconds = candidates.mean_seconds
        order = np.lexsort((candidates.tickets(np.arange(len(candidates))), seconds))  # NaN comes last
        timed = int(np.count_nonzero(~np.isnan(seconds)))
        return order[timed:], np.array_split(order[:timed], min(self.tiers, timed)) if timed else []

    def _weights(self, count: int) -> FloatArray:
        """Return the weights of the tiers in the draw: the probabilities of those that have credits left."""
        weights: FloatArray = np.where(self.left > 0.0, self.probabilities, 0.0)[:count]
        return weights if weights.any() else self.probabilities[:count]

    def _tier(self, candidates: Candidates, count: int) -> int:
        ends = np.cumsum(self._weights(count))
        point = candidates.stream("tifl").random() * ends[-1]
        return min(int(np.searchsorted(ends, point, side="right")), count - 1)


def _in_turn(groups: list[IntArray], tier: int) -> Iterator[IntArray]:
    """Yield a tier, the faster ones from the next to the fastest, and then the slower ones."""
    yield from groups[tier::-1]
    yield from groups[tier + 1 :]


def _mean_accuracy(candidates: Candidates, group: IntArray) -> float:
    told = group[~np.isnan(candidates.accuracy[group])]
    if not len(told):
        return math.nan
    sizes = candidates.sizes[told]
    return math.fsum(sizes * candidates.accuracy[told]) / math.fsum(sizes)


def _worst_first(accuracy: FloatArray) -> FloatArray:
    """Return (n - rank) / (n(n+1)/2), where the lowest accuracy has rank 0: the paper's ChangeProbs."""
    count = len(accuracy)
    ranks = np.empty(count)
    ranks[np.argsort(np.where(np.isnan(accuracy), -np.inf, accuracy), kind="stable")] = np.arange(count)
    probabilities: FloatArray = (count - ranks) / (count * (count + 1) / 2)
    return probabilities
