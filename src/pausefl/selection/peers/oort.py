"""Oort: clients with a high loss that answer in time, and now and then one that was never tried.

Reference: Lai, Zhu, Madhyastha and Chowdhury, "Oort: Efficient Federated Learning via Guided Participant Selection"
(OSDI 2021), Alg. 1 and the utility of Section 4.3, with the defaults of the authors' ``oort.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pausefl.selection.peers.keyed_draws import drawn
from pausefl.selection.peers.option_checks import check_number, check_positive, check_whole
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.types import FloatArray, IntArray, Seconds

_SMALLEST_RANGE = 1e-4
_WINDOW = 5
"""Clients that were never tried are drawn from this many times as many, the largest first, as in the authors' code."""

_FLAT, _STEEP = 0.1, 5.0
"""A sum of utilities that changed by at most 10 % is flat; one that changed by 500 % or more is steep."""


@dataclass(slots=True, eq=False, kw_only=True)
class Oort(Policy):
    """Oort: most of a round is drawn ∝ utility among the best that were tried, the rest among those never tried.

    The utility of a client is (min(r, clip) - min r) / (max r - min r) + √(0.1 ln R / L), in round R, for a client that
    last took part in round L; times (T/t)² if its t seconds are more than T.  r = |B|·√(mean loss²) is what it may
    teach.  T is a percentile of the candidates' seconds, which a pacer moves: up when utilities have become flat, down
    when they change a lot.

    Deviation: a client tells the mean of its losses only, so r = |B|·mean loss, which is at most the paper's and equal
    to it where all examples have the same loss; a loss that noise has made negative counts as 0.  t is the mean of a
    client's seconds, not the last.  A client that took part and told no loss has the lowest r.  Once no candidate is
    left that was never tried, nobody is explored, and all of the round is drawn by utility; where fewer are left than
    are to be explored, others are drawn uniformly.  The cut-off is taken at the last of the best, so it exists however
    few there are.  The pacer is that of the authors' code, which can also shorten rounds; it adds up the utilities of
    members that had been tried before.  To invite more clients than needed (1.1·m in the authors' code) is a matter of
    the round, and not part of this policy; nor is their list of clients that took part too often, which is off by
    default.

    Args:
        exploration: The share of a round that is explored is exploration·decay^R in round R.
        decay: The factor by which that share falls in each round.
        least_exploration: The share below which it does not fall.
        percentile: The percentile of the seconds with which T begins.
        pacer_step: After how many rounds the pacer looks at the utilities.
        pacer_delta: By how many points the pacer moves the percentile.
        penalty: The power of T/t for slow clients.
        cut_off: Clients below this part of the cut-off utility are not drawn.
        clip: The quantile of r beyond which a higher r counts no more.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=Oort())
    >>> sel.select().members
    ('b', 'd')
    """

    name: ClassVar[str] = "oort"
    needs = frozenset({"latency", "sizes", "loss"})
    exploration: float = 0.9
    decay: float = 0.95
    least_exploration: float = 0.2
    percentile: float = 10.0
    pacer_step: int = 20
    pacer_delta: float = 5.0
    penalty: float = 2.0
    cut_off: float = 0.7
    clip: float = 0.98
    paced: float = field(init=False, repr=False)  # the percentile, as the pacer has moved it
    utilities: FloatArray = field(init=False, repr=False)  # of the last rounds

    def __post_init__(self) -> None:
        check_number("exploration", self.exploration, 0.0, 1.0, 0.9)
        check_number("decay", self.decay, 0.0, 1.0, 0.95)
        check_number("least_exploration", self.least_exploration, 0.0, 1.0, 0.2)
        check_number("percentile", self.percentile, 0.0, 100.0, 10.0)
        check_whole("pacer_step", self.pacer_step, "the usual number is 20")
        check_positive("pacer_delta", self.pacer_delta, "the usual value is 5")
        check_number("penalty", self.penalty, 0.0, None, 2.0)
        check_number("cut_off", self.cut_off, 0.0, 1.0, 0.7)
        check_number("clip", self.clip, 0.0, 1.0, 0.98)
        self.paced = float(self.percentile)
        self.utilities = np.empty(0)

    def pick(self, candidates: Candidates) -> IntArray:
        """Draw by utility among the tried, by size among the untried, and uniformly if places are left."""
        tried, untried = np.flatnonzero(candidates.picks > 0), np.flatnonzero(candidates.picks == 0)
        exploited = self._exploited(candidates, tried, self._how_many(candidates, len(tried), len(untried)))
        explored = self._explored(candidates, untried, candidates.m - len(exploited))
        places = candidates.m - len(exploited) - len(explored)
        others = np.setdiff1d(tried, exploited)
        return np.concatenate([exploited, explored, drawn(candidates, "oort, fill", places, others)])

    def played(self, candidates: Candidates, members: IntArray) -> None:
        """Note the utility of the members that had been tried before, and let the pacer look at it."""
        told = members[(candidates.picks[members] > 0) & ~np.isnan(candidates.loss[members])]
        reward = math.fsum(_may_teach(candidates, told)) / max(len(told), 1)
        step = int(self.pacer_step)
        self.utilities = np.append(self.utilities, reward)[-2 * step :]
        if candidates.round_number >= 2 * step and candidates.round_number % step == 0:
            self._pace(math.fsum(self.utilities[:step]), math.fsum(self.utilities[step:]))

    def state(self) -> Mapping[str, Any]:
        """Return where the pacer stands."""
        return {"paced": np.array(self.paced), "utilities": self.utilities}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take it over."""
        self.paced, self.utilities = float(state["paced"]), np.array(state["utilities"], dtype=np.float64)

    def utility(self, candidates: Candidates, tried: IntArray) -> FloatArray:
        """Return the utility of clients that took part before."""
        reward = _may_teach(candidates, tried)
        told = np.sort(reward[~np.isnan(reward)])
        if not len(told):
            told = np.zeros(1)
        reward = np.where(np.isnan(reward), told[0], reward)
        clipped = np.minimum(reward, told[min(int(len(told) * self.clip), len(told) - 1)])
        scaled = (clipped - told[0]) / max(told[-1] - told[0], _SMALLEST_RANGE)
        stale = np.sqrt(0.1 * math.log(candidates.round_number) / candidates.last_round[tried])
        utility: FloatArray = (scaled + stale) * self._in_time(candidates, tried)
        return utility

    def _how_many(self, candidates: Candidates, tried: int, untried: int) -> int:
        """Return how many are drawn by utility."""
        if not untried:
            return candidates.m
        share = max(self.exploration * self.decay**candidates.round_number, self.least_exploration)
        return min(int(candidates.m * (1.0 - share) + 1e-9), tried)

    def _exploited(self, candidates: Candidates, tried: IntArray, count: int) -> IntArray:
        if not count:
            return tried[:0]
        utility = self.utility(candidates, tried)
        admitted = utility >= self.cut_off * np.sort(utility)[len(utility) - count]
        with np.errstate(divide="ignore"):  # a utility of 0 is drawn last
            return drawn(candidates, "oort, exploit", count, tried[admitted], np.log(utility[admitted]))

    def _explored(self, candidates: Candidates, untried: IntArray, count: int) -> IntArray:
        worth = candidates.sizes[untried] * self._in_time(candidates, untried)
        largest = np.lexsort((candidates.tickets(untried), -worth))[: _WINDOW * count]
        return drawn(candidates, "oort, explore", count, untried[largest], np.log(worth[largest]))

    def _in_time(self, candidates: Candidates, positions: IntArray) -> FloatArray:
        """Return (T/t)^penalty for those that take longer than T, and 1 for all others."""
        preferred, seconds = self._preferred(candidates), candidates.mean_seconds[positions]
        factor = np.ones(len(positions))
        late = seconds > preferred  # a client never timed is not
        factor[late] = (preferred / seconds[late]) ** self.penalty
        return factor

    def _preferred(self, candidates: Candidates) -> Seconds:
        """Return T: the percentile of the candidates' seconds; no limit at 100."""
        known = np.sort(candidates.mean_seconds[~np.isnan(candidates.mean_seconds)])
        if self.paced >= 100.0 or not len(known):
            return np.inf
        return float(known[min(int(len(known) * self.paced / 100.0), len(known) - 1)])

    def _pace(self, earlier: float, now: float) -> None:
        change = abs(now - earlier)
        if change <= _FLAT * earlier:
            self.paced = min(self.paced + self.pacer_delta, 100.0)
        elif change >= _STEEP * earlier:
            self.paced = max(self.paced - self.pacer_delta, self.pacer_delta)


def _may_teach(candidates: Candidates, positions: IntArray) -> FloatArray:
    """Return r = |B|·loss; NaN where no loss was told."""
    return candidates.sizes[positions] * np.maximum(candidates.loss[positions], 0.0)
