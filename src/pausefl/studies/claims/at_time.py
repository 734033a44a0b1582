"""Runs at one moment: the same second or the same round, over windows of the same length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from pausefl.runs.data import SMOOTH, RunData
from pausefl.studies.evidence import Pair
from pausefl.types import FloatArray

Axis: TypeAlias = Literal["round", "seconds"]


def common_end(pairs: Sequence[Pair], axis: Axis) -> float:
    """Return where the shortest of all these runs ends: every pair is judged at the same place."""
    return float(min(run.column(axis)[-1] for pair in pairs for run in pair))


def window(pairs: Sequence[Pair]) -> float:
    """Return the seconds that ten rounds of the first policy take: accuracy is averaged over so long in both.

    Ten rounds of each would look further back in the policy with the longer rounds, while both still learn.
    """
    return SMOOTH * float(np.mean([run.column("seconds")[-1] / len(run.records) for run, _ in pairs]))


def accuracy_at(run: RunData, at: FloatArray, width: float) -> FloatArray:
    """Return the mean score of the last ``width`` seconds, or the newest if it is older; NaN before the first."""
    scores = run.column("accuracy")
    scored = ~np.isnan(scores)
    clock, sums = run.column("seconds")[scored], np.concatenate([[0.0], np.cumsum(scores[scored])])
    end = np.searchsorted(clock, at, side="right")
    start = np.minimum(np.searchsorted(clock, at - width, side="right"), np.maximum(end - 1, 0))
    return np.where(end == 0, np.nan, (sums[end] - sums[start]) / np.maximum(end - start, 1))


def leakage_at(run: RunData, axis: Axis, at: FloatArray) -> FloatArray:
    """Return the largest spent epsilon at these places; 0 before the first round has ended."""
    place = np.searchsorted(run.column(axis), at, side="right") - 1
    return np.where(place < 0, 0.0, run.column("max_leakage")[np.maximum(place, 0)])


def still_exploring(pairs: Sequence[Pair], axis: Axis, end: float) -> bool:
    """Whether the first policy has, in some seed, only tried every client once by this moment."""
    return any(
        np.searchsorted(run.column(axis), end, side="right")
        <= math.ceil(run.clients / run.settings.selection.per_round)
        for run, _ in pairs
    )
