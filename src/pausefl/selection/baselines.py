"""The paper's simple baselines: random, all, and the fastest in (known) expectation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pausefl.errors import UnknownClientError, is_finite, require
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.types import ClientId, FloatArray, IntArray, Seconds


class Random(Policy):
    """m clients uniformly at random, without replacement.

    Use it as a baseline.  It needs to know nothing, and its chances are known.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=Random())
    >>> sel.select().members
    ('b', 'c')
    """

    __slots__ = ()
    name: ClassVar[str] = "random"

    def pick(self, candidates: Candidates) -> IntArray:
        """Return the holders of the m smallest lottery tickets."""
        drawn = candidates.tickets(np.arange(len(candidates)))
        return np.argpartition(drawn, candidates.m - 1)[: candidates.m]

    def inclusion(self, candidates: Candidates) -> FloatArray:
        """Return m/K for each of K candidates."""
        return np.full(len(candidates), candidates.m / len(candidates))


class All(Policy):
    """Everybody who is available, every round (FedAvg).

    Use it with few clients and enough time.  It ignores ``per_round``.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=All())
    >>> sel.select().members
    ('a', 'b', 'c', 'd')
    """

    __slots__ = ()
    name: ClassVar[str] = "all"
    size: ClassVar[str] = "all"

    def pick(self, candidates: Candidates) -> IntArray:
        """Return all candidates."""
        return np.arange(len(candidates))


@dataclass(frozen=True, slots=True, eq=False)
class Fastest(Policy):
    """The m clients with the smallest known expected latency: an oracle that a real server does not have.

    Args:
        expected: The expected seconds of each client, by id; a sequence stands for the ids 0, 1, 2, ….

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80}, per_round=2, policy=Fastest({"a": 0.1, "b": 0.2, "c": 0.3}))
    >>> sel.select().members
    ('a', 'b')
    """

    name: ClassVar[str] = "fastest"
    expected: Mapping[ClientId, Seconds] | Sequence[Seconds] | FloatArray

    def __post_init__(self) -> None:
        values = self.expected.values() if isinstance(self.expected, Mapping) else self.expected
        worst = next((v for v in values if not (is_finite(v) and v > 0.0)), None)
        require(
            worst is None,
            "expected latency",
            worst,
            "a finite number of seconds above 0",
            "pass the seconds that you expect",
        )

    def pick(self, candidates: Candidates) -> IntArray:
        """Return the m fastest; ties by ticket."""
        seconds = np.fromiter((self._expected(i) for i in candidates.ids), dtype=np.float64, count=len(candidates))
        order = np.lexsort((candidates.tickets(np.arange(len(candidates))), seconds))
        return order[: candidates.m]

    def _expected(self, client: ClientId) -> Seconds:
        try:
            return self.expected[client]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            raise UnknownClientError(
                f"client id is {client!r}, but must have an expected latency; add it to Fastest(expected=…)"
            ) from None
