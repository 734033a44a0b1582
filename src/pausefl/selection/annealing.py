"""Simulated annealing over sets of m clients: for rewards the exact solver cannot take, and to reproduce SA-PAUSE.

Reference: PAUSE, Alg. 3 and eq. (setting C); Hajek (1988) for the cooling law.

Deviation: the exponent of the acceptance rule has its sign mended, and the best set seen is kept (the paper keeps the
last improvement).  The default temperature comes from the data: the paper's C bounds the energy by the largest values
the terms could ever take (near 200 for alpha = 100, against differences of 0.1), which makes the chain a random walk.
With ``restarts`` (the default) a chain tries the neighbours of a set without repetition, and once all were refused it
goes on from the best set above another threshold on the ucb, and after all of these from random sets: an all-fast and
an all-slow group are both good and far apart.  So it is cold, and the restarts do the exploring.
The policy ``sa-pause-as-published`` (``sa_pause.py``) is the paper's chain.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pausefl.errors import is_finite, require
from pausefl.selection.annealing_walk import best_from, walk, walk_any
from pausefl.selection.exact_sweep import marginals
from pausefl.selection.objective import Objective, SetFunction, Solution, Tickets, tickets_from
from pausefl.types import FloatArray, IntArray, KeyArray, Seconds

Graph: TypeAlias = Literal["tailored", "vanilla"]

DEFAULT_KAPPA = 3000.0
_PIECE, _SET_PIECE = 20_000, 32  # steps between two looks at the clock


@dataclass(frozen=True, slots=True)
class Annealer:
    """How to anneal: budget (``steps``, or ``seconds`` of real time), temperature scale/(kappa·log(1+j)), graph.

    Args:
        steps: How many steps to take.
        seconds: How many seconds of real time to take.
        kappa: Divides the temperature.
        scale: The constant C of the temperature.
        set_range: The range of the set terms, for the paper's C: alpha·(2 + rho·(m-1)) + gamma.
        omega: Added to C, so that the temperature is never 0.
        graph: ``"tailored"`` or ``"vanilla"``: which sets are neighbours.
        restarts: Whether to begin again from other sets.

    C is ``scale``, if you pass it.  With ``set_range`` it is the C of the paper: the spread of the ucb plus this range
    of the set terms.  Otherwise it is top-m minus bottom-m of each term.  Without ``steps`` and ``seconds`` it takes a
    hundred steps per client, between 100,000 and 2,000,000 (twenty, between 2,000 and 20,000, where each costs a call
    of a set function), and stops early when every threshold was tried.

    >>> Annealer().budget(count=30, set_function=False)
    100000
    """

    steps: int | None = None
    seconds: Seconds | None = None
    kappa: float = DEFAULT_KAPPA
    scale: float | None = None
    set_range: float | None = None
    omega: float = 1e-9
    graph: Graph = "tailored"
    restarts: bool = True

    def __post_init__(self) -> None:
        require(self.steps is None or self.steps >= 0, "steps", self.steps, "0 or more", "500 is enough for 30 clients")
        require(
            self.seconds is None or (is_finite(self.seconds) and self.seconds > 0),
            "seconds",
            self.seconds,
            "a finite number above 0",
            "pass steps instead if the result must be repeatable",
        )
        for name in ("kappa", "omega", "scale"):
            value = getattr(self, name)
            require(
                value is None or (is_finite(value) and value > 0),
                name,
                value,
                "finite and above 0",
                "leave it out for the default",
            )
        reach = self.set_range
        require(
            reach is None or (is_finite(reach) and reach >= 0),
            "set_range",
            reach,
            "finite, from 0",
            "leave it out for the default",
        )
        require(
            self.graph in ("tailored", "vanilla"),
            "graph",
            self.graph,
            "'tailored' or 'vanilla'",
            "'tailored' is the default",
        )

    def budget(self, count: int, set_function: bool) -> int | None:
        """Return the number of steps for this many clients, or None if only the clock decides."""
        if self.steps is not None or self.seconds is not None:
            return self.steps
        return min(max(2000, 20 * count), 20_000) if set_function else min(max(100_000, 100 * count), 2_000_000)


def anneal(
    ucb: FloatArray,
    score: FloatArray,
    m: int,
    *,
    clusters: IntArray | None = None,
    collision: float = 0.0,
    phi: SetFunction | None = None,
    steps: int | None = None,
    seconds: Seconds | None = None,
    kappa: float = DEFAULT_KAPPA,
    scale: float | None = None,
    set_range: float | None = None,
    graph: Graph = "tailored",
    restarts: bool = True,
    start: npt.ArrayLike | Literal["random"] | None = None,
    rng: np.random.Generator,
    clock: Callable[[], Seconds] = time.perf_counter,
) -> Solution:
    """Search for a set that maximises the objective, by simulated annealing.

    Args:
        ucb: How fast each client may be; infinite for clients never observed.
        score: What each client adds to a set.
        m: How many clients to choose.
        clusters: The cluster of each client.
        collision: What each collision within a cluster costs.
        phi: Your own function of the positions of a set.  Its value is added.
        steps: How many steps to take; None decides by the number of clients.
        seconds: How many seconds of real time to take.  The result is then not repeatable.
        kappa: Divides the temperature.
        scale: The constant C of the temperature; None computes it.
        set_range: How far apart two sets can be in all terms but speed, for the paper's C.
        graph: ``"tailored"`` or ``"vanilla"``: which sets are neighbours.
        restarts: Whether to begin again from other sets.
        start: m positions, ``"random"``, or None for the default starts.
        rng: The source of all randomness.
        clock: The clock for ``seconds``, for tests.

    Use it for rewards that the exact solver cannot take, and to reproduce SA-PAUSE.  See :class:`Annealer`.

    >>> rng = np.random.default_rng(0)
    >>> anneal(np.array([3.0, 2.0, 1.0]), np.array([0.0, 1.0, 5.0]), 2, rng=rng).members.tolist()
    [1, 2]
    """
    how = Annealer(steps, seconds, kappa, scale, set_range, graph=graph, restarts=restarts)
    objective = Objective(ucb, score, m, clusters, collision, phi)
    return objective.solution(search(objective, how, start, rng, tickets_from(rng), clock))


def search(
    objective: Objective,
    how: Annealer,
    start: npt.ArrayLike | Literal["random"] | None,
    rng: np.random.Generator,
    tickets: Tickets,
    clock: Callable[[], Seconds] = time.perf_counter,
) -> IntArray:
    """Return the best set that annealing finds, as positions."""
    given = None if start is None or isinstance(start, str) else _checked_start(start, objective)
    unobserved = np.flatnonzero(np.isposinf(objective.ucb))
    if len(unobserved) >= objective.m:
        pool, ucb = unobserved, np.zeros(len(unobserved))  # their minimum is infinite in any case
        given = given if given is not None and np.isin(given, unobserved).all() else None
    else:
        pool = np.arange(len(objective.ucb))
        finite = objective.ucb[np.isfinite(objective.ucb)]
        ucb = np.minimum(objective.ucb, finite.max())  # fewer than m of them: they never bind the minimum
    if len(pool) == objective.m:
        return pool
    # One order for everything below, independent of how the caller arranged the clients.
    order = np.lexsort((tickets(pool), objective.score[pool], ucb))
    ranked = _Ranked(objective, pool[order], ucb[order], how, rng)
    begin = None
    if given is not None:
        rank_of = np.empty(len(objective.ucb), dtype=np.int64)
        rank_of[ranked.rows] = np.arange(len(pool))
        begin = rank_of[given]
    elif isinstance(start, str) or not how.restarts:
        begin = rng.choice(len(pool), size=objective.m, replace=False)
    return ranked.rows[_walks(ranked, how, begin, rng, clock)]


class _Ranked:
    """The objective with its clients renamed by rank in rising ucb."""

    def __init__(
        self, objective: Objective, rows: IntArray, ucb: FloatArray, how: Annealer, rng: np.random.Generator
    ) -> None:
        self.objective, self.rows, self.ucb, self.m = objective, rows, ucb, objective.m
        self.score = objective.score[rows]
        self.collision = objective.penalty if objective.clustered else 0.0
        self.clusters = np.zeros(len(rows), dtype=np.int64) if objective.clusters is None else objective.clusters[rows]
        self.scale = temperature_scale(ucb, self.score, self.m, self.collision, how)
        if objective.phi is not None and how.scale is None and how.set_range is None:
            some = [objective.phi(rows[np.sort(rng.choice(len(rows), self.m, replace=False))]) for _ in range(16)]
            self.scale += max(some) - min(some)  # the range of an unknown function can only be sampled
        self.scale /= how.kappa

    def best_above(self, rank: int) -> IntArray:
        """Return the best set of clients with at least this rank, as far as scores and clusters go."""
        value = self.score[rank:]
        if self.collision > 0.0:
            value = marginals(self.clusters[rank:], value, self.collision)
        return best_from(rank, value, self.m)

    def walk(
        self, heap: IntArray, best: IntArray, energy: float, first: int, steps: int, how: Annealer, random: KeyArray
    ) -> tuple[float, int, bool]:
        common = (heap, best, energy, first, steps, self.scale, how.graph == "tailored", how.restarts, random)
        found: tuple[float, int, bool]
        if self.objective.phi is not None:
            found = walk_any(lambda ranks: self.objective.rest(self.rows[ranks]), self.ucb, *common)
        else:
            found = walk(self.ucb, self.score, self.clusters, self.collision, *common)
        return found


def _walks(
    ranked: _Ranked, how: Annealer, begin: IntArray | None, rng: np.random.Generator, clock: Callable[[], Seconds]
) -> IntArray:
    with_phi = ranked.objective.phi is not None
    budget = how.budget(len(ranked.rows), with_phi)
    deadline = math.inf if how.seconds is None else clock() + how.seconds
    random = rng.integers(1, 2**64, size=2, dtype=np.uint64)
    starts = _starts(ranked, begin, rng, forever=how.steps is not None or how.seconds is not None)
    best, energy, used = np.empty(0, dtype=np.int64), -math.inf, 0
    for heap in starts:
        if not len(best):
            best = np.sort(heap)
        share = _share(None if budget is None else budget - used, how.restarts)
        first = 0
        while share > 0:
            piece = min(share, _SET_PIECE if with_phi else _PIECE)
            energy, taken, stuck = ranked.walk(heap, best, energy, first + 1, piece, how, random)
            used, first, share = used + taken, first + taken, share - taken
            if clock() >= deadline:
                return best
            if stuck:
                break
        if budget is not None and used >= budget:
            return best
    return best


def _share(left: int | None, restarts: bool) -> int:
    """Return how many of the steps that are left one chain may use: half, so that no plateau eats them all."""
    if left is None:
        return _PIECE if restarts else 2**62
    return -(-left // 2) if restarts and left > 64 else left


def _starts(ranked: _Ranked, begin: IntArray | None, rng: np.random.Generator, forever: bool) -> Iterator[IntArray]:
    """Yield the given start, then the best set above each threshold on the ucb, ever finer, then random sets."""
    count, m = len(ranked.rows), ranked.m
    if begin is not None:
        yield np.array(begin, dtype=np.int64)
    places = count - m + 1
    tried = set()
    for number in range(1 << (places - 1).bit_length()):
        rank = int(_bit_reversed(number) * places)
        if rank not in tried:
            tried.add(rank)
            yield ranked.best_above(rank)
    while forever:
        yield rng.choice(count, size=m, replace=False)


def _bit_reversed(number: int) -> float:
    """Return 0, 1/2, 1/4, 3/4, 1/8, … (van der Corput's sequence)."""
    return int(f"{number:b}"[::-1], 2) / 2 ** number.bit_length() if number else 0.0


def temperature_scale(ucb: FloatArray, score: FloatArray, m: int, collision: float, how: Annealer) -> float:
    """Return C, a bound on how far two sets can lie apart in energy; ``ucb`` rises."""
    if how.scale is not None:
        return how.scale
    spread = float(ucb[len(ucb) - m] - ucb[0])
    if how.set_range is not None:
        return spread + how.set_range + how.omega  # PAUSE, eq. (setting C)
    count = len(score)
    ends = np.partition(score, [m - 1, count - m])
    return spread + float(ends[count - m :].sum() - ends[:m].sum()) + collision * (m - 1) + how.omega


def _checked_start(start: npt.ArrayLike, objective: Objective) -> IntArray:
    members = np.asarray(start)
    valid = (
        members.shape == (objective.m,)
        and np.issubdtype(members.dtype, np.integer)
        and len(np.unique(members)) == objective.m
        and members.min() >= 0
        and members.max() < len(objective.ucb)
    )
    require(
        valid,
        "start",
        members.tolist(),
        f"{objective.m} distinct indices below {len(objective.ucb)}",
        "pass such indices, or None",
    )
    return members.astype(np.int64)
