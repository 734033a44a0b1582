"""Client scheduling by upper confidence bounds on speed, without and with a promise to each client.

Reference: Xia, Quek, Guo, Wen, Yang and Zhu, "Multi-Armed Bandit-Based Client Scheduling for Federated Learning"
(2020): CS-UCB for equal data, CS-UCB-Q for unequal data and clients that come and go.

Deviation: tau_max, which the paper takes as known, is by default the longest answer seen so far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pausefl.selection.peers.keyed_draws import highest
from pausefl.selection.peers.option_checks import check_number, check_positive
from pausefl.selection.peers.waiting_queues import WaitingQueues
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.types import FloatArray, IntArray, Seconds


@dataclass(frozen=True, slots=True)
class CsUcb(Policy):
    """CS-UCB: the m highest bounds on speed, mean(1 - tau/tau_max) + √((m+1) ln t / z), of a client timed z times.

    Clients that were never timed come first.

    Args:
        tau_max: The seconds at which a speed is 0; a client whose mean is longer has the speed 0, too.  None takes the
            slowest answer seen.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=CsUcb())
    >>> sel.select().members
    ('b', 'c')
    """

    name: ClassVar[str] = "cs-ucb"
    needs = frozenset({"latency"})
    tau_max: Seconds | None = None

    def __post_init__(self) -> None:
        _check(self.tau_max)

    def pick(self, candidates: Candidates) -> IntArray:
        """Return the m highest bounds."""
        return highest(candidates, self.index(candidates), candidates.m)

    def index(self, candidates: Candidates) -> FloatArray:
        """Return the bound of each candidate."""
        return _mean_reward(candidates, self.tau_max) + _bonus(candidates, candidates.m + 1.0)


@dataclass(slots=True, eq=False)
class CsUcbQ(Policy):
    """CS-UCB-Q: (1 - β)·min(1, mean + √(2 ln t / z)) + β·D, where D is a queue of rounds that a client is owed.

    Each client is promised the share c = 0.5·m·n_k/n of the rounds, and D ← [D + c - 1{took part}]⁺ after each round,
    also while the client is away.  A client that was never timed has the bound 1.

    Args:
        queue_weight: How much the queue counts against speed: β, from 0 to 1.
        guarantee: Which part of the share m·n_k/n of rounds a client is promised.
        tau_max: As for CS-UCB.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=CsUcbQ())
    >>> sel.select().members
    ('b', 'c')
    """

    name: ClassVar[str] = "cs-ucb-q"
    needs = frozenset({"latency", "sizes"})
    queue_weight: float = 0.5
    guarantee: float = 0.5
    tau_max: Seconds | None = None
    queues: WaitingQueues = field(default_factory=WaitingQueues, init=False, repr=False)

    def __post_init__(self) -> None:
        check_number("queue_weight", self.queue_weight, 0.0, 1.0, 0.5)
        check_number("guarantee", self.guarantee, 0.0, 1.0, 0.5)
        _check(self.tau_max)

    def pick(self, candidates: Candidates) -> IntArray:
        """Return the m clients with the highest sum of speed and queue."""
        return highest(candidates, self.index(candidates), candidates.m)

    def index(self, candidates: Candidates) -> FloatArray:
        """Return the sum of speed and queue of each candidate."""
        bound = np.minimum(1.0, _mean_reward(candidates, self.tau_max) + _bonus(candidates, 2.0))
        waiting = self.queues.of(len(candidates.all_ids))[candidates.rows]
        worth: FloatArray = (1.0 - self.queue_weight) * bound + self.queue_weight * waiting
        return worth

    def played(self, candidates: Candidates, members: IntArray) -> None:
        """Move the queues of all clients."""
        sizes = candidates.everyone("sizes")
        promised = self.guarantee * candidates.m * sizes / math.fsum(sizes)
        self.queues.move(promised, candidates.rows[members])

    def state(self) -> Mapping[str, Any]:
        """Return the queues."""
        return {"queues": self.queues.lengths}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over the queues."""
        self.queues = WaitingQueues(state["queues"])


def _check(tau_max: Seconds | None) -> None:
    if tau_max is not None:
        check_positive("tau_max", tau_max, "None takes the slowest answer seen")


def _mean_reward(candidates: Candidates, tau_max: Seconds | None) -> FloatArray:
    """Return the mean of 1 - tau/tau_max, from 0 to 1; 0 for clients of which nothing is known."""
    slowest = candidates.slowest_seen if tau_max is None else tau_max
    if slowest <= 0.0:
        return np.zeros(len(candidates))
    return np.nan_to_num(np.clip(1.0 - candidates.mean_seconds / slowest, 0.0, 1.0))


def _bonus(candidates: Candidates, factor: float) -> FloatArray:
    """Return √(factor·ln t / z) after t rounds; infinite for clients never timed."""
    timings = candidates.timings
    bonus = np.sqrt(factor * math.log(max(candidates.round_number - 1, 1)) / np.maximum(timings, 1))
    return np.where(timings == 0, np.inf, bonus)
