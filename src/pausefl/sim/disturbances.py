"""What goes wrong on a network for a while or for good: clients become slow, links are jammed, clients join late.

Every one of them is a function of (seed, round).  Nothing is remembered from round to round, so a run that was resumed
sees what an uninterrupted one sees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pausefl.errors import is_finite, require
from pausefl.rng import stream
from pausefl.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Drift:
    """From round ``start`` on, ``share`` of the clients take ``factor`` times as long, and stay so.

    >>> Drift(start=5, share=0.25, factor=20.0).slowdown(4, seed=0, number=4).tolist()
    [1.0, 1.0, 1.0, 1.0]
    >>> sorted(Drift(start=5, share=0.25, factor=20.0).slowdown(4, seed=0, number=5).tolist())
    [1.0, 1.0, 1.0, 20.0]
    """

    start: int
    share: float
    factor: float

    def __post_init__(self) -> None:
        require(self.start >= 1, "start", self.start, "1 or more", "rounds are counted from 1")
        _require_share("share", self.share)
        _require_factor(self.factor)

    def slowdown(self, clients: int, seed: int, number: int) -> FloatArray:
        """Return how many times as long each client takes in round ``number``."""
        if number < self.start:
            return np.ones(clients)
        return np.where(_drawn(self.share, clients, stream(seed, "drift")), self.factor, 1.0)


@dataclass(frozen=True, slots=True)
class Jams:
    """In each round a jam begins on a cluster's link with ``probability``; it lasts ``rounds`` rounds.

    Clients on a jammed link take ``factor`` times as long.  Two jams at once are no slower than one.  A jam may have
    begun before the first round, so a link is jammed with probability 1 - (1 - probability)^rounds in every round.

    >>> Jams(probability=1.0, factor=3.0, rounds=2).slowdown(np.array([0, 0, 1]), seed=0, number=1).tolist()
    [3.0, 3.0, 3.0]
    """

    probability: float
    factor: float
    rounds: int

    def __post_init__(self) -> None:
        fine = is_finite(self.probability) and 0.0 <= self.probability <= 1.0
        require(fine, "probability", self.probability, "from 0 to 1", "it is the chance per round that a jam begins")
        _require_factor(self.factor)
        require(self.rounds >= 1, "rounds", self.rounds, "1 or more", "it is how long a jam lasts")

    def slowdown(self, clusters: IntArray, seed: int, number: int) -> FloatArray:
        """Return how many times as long each client takes in round ``number``."""
        links = 1 + int(clusters.max(initial=0))
        jammed = np.zeros(links, dtype=np.bool_)
        for start in range(number - self.rounds + 1, number + 1):
            jammed |= stream(seed, "jams", start).random(links) < self.probability
        return np.where(jammed[clusters], self.factor, 1.0)


@dataclass(frozen=True, slots=True)
class LateJoiners:
    """A share of the clients joins late: by 1 to ``most`` rounds, each number as likely as any other.

    >>> sorted(LateJoiners(share=0.5, most=3).delays(4, seed=0).tolist())[:2]
    [0, 0]
    """

    share: float
    most: int

    def __post_init__(self) -> None:
        _require_share("share", self.share)
        require(self.most >= 1, "most", self.most, "1 or more", "it is how many rounds late a client may be")

    def delays(self, clients: int, seed: int) -> IntArray:
        """Return how many rounds late each client joins; 0 for those that are there from the beginning."""
        rng = stream(seed, "late joiners")
        late = _drawn(self.share, clients, rng)
        return np.where(late, rng.integers(1, self.most + 1, clients), 0)

    def joined(self, clients: int, seed: int, number: int) -> BoolArray:
        """Return who has joined by round ``number``."""
        return self.delays(clients, seed) < number


def _drawn(share: float, clients: int, rng: np.random.Generator) -> BoolArray:
    """Draw this share of the clients, to the nearest whole number, but one of them at least."""
    count = max(1, round(share * clients))
    drawn = np.zeros(clients, dtype=np.bool_)
    drawn[rng.permutation(clients)[:count]] = True
    return drawn


def _require_share(name: str, value: float) -> None:
    require(
        is_finite(value) and 0.0 < value <= 1.0, name, value, "above 0 and at most 1", "it is a share of the clients"
    )


def _require_factor(value: float) -> None:
    require(is_finite(value) and value > 1.0, "factor", value, "above 1", "it is how many times slower clients become")
