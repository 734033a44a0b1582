"""Who may be asked: known to the selector, there, and with budget left, for all that is known here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import compress

import numpy as np

from pausefl.errors import NotEnoughClientsError
from pausefl.flower.server.grid import TimedGrid
from pausefl.flower.server.node_names import Names, NodeNames
from pausefl.flower.server.training_rounds import RunState
from pausefl.selector import Selector
from pausefl.types import ClientId, Seconds


class AvailableClients:
    """The candidates of each round of one run.

    ``least``: how many a round needs; ``wait``: how many seconds as many as the selector wants are waited for.
    ``here`` are the clients found last, with their nodes.  Whose budget is gone, by their own word or by what they
    answered, is noted in the run's state.
    """

    def __init__(self, selector: Selector, names: Names, least: int, wait: Seconds, state: RunState) -> None:
        self._selector, self._least, self._wait, self._state = selector, least, wait, state
        self._nodes = NodeNames(self._clients(), names, state.name)
        self.here: dict[ClientId, int] = {}

    def ready(self, grid: TimedGrid, number: int) -> list[ClientId]:
        """Return who is there and has budget left, as far as is known; nobody if the run is over.

        Too few nodes are an error: more may be started.  Too few budgets are the end, which nothing can change.
        """
        self._nodes.know(self._clients())
        found = self._nodes.present(
            grid, self._selector.per_round, self._wait, least=self._least, without=self._state.exhausted
        )
        self.here = dict(found.nodes)
        self.learn(found.releases)
        ready = [client for client in self.here if client not in self._state.exhausted]
        if len(ready) < self._least:
            if self.over() is not None:
                return []
            raise NotEnoughClientsError(
                f"candidates are {len(ready)} ({len(self.here)} there, {len(self._state.exhausted)} without budget), "
                f"but round {number} needs {self._least}; start more nodes, wait longer, or pass fewer='smaller'"
            )
        return ready

    def learn(self, told: Mapping[ClientId, int], answered: Iterable[ClientId] = ()) -> None:
        """Take over the counts of releases that clients tell, and notice whose budget is gone by these or by answers.

        A pick without an answer counts as a release, but nobody is out for that: a client that has budget may still be
        asked, and one that has not refuses by itself.
        """
        self._selector.report(told)
        cohort, limit = self._selector.cohort, self._selector.reward.schedule.limit
        if limit is None:
            return
        sure = [*told, *answered]
        counts = cohort.releases[cohort.rows(sure)].tolist()
        exhausted = self._state.exhausted
        exhausted |= {client for client, count in zip(sure, counts, strict=True) if count >= limit}
        guessed = (cohort.ids[row] for row in np.flatnonzero((cohort.releases >= limit) & cohort.present).tolist())
        self._selector.report({client: limit - 1 for client in guessed if client not in exhausted})

    def doubt(self, clients: Iterable[ClientId]) -> None:
        """Let these say hello again before they are candidates."""
        self._nodes.doubt(clients)

    def over(self) -> str | None:
        """Say why no round can be played any more, for want of budget; None while one can."""
        clients = self._clients()
        solvent = sum(client not in self._state.exhausted for client in clients)
        if not solvent:
            return "no client has budget left"
        if solvent < self._least <= len(clients):
            return f"{solvent} of {len(clients)} clients have budget left, but a round needs {self._least}"
        return None

    def _clients(self) -> list[ClientId]:
        return list(compress(self._selector.cohort.ids, self._selector.cohort.present))
