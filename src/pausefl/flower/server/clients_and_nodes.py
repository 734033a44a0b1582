"""Which node is which client, and who may be asked: SuperNode ids change at every restart, names stay.

``hello`` asks the client's mod for the owner's name for it.  ``key`` takes the key that a SuperNode has proved to have.
``registered`` takes the name under which that key was registered: it is the word of whoever may register SuperNodes.
``node`` takes the id itself, which stays only with key authentication.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import compress
from logging import INFO, WARNING
from typing import Literal, TypeAlias

import numpy as np
from flwr.app import Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore import log

from pausefl.errors import NotEnoughClientsError
from pausefl.flower.protocol import RECORD, Note, is_name, request_record
from pausefl.flower.server.kept_out import Fault, explained, fault_of
from pausefl.flower.server.timed_grid import TimedGrid
from pausefl.flower.server.training_rounds import RunState
from pausefl.owner.request_and_reply import TrainingRequest
from pausefl.selector import Selector
from pausefl.types import ClientId, Seconds

Names: TypeAlias = Literal["hello", "registered", "key", "node"]
Newcomers: TypeAlias = Literal["ignore", "join"]
"""What becomes of a node that the selector does not know: it is left alone, or it joins as a client."""

_TRIES = 3
_REST = 5
"""How many rounds a node is left alone that failed so often, or that nobody knows: its owner may mend it meanwhile."""
_GRACE: Seconds = 15.0
_STARTING = 5.0
"""How many times as long nodes that are connected may take to say their names at first: their processes start."""
_LIFE: Seconds = 300.0
"""For how long a hello waits for its node; then the SuperLink answers for it, and it is asked again."""

_READ: Mapping[str, Callable[[NodeInfo], str]] = {
    "registered": lambda node: node.name,
    "key": lambda node: sha256(node.public_key).hexdigest()[:16] if node.public_key else "",
}


@dataclass(frozen=True, slots=True)
class Present:
    """The clients that can be asked now, each with its node; and what those that said hello released and have left."""

    nodes: Mapping[ClientId, int]
    releases: Mapping[ClientId, int]
    left: Mapping[ClientId, float]


@dataclass(slots=True)
class _Outsider:
    """A node that is no candidate: how often it failed, what is wrong, and in which round it is asked again."""

    fault: Fault
    failures: int = 0
    name: str = ""
    until: int = 0


class NodeNames:
    """Finds the known clients among the nodes.

    Every node is asked once, and again if it fails or falls silent.  One that keeps failing, or that nobody knows, is
    left alone for some rounds, unless there are too few without it, it went away and came back, or its name has joined.
    With ``enough`` known clients there, the others are waited for only a moment, and only the first time.  Of two nodes
    with one name the later counts: a SuperNode after a restart.  ``welcome`` is called with each name that nobody
    knows, and makes a client of it; without it such a node is no candidate.
    """

    def __init__(
        self, clients: Collection[ClientId], names: Names, run: str, welcome: Callable[[ClientId], None] | None = None
    ) -> None:
        self._names, self._run, self._welcome = names, run, welcome
        self._by_name: dict[str, ClientId] = {}
        self._clients: set[ClientId] = set()
        self.know(clients)
        self._known: dict[int, ClientId] = {}
        self._node_of: dict[ClientId, int] = {}
        self._releases: dict[ClientId, int] = {}
        self._left: dict[ClientId, float] = {}
        self._asked: dict[str, int] = {}
        self._outside: dict[int, _Outsider] = {}
        self._round = 0

    def know(self, clients: Collection[ClientId]) -> None:
        """Look for these from now on: clients may join and leave in mid-run."""
        wanted = set(clients)
        if wanted != self._clients:
            self._clients, self._by_name = wanted, {str(client): client for client in clients}

    def present(
        self,
        grid: TimedGrid,
        enough: int,
        wait: Seconds,
        *,
        least: int | None = None,
        without: Collection[ClientId] = (),
    ) -> Present:
        """Return who is there, waiting at most ``wait`` seconds for ``enough`` of them, not counting those ``without``.

        At the first time nodes that are connected, and without which no round can be played, get five times as long.
        After the first time ``least`` of them will do, and the others are given a moment only if they are on their way.
        Where every node there is has the same fault, nothing is waited for: more time would not mend it.
        """
        start, tried, found = grid.now(), set[int](), enough
        self._round += 1
        while True:
            nodes = self._look(grid)
            self._outside = {node: one for node, one in self._outside.items() if node in nodes}
            self._asked = {number: node for number, node in self._asked.items() if node in nodes}
            self._meet(grid, nodes, tried, needy=found < enough)
            wanted = self._clients
            here = {client: node for node, client in self._known.items() if node in nodes and client in wanted}
            found = len(here) - sum(client in here for client in without)
            waited = grid.now() - start
            asked = not nodes.keys().isdisjoint(self._asked.values())
            coming = asked and waited < min(_GRACE, wait)
            if self._round == 1:
                done = found >= enough and not coming
            else:
                done = found >= enough or (found >= (enough if least is None else least) and not coming)
            starting = self._round == 1 and asked and found < (enough if least is None else least)
            late = waited >= (wait * _STARTING if starting else wait)
            if done or late or self._hopeless(nodes, enough, waited):
                told, self._releases = self._releases, {}
                left, self._left = self._left, {}
                counts = {client: count for client, count in told.items() if client in here}
                return Present(here, counts, {client: share for client, share in left.items() if client in here})
            grid.pause()

    def doubt(self, clients: Iterable[ClientId]) -> None:
        """Let these say hello again before they are candidates: they did not answer, and may be gone."""
        doubted = set(clients) if self._names == "hello" else set()
        if doubted:
            self._known = {node: client for node, client in self._known.items() if client not in doubted}

    def excuses(self) -> str:
        """Say why the nodes that are there are no candidates, and what to do; nothing if all of them are."""
        silent = len({*self._asked.values()} - self._known.keys())
        return explained([one.fault for one in self._outside.values()], self._names, list(self._by_name), silent)

    def _look(self, grid: TimedGrid) -> Mapping[int, NodeInfo | None]:
        """Return the nodes that are there, with what the SuperLink knows of them if that names them."""
        if self._names in _READ:
            return {node.node_id: node for node in grid.grid.get_nodes()}
        return dict.fromkeys(grid.grid.get_node_ids())

    def _hopeless(self, nodes: Collection[int], enough: int, waited: Seconds) -> bool:
        """Say whether all nodes are kept out by the same lasting fault, and are as many as can be expected."""
        faults = {one.fault.kind for one in self._outside.values()}
        settled = len(self._outside) == len(nodes) and not self._asked and not faults & {"unreachable"}
        complete = len(nodes) >= len(self._by_name) or (len(nodes) >= enough and waited >= _GRACE)
        return settled and len(faults) == 1 and complete

    def _meet(self, grid: TimedGrid, nodes: Mapping[int, NodeInfo | None], tried: set[int], *, needy: bool) -> None:
        fresh = [node for node in nodes if node not in self._known]
        if self._names != "hello":
            called = {node: str(node) if info is None else _READ[self._names](info) for node, info in nodes.items()}
            times = Counter(called.values())
            for node in fresh:
                name = called[node]
                if not is_name(name):
                    self._keep_out(node, Fault("unnamed", "gave no name"), "", _TRIES)
                elif times[name] > 1:  # no restart: with its key a SuperNode keeps its number
                    shared = Fault("shared name", f"has the name {name!r:.100}, and so has another node")
                    self._keep_out(node, shared, "", _TRIES)
                else:
                    self._name(node, name, nodes)
            return
        asked = {*tried, *self._asked.values()}
        new = [node for node in fresh if node not in asked and (needy or self._due(node))]
        tried.update(new)
        if new:
            hello = request_record(TrainingRequest(self._run, 0), hello=True)
            self._asked |= grid.post([Message(RecordDict({RECORD: hello}), node, "train", ttl=_LIFE) for node in new])
        for message in grid.grid.pull_messages(list(self._asked)) if self._asked else ():
            number = message.metadata.reply_to_message_id
            if number not in self._asked:
                continue
            node = self._asked.pop(number)
            note = Note.of(message)
            if note is None:
                fault = fault_of(message, node)
                self._keep_out(node, fault, failures=int(fault.kind != "unreachable"))
                continue
            client = self._name(node, note.name, nodes)
            if client is not None:
                self._releases[client] = note.releases
                if note.left is not None:
                    self._left[client] = note.left

    def _due(self, node: int) -> bool:
        one = self._outside.get(node)
        return one is None or self._round >= one.until or one.name in self._by_name

    def _name(self, node: int, name: str, nodes: Collection[int]) -> ClientId | None:
        client = self._by_name.get(name)
        if client is None and name and self._welcome is not None:
            client = node if self._names == "node" else name
            self._welcome(client)
            self._by_name[name] = client
            self._clients.add(client)
        if client is None:
            said = f"calls itself {name!r:.100}, which the selector does not know" if name else "gave no name"
            self._keep_out(node, Fault("unknown" if name else "unnamed", said), name, _TRIES)
            return None
        self._outside.pop(node, None)
        before = self._node_of.get(client, node)
        if before != node and before in nodes:
            log(WARNING, "pausefl: %r was node %s, which is still there, and now it is node %s; "
            "%s", client, before, node,
                "either it was restarted, or a stranger uses its name; pass names='key' to rule that out")  # fmt: skip
        if self._names != "node":
            log(INFO, "pausefl: node %s is %r", node, client)
        self._known[node], self._node_of[client] = client, node
        return client

    def _keep_out(self, node: int, fault: Fault, name: str = "", failures: int = 0) -> None:
        one = self._outside.get(node)
        if one is None or one.fault != fault:
            log(WARNING, "pausefl: node %s %s; it is not a candidate", node, fault.said)
        one = self._outside.setdefault(node, _Outsider(fault))
        one.failures, one.name, one.fault = one.failures + failures, name, fault
        one.until = self._round + (_REST if one.failures >= _TRIES else 1)


class AvailableClients:
    """The candidates of each round of one run.

    ``least``: how many a round needs; ``wait``: how many seconds as many as the selector wants are waited for.
    ``here`` are the clients found last, with their nodes.  Whose budget is gone, by their own word or by what they
    answered, is noted in the run's state.  ``newcomers`` that join get the mean number of examples of the others.
    """

    def __init__(
        self, selector: Selector, names: Names, newcomers: Newcomers, least: int, wait: Seconds, state: RunState
    ) -> None:
        self._selector, self._least, self._wait, self._state = selector, least, wait, state
        self._nodes = NodeNames(self._clients(), names, state.name, self._join if newcomers == "join" else None)
        self.here: dict[ClientId, int] = {}

    def ready(self, grid: TimedGrid, number: int, *, everybody: bool = False) -> list[ClientId]:
        """Return who is there and has budget left, as far as is known; nobody if the run is over.

        With ``everybody`` all clients are waited for.  Too few nodes are an error: more may be started.  Too few
        budgets are the end, which nothing can change.
        """
        clients = self._clients()
        self._nodes.know(clients)
        wanted = self._solvent(clients) if everybody else self._selector.per_round
        found = self._nodes.present(grid, wanted, self._wait, least=self._least, without=self._state.exhausted)
        self.here = dict(found.nodes)
        self.learn(found.releases, left=found.left)
        exhausted = self._state.exhausted
        ready = [client for client in self.here if client not in exhausted]
        if len(ready) < self._least:
            if self.over() is not None:
                return []
            todo = self._nodes.excuses() or "start more nodes, wait longer, or pass fewer='smaller'"
            raise NotEnoughClientsError(
                f"candidates are {len(ready)} ({len(self.here)} there, {len(self._state.exhausted)} without budget), "
                f"but round {number} needs {self._least}; {todo}"
            )
        return ready

    def learn(
        self,
        told: Mapping[ClientId, int],
        answered: Iterable[ClientId] = (),
        left: Mapping[ClientId, float] | None = None,
    ) -> None:
        """Take over the counts of releases that clients tell, and notice whose budget is gone by these or by answers.

        ``left`` is the share of the budget that clients say they have left; it counts more than their schedule here.
        A pick without an answer counts as a release, but nobody is out for that: a client that has budget may still be
        asked, and one that has not refuses by itself.
        """
        left = left or {}
        if told or left:
            self._selector.report(told, left=left)
        self._state.exhausted |= {client for client, share in left.items() if share == 0.0}
        cohort, schedules = self._selector.cohort, self._selector.reward.budgets.table
        within = schedules.within_limits(cohort.releases)
        if within is None:
            return
        sure = [client for client in (*told, *answered) if client not in left]
        exhausted = self._state.exhausted
        exhausted |= {client for client, fine in zip(sure, within[cohort.rows(sure)].tolist(), strict=True) if not fine}
        rows = np.flatnonzero(~within & cohort.present)
        guessed = zip((cohort.ids[row] for row in rows.tolist()), schedules.limits(rows).tolist(), strict=True)
        self._selector.report({client: limit - 1 for client, limit in guessed if client not in exhausted})

    def doubt(self, clients: Iterable[ClientId]) -> None:
        """Let these say hello again before they are candidates."""
        self._nodes.doubt(clients)

    def over(self) -> str | None:
        """Say why no round can be played any more, for want of budget; None while one can."""
        clients = self._clients()
        solvent = self._solvent(clients)
        if not solvent:
            return "no client has budget left"
        if solvent < self._least <= len(clients):
            return f"{solvent} of {len(clients)} clients have budget left, but a round needs {self._least}"
        return None

    def _join(self, client: ClientId) -> None:
        sizes = self._selector.cohort.sizes[self._selector.cohort.present]
        self._selector.join({client: float(sizes.mean())})

    def _clients(self) -> Sequence[ClientId]:
        ids, present = self._selector.cohort.ids, self._selector.cohort.present
        return ids if present.all() else list(compress(ids, present.tolist()))

    def _solvent(self, clients: Sequence[ClientId]) -> int:
        """Return how many of these have budget left, as far as is known."""
        return len(clients) - len(self._state.exhausted.intersection(clients) if self._state.exhausted else ())
