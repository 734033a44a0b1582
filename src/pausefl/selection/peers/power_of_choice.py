"""Power of choice: a random few are looked at, and those of them that the model serves worst take part.

Reference: Cho, Wang and Joshi, "Client Selection in Federated Learning: Convergence Analysis and Power-of-Choice
Selection Strategies" (2020), Section 4: the strategies pow-d, cpow-d and rpow-d.

Deviation: a client that was asked and has never told a loss comes last, since the paper knows no silent clients.  A
client that is silent now but told a loss before is ranked by the old one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pausefl.errors import require
from pausefl.selection.peers.keyed_draws import drawn, highest, tied_ranks
from pausefl.selection.peers.option_checks import check_whole
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class PowD(Policy):
    """pow-d: of d clients, drawn in proportion to their data, the m with the highest loss.

    The d are asked for the loss of the current model on all their data, so d clients pay for a release in each round.

    Args:
        d: How many are asked.  It must be at least m; beyond the number of candidates, everybody is asked.  None takes
            2m, as in experiments of the paper.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=PowD())
    >>> sel.hear({"loss": {client: "abcd".index(client) for client in sel.asked()}})
    >>> sel.select().members
    ('c', 'd')
    """

    name: ClassVar[str] = "pow-d"
    needs = frozenset({"sizes", "loss"})
    d: int | None = None

    def __post_init__(self) -> None:
        _check(self.d)

    def ask(self, candidates: Candidates) -> IntArray:
        """Return the d that are drawn."""
        return _few(candidates, self.d)

    def pick(self, candidates: Candidates) -> IntArray:
        """Return the m of the d with the highest loss."""
        return _worst_served(candidates, _few(candidates, self.d), unknown=-np.inf)


@dataclass(frozen=True, slots=True)
class CPowD(PowD):
    """cpow-d: as pow-d, but the loss is that of one minibatch, which costs a client less time and the same privacy.

    Whoever works out the loss sees ``minibatch``, and decides how large a minibatch is.

    Args:
        d: How many are asked, as for pow-d.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=CPowD())
    >>> sel.hear({"loss": {client: "abcd".index(client) for client in sel.asked()}})
    >>> sel.select().members
    ('c', 'd')
    """

    name: ClassVar[str] = "cpow-d"
    minibatch: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class RPowD(Policy):
    """rpow-d: as pow-d, but by the loss that each client last told with an update; nobody is asked.

    So only the m members of a round pay for a release.  A client that has told nothing yet counts as infinite.

    Args:
        d: How many are looked at, as for pow-d.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=RPowD())
    >>> sel.select().members
    ('b', 'c')
    """

    name: ClassVar[str] = "rpow-d"
    needs = frozenset({"sizes", "loss"})
    d: int | None = None

    def __post_init__(self) -> None:
        _check(self.d)

    def pick(self, candidates: Candidates) -> IntArray:
        """Return the m of the d with the highest loss last told."""
        return _worst_served(candidates, _few(candidates, self.d), unknown=np.inf)

    def inclusion(self, candidates: Candidates) -> FloatArray | None:
        """Return the chances of equally large clients: hypergeometric, by how many have a higher loss.

        For unequal sizes there is no closed form.
        """
        if np.ptp(candidates.sizes) > 0.0:
            return None
        if len(candidates) == candidates.m:
            return np.ones(len(candidates))
        from scipy.stats import hypergeom

        count, m = len(candidates), candidates.m
        d = _how_many(candidates, self.d)
        # A client at rank r is chosen if it is among the d, and fewer than m of the r before it are.
        by_rank = d / count * hypergeom.cdf(m - 1, count - 1, np.arange(count), d - 1)
        sums = np.concatenate([[0.0], np.cumsum(by_rank)])
        higher, tied = tied_ranks(_known(candidates.loss, np.inf))
        chances: FloatArray = (sums[higher + tied] - sums[higher]) / tied
        return chances


def _check(d: int | None) -> None:
    if d is not None:
        check_whole("d", d, "None takes 2m")


def _how_many(candidates: Candidates, d: int | None) -> int:
    wanted = 2 * candidates.m if d is None else int(d)
    require(wanted >= candidates.m, "d", d, f"at least m, which is {candidates.m}", "raise d, or leave it out")
    return min(wanted, len(candidates))


def _few(candidates: Candidates, d: int | None) -> IntArray:
    everybody = np.arange(len(candidates))
    return drawn(candidates, "power of choice", _how_many(candidates, d), everybody, np.log(candidates.sizes))


def _worst_served(candidates: Candidates, few: IntArray, unknown: float) -> IntArray:
    return highest(candidates, _known(candidates.loss[few], unknown), candidates.m, few)


def _known(loss: FloatArray, unknown: float) -> FloatArray:
    return np.where(np.isnan(loss), unknown, loss)
