"""What is maximised, what a solution is, and how ties are broken.

Reference: PAUSE, eq. (pause's policy).  Two conventions hold everywhere:

* A client never picked has ucb = inf.  Sets are compared as the pair (minimum ucb, the rest): a set without a finite
  minimum beats every set with one, two of them compare by the rest, and infinity never enters arithmetic.
* Ties go to the client with the higher ucb, then to the smaller lottery ticket; tickets are random and belong to the
  client, not to its position.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from pausefl.errors import InvalidValueError, NotEnoughClientsError, require
from pausefl.types import FloatArray, IntArray, KeyArray

SetFunction: TypeAlias = Callable[[IntArray], float]
"""Any bounded function of a set, given as an array of indices."""

Tickets: TypeAlias = Callable[[IntArray], KeyArray]
"""Lottery numbers for the clients at these indices; the smallest wins a tie."""


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """Maximise min(ucb[S]) + sum(score[S]) - collision·sum_r max(0, |S ∩ C_r| - 1) + phi(S) over all S with |S| = m.

    Args:
        ucb: How fast each client may be; infinite for clients never observed.
        score: What each client adds to a set.
        m: How many clients to choose.
        clusters: The cluster of each client.
        collision: What each collision within a cluster costs.
        phi: Your own function of the positions of a set.  Its value is added.

    >>> objective = Objective(np.array([1.0, 2.0, 3.0]), np.array([5.0, 0.0, 1.0]), m=2)
    >>> objective.solution(np.array([2, 0])).value
    7.0
    """

    ucb: FloatArray
    score: FloatArray
    m: int
    clusters: IntArray | None = None
    collision: float = 0.0
    phi: SetFunction | None = None
    penalty: float = field(init=False)  # the collision penalty as far as it matters for who is best

    def __post_init__(self) -> None:
        ucb, score = np.asarray(self.ucb, dtype=np.float64), np.asarray(self.score, dtype=np.float64)
        object.__setattr__(self, "ucb", np.ascontiguousarray(ucb))
        object.__setattr__(self, "score", np.ascontiguousarray(score))
        require(ucb.ndim == 1, "ucb dimensions", ucb.ndim, "1", "pass one number per client")
        require(score.shape == ucb.shape, "score length", score.shape, f"{ucb.shape}", "pass one score per client")
        m = self.m
        require(
            isinstance(m, (int, np.integer)) and m >= 1, "m", m, "a whole number from 1", "pick at least one client"
        )
        if m > len(ucb):
            raise NotEnoughClientsError(
                f"m is {m}, but only {len(ucb)} clients are available; lower m, or wait for more clients"
            )
        # A sum is finite only if all its parts are, and costs one pass without a temporary.
        require(
            math.isfinite(float(score.sum())),
            "score",
            "NaN or infinite",
            "finite for every client",
            "pass finite scores",
        )
        low = float(ucb.min())
        require(low > -math.inf, "ucb", low, "above -inf and not NaN", "use +inf for clients never observed")
        require(
            math.isfinite(self.collision) and self.collision >= 0.0,
            "collision",
            self.collision,
            "finite and 0 or more",
            "put a reward for crowding into phi",
        )
        if self.clusters is not None:
            object.__setattr__(self, "clusters", _dense_labels(self.clusters, len(ucb)))
        object.__setattr__(self, "penalty", self._penalty(low) if self.clustered else 0.0)

    @property
    def separable(self) -> bool:
        """Whether the exact solver can take it."""
        return self.phi is None

    @property
    def clustered(self) -> bool:
        """Whether the cluster penalty plays a part."""
        return self.clusters is not None and self.collision > 0.0

    def rest(self, members: IntArray) -> float:
        """Return everything but the minimum ucb, correctly rounded."""
        parts = self.score[members].tolist()
        if self.clusters is not None and self.collision > 0.0:
            parts.append(-self.collision * (len(members) - len(np.unique(self.clusters[members]))))
        if self.phi is not None:
            extra = float(self.phi(members))
            if not math.isfinite(extra):
                raise InvalidValueError(
                    f"phi is {extra!r} for {members.tolist()}, but must be finite; change your function so that it is "
                    "bounded"
                )
            parts.append(extra)
        return math.fsum(parts)

    def _penalty(self, slowest: float) -> float:
        # Beyond the largest difference that speed and scores can make, only the number of collisions counts; a larger
        # penalty would drown the scores in rounding.
        fastest = float(self.ucb.max())
        if math.isinf(fastest):
            fastest = (
                float(self.ucb.max(initial=slowest, where=np.isfinite(self.ucb))) if slowest < math.inf else slowest
            )
        speed = fastest - slowest if fastest > slowest else 0.0
        return min(self.collision, 2.0 * (speed + self.m * float(np.ptp(self.score))) + 1.0)

    def solution(self, members: IntArray, weights: FloatArray | None = None) -> Solution:
        """Return these members as a solution, with its value worked out."""
        members = np.asarray(members)
        if len(members) == 0 or members.min() < 0 or members.max() >= len(self.ucb):
            raise InvalidValueError(
                f"positions are {members[:20].tolist()}, but must be from 0 to {len(self.ucb) - 1}; pass positions of "
                "candidates"
            )
        order = np.argsort(members, kind="stable")
        chosen = members[order].astype(np.int64)
        minimum = float(self.ucb[chosen].min())
        return Solution(chosen, minimum, self.rest(chosen), None if weights is None else weights[order])


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A set of clients, and what it is worth.

    Attributes:
        members: The positions of the clients, in ascending order.
        minimum: The smallest ucb of the members.
        rest: Everything else that the set is worth.
        weights: The weights of the members, which sum to 1.  Only policies that draw with replacement set them.

    >>> from pausefl.selection import solve_exact
    >>> best = solve_exact(np.array([1.0, 2.0, 3.0]), np.array([5.0, 0.0, 1.0]), m=2)
    >>> best.members.tolist(), best.minimum, best.rest, best.value
    ([0, 2], 1.0, 6.0, 7.0)
    """

    members: IntArray
    minimum: float
    rest: float
    weights: FloatArray | None = None

    @property
    def value(self) -> float:
        """The minimum ucb plus the rest."""
        return self.minimum + self.rest

    @property
    def rank(self) -> tuple[bool, float]:
        """A key that orders solutions, also those whose minimum is infinite."""
        return (True, self.rest) if math.isinf(self.minimum) else (False, self.minimum + self.rest)


def no_tickets(indices: IntArray) -> KeyArray:
    """Break ties by position: for callers who give no generator."""
    return indices.astype(np.uint64)


def tickets_from(rng: np.random.Generator | None) -> Tickets:
    """Return tickets drawn from a generator, or positional ones without."""
    if rng is None:
        return no_tickets
    return lambda indices: rng.integers(0, 2**64, size=len(indices), dtype=np.uint64)


def _dense_labels(clusters: IntArray, count: int) -> IntArray:
    labels = np.asarray(clusters)
    require(
        labels.shape == (count,), "clusters length", labels.shape, f"({count},)", "pass one cluster number per client"
    )
    require(
        np.issubdtype(labels.dtype, np.integer), "clusters type", str(labels.dtype), "integers", "for example [0, 0, 1]"
    )
    dense = np.ascontiguousarray(labels, dtype=np.int64)
    if dense.min() < 0 or dense.max() >= 2 * count + 64:
        dense = np.unique(dense, return_inverse=True)[1].reshape(count).astype(np.int64)
    return dense
