"""PAUSE with weights that set themselves: time, evenness and privacy in one currency, relative change.

The paper adds a speed, a power of a gap and a share of a budget, and leaves it to the user to weigh them.  Here all
three are logarithms.  A set that takes 10 % longer is as good as another if its members bring 10 % more.  What a member
brings has three parts:

* How even the use of the data becomes.  If a client holds the share n of all data and had the share w of all picks, the
  model has learned from as much data as an even sample of the share N = 1 / sum(w²/n) of it.  After t rounds of m
  picks, one more pick of the client changes log N by 2/(m t) (1 - N w/n), so a round changes it by 2/t times the mean
  over its members.  A round as long as the mean changes the logarithm of the time by 1/t.  So (1 - N w/n) and the
  logarithm of a round's time are in the same unit, whatever t, the number of clients and their sizes.  All data and all
  picks are those of the candidates of a round.  It counts a quarter, because data are only a part of the error: noise
  is the other.
* How much the next release tells, log(e/e1), where e is its epsilon and e1 that of the first release.
* How much is left of the client's budget.  The first half is there to be spent.  From then on it is 3 log(2p), where p
  is the share that is left: a client with a quarter of its budget counts an eighth as much as one with half of it.

Speed is the logarithm of the mean speed, plus what the client may be faster than that.  The paper's bonus holds for
any numbers from 0 to 1.  Latencies vary much less than that around a client's mean, and by how much is measured: see
``Candidates.latency_spread``.  A client that has never answered counts as an average one, so a large network is not
tried out first.

All of it is known to the server: latencies, sizes, picks and schedules.  Three numbers were chosen by trials on MNIST.
They are the quarter that evenness counts, the half that the bonus counts, and the 3 in 3 log(2p).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pausefl.errors import is_finite, require
from pausefl.selection.exact import exact
from pausefl.selection.objective import Objective
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.types import FloatArray, IntArray

_EVENNESS, _BONUS, _SECOND_HALF = 0.25, 0.5, 3.0
_LEAST = 1e-12
"""The smallest share of a budget, or of a release, of which a logarithm is taken."""


@dataclass(frozen=True)
class PauseAuto(Policy):
    """PAUSE without weights: the exact optimum of log speed + evenness + privacy.

    Args:
        collision: What each collision within a cluster costs, as a share of the time of a round.  It matters only where
            there are clusters.

    Begin with this policy.  It was the fastest to a good model in most settings (docs/field.md).

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=PauseAuto())
    >>> sel.select().members
    ('b', 'c')
    """

    name: ClassVar[str] = "pause-auto"
    any_reward: ClassVar[bool] = False
    needs = frozenset({"latency", "sizes"})
    collision: float = 0.0

    def __post_init__(self) -> None:
        fine = is_finite(self.collision) and self.collision >= 0.0
        require(fine, "collision", self.collision, "a finite number from 0", "0 switches it off")

    def maximises(self, candidates: Candidates) -> Objective:
        """Return log speed + evenness + privacy."""
        m = candidates.m
        brings = _EVENNESS * evenness(candidates.sizes, candidates.picks) + privacy(candidates)
        return Objective(log_speed(candidates), brings / m, m, candidates.objective.clusters, self.collision)

    def pick(self, candidates: Candidates) -> IntArray:
        """Return the optimum."""
        return exact(self.maximises(candidates), candidates.tickets)


def evenness(sizes: FloatArray, picks: IntArray) -> FloatArray:
    """Return 1 - N w/n of each client: 1 for one never picked, 0 for one picked as often as its data deserves.

    >>> evenness(np.array([1.0, 1.0, 2.0]), np.array([1, 0, 0])).tolist()
    [0.0, 1.0, 1.0]
    >>> evenness(np.array([1.0, 1.0, 2.0]), np.array([1, 1, 2])).tolist()
    [0.0, 0.0, 0.0]
    """
    if not picks.any():
        return np.ones(len(picks))
    use = picks / picks.sum() / (sizes / sizes.sum())
    even: FloatArray = 1.0 - use / float(use @ (picks / picks.sum()))
    return even


def privacy(candidates: Candidates) -> FloatArray:
    """Return log(e/e1), and below half of a budget 3 log(2p), of each client: 0 for one that has released nothing."""
    release, left = (np.maximum(one, _LEAST) for one in (candidates.next_release, candidates.budget_left))
    return np.log(release) + _SECOND_HALF * np.log(np.minimum(2.0 * left, 1.0))


def log_speed(candidates: Candidates) -> FloatArray:
    """Return the logarithm of how fast each client may be; infinity while nobody has answered."""
    timings, speed = candidates.timings, candidates.mean_speed
    known = (timings > 0) & (speed > 0.0)
    if not known.any():
        return np.full(len(candidates), np.inf)
    mean = np.log(speed[known])
    rounds = max(candidates.round_number - 1, 1)
    # sqrt(2 log t / T) is the bound of a normal mean after T timings, which fails in round t with probability 1/t.
    bonus = _BONUS * candidates.latency_spread * np.sqrt(2.0 * math.log(rounds) / timings[known])
    bound = np.full(len(candidates), float(mean.mean()))
    bound[known] = mean + bonus
    return bound
