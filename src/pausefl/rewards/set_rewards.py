"""Rewards of a set as a whole: the cluster penalty, and how evenly the labels of its members are mixed.

Reference: PAUSE, eq. (GenLoss), reward R2; third remark on eq. (reward func).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pausefl.errors import UnknownClientError, is_finite, require, shown
from pausefl.types import ClientId, IntArray


def collisions(clusters: IntArray) -> int:
    """Return the sum over clusters of max(0, members - 1), given the cluster of each member.

    Args:
        clusters: The cluster of each member of a set.

    >>> collisions(np.array([3, 3, 3, 1, 0]))
    2
    """
    return len(clusters) - len(np.unique(clusters))


@dataclass(frozen=True, slots=True)
class LabelDiversity:
    """``weight`` times the entropy of the pooled label histogram, scaled to 0 … 1; use with ``sa-pause`` or ``brute``.

    Args:
        histograms: How often each label occurs, for each client.
        weight: What the largest diversity is worth.

    >>> mixed = LabelDiversity({"a": [9, 0], "b": [0, 9], "c": [5, 0]})
    >>> mixed(["a", "b"]), mixed(["a", "c"])
    (1.0, 0.0)
    """

    histograms: Mapping[ClientId, Sequence[float]]
    weight: float = 1.0

    def __post_init__(self) -> None:
        require(is_finite(self.weight), "weight", self.weight, "a finite number", "1 weighs as much as the speed term")
        widths = {len(h) for h in self.histograms.values()}
        require(
            len(widths) == 1 and min(widths) >= 2,
            "histogram lengths",
            sorted(widths),
            "one number, 2 or more",
            "count every label for every client",
        )

    def __call__(self, members: Sequence[ClientId]) -> float:
        """Return the weighted, scaled entropy of these clients' labels taken together."""
        missing = next((i for i in members if i not in self.histograms), None)
        if missing is not None:
            raise UnknownClientError(
                f"client id is {shown(missing)}, but must have a histogram; add it to LabelDiversity"
            )
        pooled = np.array([self.histograms[i] for i in members], dtype=np.float64).sum(axis=0)
        part = pooled[pooled > 0] / pooled.sum()
        return self.weight * float(-(part * np.log(part)).sum() / math.log(len(pooled))) + 0.0
