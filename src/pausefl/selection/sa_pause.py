"""SA-PAUSE as policies: with our temperature and restarts, and as it was published.

Reference: PAUSE, Alg. 3 and eq. (setting C); its large-network study for kappa = 30.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pausefl.errors import require
from pausefl.selection.annealing import DEFAULT_KAPPA, Annealer, Graph, search
from pausefl.selection.policy_contract import Candidates, Policy
from pausefl.types import IntArray

PUBLISHED_KAPPA = 30.0
"""By what the paper divides its temperature with 300 clients."""


@dataclass(frozen=True, slots=True)
class SaPause(Policy):
    """SA-PAUSE: the reward of PAUSE, maximised by annealing; it takes any function of a set.

    Args:
        how: How to anneal.
        start: ``"random"``, or None for the default starts.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=SaPause())
    >>> sel.select().members
    ('b', 'd')
    """

    name: ClassVar[str] = "sa-pause"
    needs = frozenset({"latency", "sizes"})
    how: Annealer = field(default_factory=Annealer)
    start: Literal["random"] | None = None

    @classmethod
    def of(
        cls,
        steps: int | None = None,
        kappa: float = DEFAULT_KAPPA,
        graph: Graph = "tailored",
        restarts: bool = True,
        start: Literal["random"] | None = None,
    ) -> SaPause:
        """Return it by the values that a configuration can hold; see :class:`Annealer`."""
        require(start in (None, "random"), "start", start, "'random'", "leave it out for the default starts")
        require(isinstance(restarts, bool), "restarts", restarts, "true or false", "true is the default")
        return cls(Annealer(steps=steps, kappa=kappa, graph=graph, restarts=restarts), start)

    def pick(self, candidates: Candidates) -> IntArray:
        """Return the best set found."""
        rng = candidates.stream("annealing")
        return search(candidates.objective, self.how, self.start, rng, candidates.tickets)


@dataclass(frozen=True, slots=True)
class SaPauseAsPublished(Policy):
    """SA-PAUSE as published: one chain from a random set, at the paper's temperature C / (``kappa``·log(1+j)).

    Args:
        steps: How many steps to take; None takes as many as ``sa-pause``.
        kappa: Divides the temperature.

    C is the spread of the ucb plus the range that the weights give the other terms (``Candidates.set_range``).  Use it
    to reproduce the paper; ``sa-pause`` finds better sets.

    >>> from pausefl import Selector
    >>> sel = Selector({"a": 120, "b": 300, "c": 80, "d": 200}, per_round=2, policy=SaPauseAsPublished())
    >>> sel.select().members
    ('b', 'd')
    """

    name: ClassVar[str] = "sa-pause-as-published"
    needs = frozenset({"latency", "sizes"})
    steps: int | None = None
    kappa: float = PUBLISHED_KAPPA

    def __post_init__(self) -> None:
        Annealer(steps=self.steps, kappa=self.kappa)  # refuses what is out of bounds

    def pick(self, candidates: Candidates) -> IntArray:
        """Return the best set that the chain has seen."""
        how = Annealer(steps=self.steps, kappa=self.kappa, set_range=candidates.set_range, restarts=False)
        return search(candidates.objective, how, "random", candidates.stream("annealing"), candidates.tickets)
