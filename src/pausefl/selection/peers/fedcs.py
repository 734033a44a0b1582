"""FedCS: as many clients as can answer before a deadline.

Reference: Nishio and Yonetani, "Client Selection for Federated Learning with Heterogeneous Resources in Mobile Edge"
(2019), Protocol 2 and Alg. 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pausefl.selection.peers.keyed_draws import drawn, highest
from pausefl.selection.peers.option_checks import check_positive, check_whole
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.types import IntArray, Seconds


@dataclass(frozen=True, slots=True)
class FedCS(Policy):
    """FedCS: of a few clients drawn at random, the fastest first, as long as each is expected before the deadline.

    A round has at most m members, and at least one: if nobody is expected in time, the fastest is chosen.

    Deviation: clients report no resources here, so the seconds of a client are its mean so far, and a client that was
    never timed counts as in time.  In the paper clients send one after the other over one channel, so the times of
    uploads add up; here they send at once, and a round takes as long as its slowest member.  The time that a client
    adds is then smallest for the fastest, and greedy is optimal.

    Args:
        deadline: Seconds that a round may take.  None takes the median of what the timed candidates take on average;
            the paper's three minutes fit its own network.
        pool: How many clients are drawn, and asked for their resources: the paper's ⌈K·C⌉. None takes m.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=FedCS())
    >>> sel.select().members
    ('c', 'd')
    """

    name: ClassVar[str] = "fedcs"
    size: ClassVar[str] = "at most m"
    needs = frozenset({"latency"})
    deadline: Seconds | None = None
    pool: int | None = None

    def __post_init__(self) -> None:
        if self.deadline is not None:
            check_positive("deadline", self.deadline, "None takes the median of the clients' means")
        if self.pool is not None:
            check_whole("pool", self.pool, "None takes m")

    def pick(self, candidates: Candidates) -> IntArray:
        """Return the fastest of the pool that are expected in time."""
        seconds = candidates.mean_seconds
        known = seconds[~np.isnan(seconds)]
        limit = self.deadline if self.deadline is not None else float(np.median(known)) if len(known) else np.inf
        expected = np.nan_to_num(seconds)
        wanted = candidates.m if self.pool is None else self.pool
        pool = drawn(candidates, "fedcs", wanted, np.arange(len(candidates)))
        fastest = highest(candidates, -expected[pool], candidates.m, pool)
        in_time = int(np.count_nonzero(expected[fastest] <= limit))
        return fastest[: max(in_time, 1)]
