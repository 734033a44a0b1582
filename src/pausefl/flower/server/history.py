"""What happened in a round, and why: for people, for Flower's metrics, and for a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flwr.app import MetricRecord

from pausefl.types import ClientId, Seconds


@dataclass(frozen=True, slots=True)
class Played:
    """One round: who was asked, what each term of the reward said for them, how long each took, who refused and why.

    ``seconds`` holds those that answered; a speed of None is unbounded: somebody in the round was never tried before.
    """

    round: int
    members: tuple[ClientId, ...]
    terms: Mapping[str, float | None]
    seconds: Mapping[str, Seconds]
    refused: Mapping[str, str]
    spent: Mapping[str, float]

    @staticmethod
    def of(values: Mapping[str, Any]) -> Played:
        """Read it back from a checkpoint."""
        return Played(**{**values, "members": tuple(values["members"])})

    def plain(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        values = {name: dict(getattr(self, name)) for name in ("terms", "seconds", "refused", "spent")}
        return {"round": self.round, "members": list(self.members), **values}

    def line(self) -> str:
        """Say it in one line."""
        terms = ", ".join(f"{name} {'unbounded' if v is None else format(v, '.3g')}" for name, v in self.terms.items())
        took = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in self.seconds.items())
        refused = "".join(f"; {name} {why}" for name, why in self.refused.items())
        picked = ", ".join(str(member) for member in self.members)
        return f"round {self.round}: picked {picked} ({terms}); answered: {took or 'nobody'}{refused}"

    def metrics(self) -> MetricRecord:
        """Return the numbers as Flower keeps them; names are in ``line`` and in the strategy's history."""
        values = {f"pausefl-{name}": math.inf if v is None else v for name, v in self.terms.items()}
        return MetricRecord(
            {
                "pausefl-picked": len(self.members),
                "pausefl-answered": len(self.seconds),
                "pausefl-latency": max(self.seconds.values(), default=0.0),
                "pausefl-most-spent": max(self.spent.values(), default=0.0),
                **values,
            }
        )
