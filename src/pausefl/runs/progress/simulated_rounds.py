"""The rounds of a simulated run as facts: records of ``metrics.jsonl``, and budgets by who took part how often."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from pausefl.runs.config import Config
from pausefl.runs.progress.round_facts import LATE, NO_ANSWER, RoundFacts, RunHead
from pausefl.runs.run_data import epsilon_left

NAMED = 1000
"""Up to so many clients are named before they take part."""
_ROUNDING = 1e-5  # records keep six digits of a latency


def simulated_head(config: Config, *, finished: bool) -> RunHead:
    """Return what a configuration says of its run."""
    clients = config.network.clients
    return RunHead(
        kind="simulator", title=config.title, clients=clients,
        names=tuple(str(client) for client in range(clients)) if clients <= NAMED else (),
        planned=config.run.rounds, bounded=config.privacy.enabled, finished=finished,
    )  # fmt: skip


class SimulatedRounds:
    """Turns the records of one run into facts; they must come in order, since budgets follow from who took part."""

    def __init__(self, config: Config) -> None:
        self._bounded = config.privacy.enabled
        self._picks, self._tellings = (np.zeros(config.network.clients, dtype=np.int64) for _ in range(2))

        @lru_cache(maxsize=256)
        def left(picks: int, tellings: int, *, tells: bool) -> float:
            found = epsilon_left(config, np.array([picks]), np.array([tellings]) if tells else None)
            return float(found[0]) / config.privacy.budget

        self._left, self._tells = left, False

    def facts(self, record: Mapping[str, Any]) -> RoundFacts:
        """Return what the next record says."""
        members, latencies = record["members"], record.get("latencies") or ()
        np.add.at(self._picks, members, 1)
        self._tells = self._tells or "signals" in record
        np.add.at(self._tellings, record.get("signals", []), 1)
        closed = float(record["latency"]) * (1.0 + _ROUNDING)
        seconds, faults = {}, {}
        for client, latency in zip(map(str, members), latencies, strict=False):
            if latency is None:
                faults[client] = NO_ANSWER
            elif latency > closed:
                faults[client] = LATE
            else:
                seconds[client] = float(latency)
        paid = members if self._bounded else ()
        left = {str(k): self._left(int(self._picks[k]), int(self._tellings[k]), tells=self._tells) for k in paid}
        return RoundFacts(
            number=record["round"], members=tuple(map(str, members)), seconds=seconds, faults=faults,
            took=float(record["latency"]), accuracy=record.get("accuracy"), left=left,
        )  # fmt: skip
