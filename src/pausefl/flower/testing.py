"""A grid whose nodes live in this process: for tests and benchmarks of a strategy, without SuperLink or network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from uuid import uuid4

from flwr.app import Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from pausefl.flower.simulation import simulated

Node = Callable[[Message], Message | None]
"""What a node does with a message; None is no answer."""


class MemoryGrid(Grid):
    """Nodes as functions: a message is answered when its reply is looked for, in the order of sending.

    The nodes are simulated clients: an owner's file for simulations may be used in them.

    >>> from flwr.app import Message, RecordDict
    >>> grid = MemoryGrid({7: lambda message: Message(RecordDict(), reply_to=message)})
    >>> [number] = grid.push_messages([Message(RecordDict(), 7, "train")])
    >>> [reply] = grid.pull_messages([number])
    >>> reply.metadata.src_node_id
    7
    """

    def __init__(self, nodes: Mapping[int, Node], infos: Iterable[NodeInfo] = ()) -> None:
        self.nodes = dict(nodes)
        self.sent: list[Message] = []
        self._infos = {info.node_id: info for info in infos}
        self._waiting: dict[str, Message] = {}
        self._run = Run.create_empty(run_id=1)
        # Flower stamps every message with the task of its process; here there is none.
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

    def set_run(self, run: Run) -> None:
        """Set the run."""
        self._run = run

    @property
    def run(self) -> Run:
        """Run information."""
        return self._run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Create a message."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return who is there."""
        return list(self.nodes)

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Return who is there, with what is known of each."""
        return [self._infos.get(node) or NodeInfo(node_id=node) for node in self.nodes]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Take messages; those to a node that is not there get no id, as with Flower's own grid in memory."""
        accepted = []
        for message in messages:
            self.sent.append(message)
            message.metadata.__dict__["_message_id"] = uuid4().hex
            if message.metadata.dst_node_id in self.nodes:
                accepted.append(message.metadata.message_id)
                self._waiting[message.metadata.message_id] = message
        return accepted

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Let the nodes answer."""
        replies = []
        for number in message_ids:
            message = self._waiting.get(number)
            node = None if message is None else self.nodes.get(message.metadata.dst_node_id)
            with simulated():
                reply = None if message is None or node is None else node(message)
            if reply is not None:
                del self._waiting[number]
                replies.append(reply)
        return replies

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send, and return what is answered at once."""
        return self.pull_messages(self.push_messages(messages))
