"""Clustered sampling: m distributions that partition the data, one draw from each, so that every client is represented.

Reference: Fraboni, Vidal, Kameni and Lorenzi, "Clustered Sampling" (ICML 2021), Alg. 1 (sample sizes) and Alg. 2
(similarity of updates).  Client i has the mass m·n_i/n; the masses fill m bins of size 1; each bin is a distribution.
So the expected number of draws of a client is its mass, whatever the binning.

A client may be drawn twice.  It then trains and is charged once, and ``Selection.weights`` keeps the draw's weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.cluster.hierarchy import linkage

from pausefl.errors import require
from pausefl.rng import stream
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.types import FloatArray, IntArray

SKETCH = 512
"""Updates longer than this are remembered as a count sketch of this width, which keeps inner products on average."""

_MOST_FOR_TREE = 10_000


class ClusteredBySize(Policy):
    """Fraboni et al., Alg. 1: bins are filled in order of falling data size.

    Use it for an unbiased average with less variance than :class:`Random` gives.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=ClusteredBySize())
    >>> sel.select().members
    ('b', 'd')
    """

    __slots__ = ()
    name: ClassVar[str] = "clustered"
    size: ClassVar[str] = "at most m"
    needs = frozenset({"sizes"})

    def pick(self, candidates: Candidates) -> tuple[IntArray, FloatArray]:
        """Draw one client from each bin."""
        order, mass = _canonical(candidates)
        # Bins filled one after the other are the unit intervals of one line of masses.
        points = np.arange(candidates.m) + candidates.stream("clustered").random(candidates.m)
        return _weighted(order[_on_line(mass, points)])

    def inclusion(self, candidates: Candidates) -> FloatArray:
        """Return 1 - Π (1 - mass in the bin) over the bins; the order of equally large clients is given by tickets."""
        order, mass = _canonical(candidates)
        ends = np.minimum(np.cumsum(mass), candidates.m)
        starts = np.concatenate([[0.0], ends[:-1]])
        border = np.minimum(ends, np.floor(starts) + 1.0)  # where the bin ends in which the client's mass begins
        chances = np.empty(len(order))
        # Mass of 1 and more beyond the border fills a whole bin, and the client is sure to be drawn.
        chances[order] = 1.0 - (1.0 - (border - starts)) * np.maximum(1.0 - (ends - border), 0.0)
        return chances


@dataclass(slots=True, eq=False)
class ClusteredBySimilarity(Policy):
    """Fraboni et al., Alg. 2: clients whose last updates are alike share a bin, so that they rarely train together.

    Args:
        metric: How alike two updates are: ``"angle"``, ``"l2"`` or ``"l1"``.

    It learns from ``Selector.observe(…, updates={id: vector})``; clients that never sent an update count as zero
    updates.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=ClusteredBySimilarity())
    >>> sel.select().members
    ('b', 'd')
    """

    name: ClassVar[str] = "clustered-similarity"
    size: ClassVar[str] = "at most m"
    needs = frozenset({"sizes"})
    metric: Literal["angle", "l2", "l1"] = "angle"
    sketches: dict[int, FloatArray] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        require(
            self.metric in ("angle", "l2", "l1"),
            "metric",
            self.metric,
            "'angle', 'l2' or 'l1'",
            "'angle' is the default",
        )

    def pick(self, candidates: Candidates) -> tuple[IntArray, FloatArray]:
        """Draw one client from each bin."""
        order, mass = _canonical(candidates)
        require(len(order) <= _MOST_FOR_TREE, "clients", len(order), f"at most {_MOST_FOR_TREE}", "use 'clustered'")
        luck = candidates.stream("clustered").random(candidates.m)
        # A client with mass above 1 fills whole bins by itself; the tree shares out what is left over.
        whole = np.floor(mass + 1e-12).astype(np.int64)
        alone = np.repeat(np.arange(len(order)), whole)[: candidates.m]
        bins = candidates.m - len(alone)
        drawn = alone
        if bins:
            groups = self._groups(candidates.rows[order], np.maximum(mass - whole, 0.0))
            drawn = np.concatenate([alone, _draw_from_groups(groups, np.maximum(mass - whole, 0.0), luck[:bins])])
        return _weighted(order[drawn])

    def learn(self, rows: IntArray, updates: FloatArray) -> None:
        """Remember each client's last update."""
        for row, update in zip(rows.tolist(), updates, strict=True):
            self.sketches[row] = _sketch(np.asarray(update, dtype=np.float64).ravel())

    def state(self) -> Mapping[str, Any]:
        """Return the remembered updates."""
        if not self.sketches:
            return {}
        return {"rows": np.array(list(self.sketches)), "sketches": np.stack(list(self.sketches.values()))}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over the remembered updates."""
        self.sketches = dict(zip(state["rows"].tolist(), state["sketches"], strict=True)) if state else {}

    def _groups(self, rows: IntArray, mass: FloatArray) -> list[IntArray]:
        """Cut the similarity tree into the largest subtrees of mass at most 1, heaviest first."""
        if len(rows) == 1:
            return [np.zeros(1, dtype=np.int64)]
        tree = linkage(_distances(self._known_updates(rows), self.metric), method="ward")
        members = [[k] for k in range(len(rows))]
        weight = mass.tolist()
        open_ = [True] * len(rows)
        for left, right in tree[:, :2].astype(np.int64).tolist():
            joined = open_[left] and open_[right] and weight[left] + weight[right] <= 1.0 + 1e-9
            members.append(members[left] + members[right] if joined else [])
            weight.append(weight[left] + weight[right])
            open_.append(joined)
            if joined:
                members[left], members[right] = [], []
        groups = [np.array(sorted(group)) for group in members if group]
        return sorted(groups, key=lambda group: -float(mass[group].sum()))

    def _known_updates(self, rows: IntArray) -> FloatArray:
        width = max((len(s) for s in self.sketches.values()), default=1)
        updates = np.zeros((len(rows), width))
        for i, row in enumerate(rows.tolist()):
            if row in self.sketches:
                updates[i] = self.sketches[row]
        return updates


def _canonical(candidates: Candidates) -> tuple[IntArray, FloatArray]:
    """Return the candidates by falling size (ties by ticket) and their masses, which sum to m."""
    order = np.lexsort((candidates.tickets(np.arange(len(candidates))), -candidates.sizes))
    sizes = candidates.sizes[order]
    return order, candidates.m * sizes / sizes.sum()


def _on_line(mass: FloatArray, points: FloatArray) -> IntArray:
    found = np.searchsorted(np.cumsum(mass), points, side="right")
    return np.minimum(found, len(mass) - 1)  # rounding may leave the line a hair short


def _draw_from_groups(groups: list[IntArray], mass: FloatArray, luck: FloatArray) -> IntArray:
    """The heaviest groups open a bin each; the clients of the others fill the bins up, one bin after the other."""
    kept, spare = groups[: len(luck)], np.concatenate([*groups[len(luck) :], np.empty(0, dtype=np.int64)])
    filled = 0.0
    drawn = []
    for group, point in zip(kept, luck.tolist(), strict=False):
        own = float(mass[group].sum())
        if point < own or not len(spare):
            drawn.append(int(group[_on_line(mass[group], np.array([min(point, own)]))[0]]))
        else:
            drawn.append(int(spare[_on_line(mass[spare], np.array([filled + point - own]))[0]]))
        filled += max(0.0, 1.0 - own)
    return np.array(drawn, dtype=np.int64)


def _weighted(draws: IntArray) -> tuple[IntArray, FloatArray]:
    members, times = np.unique(draws, return_counts=True)
    return members, times / times.sum()


def _distances(updates: FloatArray, metric: str) -> FloatArray:
    from scipy.spatial.distance import pdist

    if metric != "angle":
        plain: FloatArray = pdist(updates, "euclidean" if metric == "l2" else "cityblock")
        return plain
    known = np.linalg.norm(updates, axis=1) > 0.0
    unit = updates / np.where(known, np.linalg.norm(updates, axis=1), 1.0)[:, None]
    # Between unit vectors |a - b| = 2 sin(angle / 2).
    angles: FloatArray = 2.0 / np.pi * np.arcsin(np.clip(0.5 * pdist(unit, "euclidean"), 0.0, 1.0))
    one_unknown = pdist(known[:, None].astype(np.float64), "cityblock") > 0.0
    angles[one_unknown] = 0.5  # an unknown update counts as orthogonal to every known one
    return angles


def _sketch(update: FloatArray) -> FloatArray:
    if len(update) <= SKETCH:
        return np.pad(update, (0, SKETCH - len(update)))
    hashing = stream(0, "count sketch", len(update))
    bucket = hashing.integers(0, SKETCH, size=len(update))
    sign = hashing.integers(0, 2, size=len(update)) * 2.0 - 1.0
    sketch: FloatArray = np.bincount(bucket, weights=sign * update, minlength=SKETCH).astype(np.float64)
    return sketch
