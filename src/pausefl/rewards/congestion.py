"""The cluster penalty: how many picked clients share a cluster with another picked client.

Reference: PAUSE, eq. (GenLoss), reward R2.
"""

from __future__ import annotations

import numpy as np

from pausefl.types import IntArray


def collisions(clusters: IntArray) -> int:
    """Return the sum over clusters of max(0, members - 1), given the cluster of each member.

    >>> collisions(np.array([3, 3, 3, 1, 0]))
    2
    """
    return len(clusters) - len(np.unique(clusters))
