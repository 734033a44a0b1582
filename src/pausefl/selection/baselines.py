"""The paper's simple baselines: random, all, and the fastest in (known) expectation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pausefl.errors import UnknownClientError, require
from pausefl.selection.base import Candidates, Policy, Solution
from pausefl.types import ClientId, FloatArray, Seconds


class Random(Policy):
    """m clients uniformly at random, without replacement."""

    __slots__ = ()
    name: ClassVar[str] = "random"

    def pick(self, candidates: Candidates) -> Solution:
        """Return the holders of the m smallest lottery tickets."""
        m = candidates.objective.m
        drawn = candidates.tickets(np.arange(len(candidates)))
        return candidates.objective.solution(np.argpartition(drawn, m - 1)[:m])


class All(Policy):
    """Everybody who is available, every round (FedAvg)."""

    __slots__ = ()
    name: ClassVar[str] = "all"
    size: ClassVar[str] = "all"

    def pick(self, candidates: Candidates) -> Solution:
        """Return all candidates."""
        return candidates.objective.solution(np.arange(len(candidates)))


@dataclass(frozen=True, slots=True, eq=False)
class Fastest(Policy):
    """The m clients with the smallest known expected latency: an oracle that a real server does not have.

    ``expected`` maps client ids to seconds; a sequence stands for the ids 0, 1, 2, ….
    """

    name: ClassVar[str] = "fastest"
    expected: Mapping[ClientId, Seconds] | Sequence[Seconds] | FloatArray

    def __post_init__(self) -> None:
        values = self.expected.values() if isinstance(self.expected, Mapping) else self.expected
        worst = next((v for v in values if not (math.isfinite(v) and v > 0.0)), None)
        require(worst is None, "expected latency", worst, "a finite number of seconds above 0", "leave the client out")

    def pick(self, candidates: Candidates) -> Solution:
        """Return the m fastest; ties by ticket."""
        m = candidates.objective.m
        seconds = np.fromiter((self._expected(i) for i in candidates.ids), dtype=np.float64, count=len(candidates))
        order = np.lexsort((candidates.tickets(np.arange(len(candidates))), seconds))
        return candidates.objective.solution(order[:m])

    def _expected(self, client: ClientId) -> Seconds:
        try:
            return self.expected[client]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            raise UnknownClientError(
                f"client id is {client!r}, but must have an expected latency; add it to Fastest(expected=…)"
            ) from None
