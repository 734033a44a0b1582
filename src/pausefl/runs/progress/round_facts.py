"""One round as every run has it, simulated or in Flower: who was asked, who answered when, what is left of budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pausefl.types import Seconds

NO_ANSWER, LATE = "no answer", "late"
"""What is wrong with a client that said nothing, and with one that was not waited for; anything else is a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    """What is known of a run beside its rounds.

    ``names`` are those of all ``clients``, or empty if they are too many.  ``planned`` is None if nobody knows how many
    rounds there will be.  ``left`` is the share of its budget that each client has by the newest state of the run, as
    far as that says more than the rounds do; ``exhausted`` are clients that said that nothing is left.
    """

    kind: Literal["simulator", "Flower"]
    title: str
    clients: int
    names: tuple[str, ...] = ()
    planned: int | None = None
    bounded: bool = True
    finished: bool = False
    left: Mapping[str, float] = field(default_factory=dict)
    exhausted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFacts:
    """What happened in one round.

    ``seconds`` holds those that answered, ``faults`` what was wrong with the others.  ``took``: after how many seconds
    the round closed, on a virtual clock in the simulator.  ``accuracy`` is in percent.  ``left``: which share of its
    budget a member has after the round, by the server's estimate.
    """

    number: int
    members: tuple[str, ...]
    seconds: Mapping[str, Seconds]
    faults: Mapping[str, str]
    took: Seconds | None = None
    accuracy: float | None = None
    left: Mapping[str, float] = field(default_factory=dict)
