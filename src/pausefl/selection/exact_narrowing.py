"""Which thresholds can be the best, and which clients matter at them: passes over all clients, and no sort.

The value at a threshold is u + f(u), where f(u) is the best sum of m marginals among the clients with ucb >= u, and f
falls as u rises.  So no threshold in a range is worth more than the range's largest u plus f at its smallest.  Cuts
taken from a sample divide the thresholds into ranges.  The ranges whose bound is below a value that is reached are left
out.  This works also where score and speed are opposed, so that no client can be left out by itself.

The sample says only where to look: where the cuts lie, and which scores are too small to matter there.  Each of these
guesses is checked against what was found, and a cut whose guess was too high is not used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from pausefl.selection.exact_sweep import compiled, marginals, running_best, running_best_clustered
from pausefl.selection.objective import Objective
from pausefl.types import FloatArray, IntArray

_SAMPLE = 8192
_RANGES = 32
_BLOCK = 4096
_LARGEST_TABLE = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Some clients, and a sample of them in order of falling ucb."""

    ucb: FloatArray
    score: FloatArray
    clusters: IntArray | None
    fast: FloatArray
    good: FloatArray
    m: int
    penalty: float

    @classmethod
    def of(cls, objective: Objective, subset: IntArray | None, m: int) -> Self:
        """Return the clients of the subset, or all of them."""
        ucb, score, clusters = objective.ucb, objective.score, objective.clusters if objective.clustered else None
        if subset is not None:
            ucb, score, clusters = ucb[subset], score[subset], None if clusters is None else clusters[subset]
        step = max(1, len(ucb) // _SAMPLE)
        falling = np.argsort(-ucb[::step])
        return cls(ucb, score, clusters, ucb[::step][falling], score[::step][falling], m, objective.penalty)

    def gather(self, cut: FloatArray, bar: FloatArray, clusters: IntArray | None = None) -> tuple[IntArray, IntArray]:
        """Return the positions with a score above the bar of their range, range after range, and where each ends.

        Range j has the ucb from cut j up to the cut before.  The bars must rise, but for the first.
        """
        # Most clients are slower than a middle cut and below the bar behind it, and are passed over by one look.
        good, fast = self.good[::8], self.fast[::8]
        passed = ((good <= bar[1:, None]) & (fast < cut[:-1, None])).sum(axis=1)
        middle = int(passed.argmax()) if len(passed) else 0
        limit, least = (cut[middle], bar[middle + 1]) if len(passed) else (-math.inf, -math.inf)
        labels = np.empty(0, dtype=np.int64) if clusters is None else clusters
        return _gather(self.ucb, self.score, cut, bar, limit, least, labels, self.penalty)

    def running(self, order: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the sum of the m best marginals along this order, and the smallest of them."""
        if self.clusters is None:
            return running_best(self.score[order], self.m)
        return running_best_clustered(self.score[order], self.clusters[order], self.m, self.penalty)

    def best(self, among: IntArray) -> IntArray:
        """Return those with the m largest marginals; any of those that tie."""
        worth = self.score[among]
        if self.clusters is not None:
            worth = marginals(self.clusters[among], worth, self.penalty)
        return among[np.argpartition(worth, len(among) - self.m)[len(among) - self.m :]]


@dataclass(frozen=True, slots=True, eq=False)
class _Cuts:
    """Thresholds from high to low, the last of them below everybody, with the m best marginals at each."""

    ucb: FloatArray
    total: FloatArray
    smallest: FloatArray  # the m-th best marginal
    gathered: IntArray  # the clients with a score that may matter, range after range
    ends: IntArray  # where those above each cut end

    def open_ranges(self, fastest: float, reached: float | None) -> tuple[int, int]:
        """Return the first and the last range with a bound not below what is reached; range j lies above cut j."""
        upper, total = np.minimum(fastest, np.concatenate([[fastest], self.ucb[:-1]])), self.total
        if reached is None:
            reached = float((self.ucb + total)[:-1].max(initial=-math.inf))
        else:  # by a set with one member less
            total = total - self.smallest
        # Sums are right to the last bit or two; this is far more.
        rounding = 1e-12 * float(np.abs(upper).max() + np.abs(self.total).max())
        still = np.flatnonzero(upper + total >= reached - rounding)
        return int(still[0]), int(still[-1])


def contenders(
    objective: Objective, subset: IntArray | None = None, *, second: float | None = None
) -> IntArray | None:  # fmt: skip
    """Return clients of the subset (None: of all) among which the best threshold is the same; None if all may matter.

    They are few where the bounds are far apart.  Of clients that tie, only some may be returned.
    With ``second``, a value that is reached without one of the best, they are those that have the m + 1 largest
    marginals at any threshold that may reach as much.
    """
    part = _Part.of(objective, subset, objective.m if second is None else objective.m + 1)
    if 8 * part.m > len(part.ucb):
        return None
    cuts = _best_at_cuts(part)
    fastest = float(part.ucb.max())
    if math.isinf(fastest):  # of fewer than m: a threshold is at most the m-th largest ucb
        front = part.ucb[part.ucb >= cuts.ucb[0]]
        fastest = float(np.partition(front, len(front) - part.m)[len(front) - part.m])
    first, last = cuts.open_ranges(fastest, second)
    # Of those above the open ranges only the best m count; of those inside, only who is better than m faster ones.
    start = max(first - 1, 0)
    bar = np.concatenate([[math.inf if first else -math.inf], cuts.smallest[start:last], [math.inf]])
    inside, _ = part.gather(np.append(cuts.ucb[start : last + 1], -math.inf), bar)
    found = np.concatenate([part.best(cuts.gathered[: cuts.ends[first - 1]]), inside]) if first else inside
    return found if subset is None else subset[found]


def _best_at_cuts(part: _Part) -> _Cuts:
    """Return cuts at which the best m marginals are known, among them always the one below everybody."""
    size, rate = len(part.fast), len(part.fast) / len(part.ucb)
    ranks = _ranks(math.ceil(2 * part.m * rate) + 8, size)
    cut = part.fast[ranks - 1]
    different = np.append(cut[1:] < cut[:-1], True) & (cut > part.fast[-1])
    ranks, cut = np.append(ranks[different], size), np.append(cut[different], -math.inf)
    wanted = float(part.m)
    if part.clusters is not None:
        wanted = _to_fill(part.m, part.clusters[:: max(1, len(part.ucb) // _SAMPLE)])
    while True:  # at the latest until everybody is gathered
        bar = _guesses(part.good, ranks, wanted * rate)
        if part.clusters is not None:  # of m clients above a bar, the worst is at most a penalty below it
            bar = np.maximum(bar, _guesses(part.good, ranks, part.m * rate) - part.penalty)
        gathered, ends = part.gather(cut, bar, part.clusters)
        if len(gathered) >= part.m:
            total, smallest = part.running(gathered)
            at = np.maximum(ends - 1, 0)
            known = smallest[at] >= bar
            known &= ends >= part.m
            if known[-1]:
                at = at[known]
                return _Cuts(cut[known], total[at], smallest[at], gathered, ends[known])
        rate *= 4.0


def _ranks(first: int, size: int) -> IntArray:
    """Return where in the sample to cut: at first at twice the number, then in equal steps."""
    step = size // _RANGES
    doubling = first * 2 ** np.arange(max(0, math.ceil(math.log2(max(step / first, 1.0)))))
    equal = np.arange(step, size + 1, step)
    ranks: IntArray = np.concatenate([doubling, equal[equal > max(first, doubling.max(initial=0))]])
    return ranks[ranks < size]


def _guesses(good: FloatArray, ranks: IntArray, expected: float) -> FloatArray:
    """Return a score at each cut that is likely to have more than the expected number of the sample above it."""
    place = math.ceil(expected + 4.0 * math.sqrt(expected)) + 6 if expected < len(good) else len(good) + 1
    guesses: FloatArray = running_best(good, place)[1][ranks - 1]
    return guesses


def _to_fill(m: int, sample: IntArray) -> float:
    """Return how many clients drawn at random have about m different clusters; infinite if there are not so many."""
    counts = np.bincount(sample)
    pairs = float((counts * (counts - 1)).sum())
    clusters = len(sample) * (len(sample) - 1.0) / pairs if pairs else math.inf
    if m >= 0.95 * clusters:
        return math.inf
    return m if math.isinf(clusters) else -clusters * math.log1p(-m / clusters)


def between(ucb: FloatArray, score: FloatArray, low: float, bar: float) -> IntArray:
    """Return the positions with ucb >= low and score >= bar."""
    found = score >= bar
    found &= ucb >= low
    return np.flatnonzero(found)


@compiled
def _gather(
    ucb: FloatArray, score: FloatArray, cut: FloatArray, bar: FloatArray, limit: float, least: float,
    clusters: IntArray, penalty: float,
) -> tuple[IntArray, IntArray]:  # fmt: skip
    """As :meth:`_Part.gather`; below the limit no score up to ``least`` matters.

    With clusters, those that are above the bar only as the best of their cluster are left out if they are not.
    """
    steps = np.full(64, -np.inf)
    steps[: len(cut)] = cut
    found, range_of = np.empty(2 * _BLOCK, np.int64), np.empty(2 * _BLOCK, np.uint8)
    ends = np.zeros(len(cut), np.int64)
    tabled = len(clusters) > 0 and (clusters.max() + 1) * len(cut) <= _LARGEST_TABLE
    record = np.full((len(cut), clusters.max() + 1 if tabled else 0), -np.inf)
    count, lowest = 0, bar.min()
    look = np.empty(_BLOCK, np.bool_)
    for start in range(0, len(ucb), _BLOCK):
        u, s = ucb[start : start + _BLOCK], score[start : start + _BLOCK]
        if count + _BLOCK > len(found):
            found, range_of = np.append(found, np.empty_like(found)), np.append(range_of, np.empty_like(range_of))
        # Block by block, so that whom to look at is worked out for several at once, without a branch to be guessed.
        for k in range(len(u)):
            look[k] = (s[k] > lowest) & ((s[k] > least) | (u[k] >= limit))
        for k in range(len(u)):
            if not look[k]:
                continue
            j = 0
            for step in (32, 16, 8, 4, 2, 1):  # no branch here either
                j += step * (steps[j + step - 1] > u[k])
            if s[k] <= bar[j]:
                continue
            if tabled and s[k] - penalty <= bar[j]:
                if s[k] <= record[j, clusters[start + k]]:
                    continue
                record[j, clusters[start + k]] = s[k]
            found[count], range_of[count] = start + k, j
            ends[j] += 1
            count += 1
    ends = np.cumsum(ends)
    place = ends.copy()
    ordered = np.empty(count, np.int64)
    for k in range(count - 1, -1, -1):
        place[range_of[k]] -= 1
        ordered[place[range_of[k]]] = found[k]
    return ordered, ends
