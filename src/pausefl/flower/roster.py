"""Who is who: SuperNode ids change at every restart, so the selector knows nodes by a name that stays.

``hello`` asks the client's mod for the owner's name for it; ``registered`` and ``key`` take what the SuperLink
verified of a SuperNode with key authentication; ``node`` takes the id itself, which stays only with authentication.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from logging import INFO, WARNING
from typing import Literal, TypeAlias, get_args

from flwr.app import Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore import log

from pausefl.errors import require
from pausefl.flower.grid import TimedGrid
from pausefl.flower.protocol import RECORD, Note, Request
from pausefl.types import ClientId, Seconds

Names: TypeAlias = Literal["hello", "registered", "key", "node"]

_TRIES = 3
_GRACE: Seconds = 15.0

_READ: Mapping[str, Callable[[NodeInfo], str]] = {
    "registered": lambda node: node.name,
    "key": lambda node: sha256(node.public_key).hexdigest()[:16] if node.public_key else "",
    "node": lambda node: str(node.node_id),
}


@dataclass(frozen=True, slots=True)
class Present:
    """The clients that can be asked now, each with its node; and what those that said hello have released."""

    nodes: Mapping[ClientId, int]
    releases: Mapping[ClientId, int]


class Roster:
    """Finds the known clients among the nodes.

    Every node is asked once, and again if it fails or falls silent.  With ``enough`` known clients there, the others
    are waited for only a moment, and only the first time.  Of two nodes with one name the later counts: a SuperNode
    after a restart.
    """

    def __init__(self, clients: Iterable[ClientId], names: Names, run: str) -> None:
        require(names in get_args(Names), "names", names, f"one of {', '.join(get_args(Names))}", "choose one")
        self._names, self._run = names, run
        self._by_name = {str(client): client for client in clients}
        self._known: dict[int, ClientId] = {}
        self._releases: dict[ClientId, int] = {}
        self._asked: dict[str, int] = {}
        self._failures: dict[int, int] = {}
        self._first = True

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

        After the first time ``least`` of them will do, and the others are given a moment only if they are on their way.
        """
        start, tried = grid.now(), set[int]()
        while True:
            nodes = {node.node_id: node for node in grid.get_nodes()}
            self._meet(grid, nodes, tried)
            here = {client: node for node, client in self._known.items() if node in nodes}
            found = sum(client not in without for client in here)
            waited = grid.now() - start
            coming = not nodes.keys().isdisjoint(self._asked.values()) and waited < min(_GRACE, wait)
            if self._first:
                done = found >= enough and not coming
            else:
                done = found >= enough or (found >= (enough if least is None else least) and not coming)
            if done or waited >= wait:
                self._first = False
                told, self._releases = self._releases, {}
                return Present(here, {client: count for client, count in told.items() if client in here})
            grid.pause()

    def doubt(self, clients: Iterable[ClientId]) -> None:
        """Let these say hello again before they are candidates: they did not answer, and may be gone."""
        doubted = set(clients) if self._names == "hello" else set()
        self._known = {node: client for node, client in self._known.items() if client not in doubted}

    def _meet(self, grid: TimedGrid, nodes: Mapping[int, NodeInfo], tried: set[int]) -> None:
        fresh = [n for n in nodes if n not in self._known and self._failures.get(n, 0) < _TRIES]
        if self._names != "hello":
            for node in fresh:
                self._name(node, _READ[self._names](nodes[node]))
            return
        new = [node for node in fresh if node not in tried and node not in self._asked.values()]
        tried.update(new)
        hello = Request(self._run, 0, hello=True).record()
        self._asked |= grid.post([Message(RecordDict({RECORD: hello}), node, "train") for node in new])
        for message in grid.pull_messages(list(self._asked)) if self._asked else ():
            number = message.metadata.reply_to_message_id
            if number not in self._asked:
                continue
            node = self._asked.pop(number)
            if message.has_error():
                # The SuperLink's own errors tell of the way there, not of the node.
                failed = message.metadata.src_node_id == node
                self._failures[node] = self._failures.get(node, 0) + failed
                log(WARNING, "pausefl: node %s gave no name: %s", node, message.error.reason)
                continue
            note = Note.of(message)
            client = self._name(node, "" if note is None else note.name)
            if note is not None and client is not None:
                self._releases[client] = note.releases

    def _name(self, node: int, name: str) -> ClientId | None:
        client = self._by_name.get(name)
        if client is None:
            said = f"calls itself {name!r}, which the selector does not know" if name else "gave no name"
            log(WARNING, "pausefl: node %s %s; it is not a candidate", node, said)
            self._failures[node] = _TRIES
            return None
        log(INFO, "pausefl: node %s is %r", node, client)
        self._known[node] = client
        return client
