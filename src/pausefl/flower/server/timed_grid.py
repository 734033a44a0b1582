"""Around Flower's grid: one that stamps replies with a steady clock, and one that shows only the chosen nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from flwr.app import Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run

from pausefl.errors import NotEnoughClientsError, OutOfOrderError
from pausefl.types import Seconds

_PATIENCE = 20
"""How often an inner strategy may look for nodes in one round; Flower's look twice, and then wait for ever."""


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """What came back of the messages sent, all of it and by the node that was asked, and the seconds each reply took.

    The node that was asked is not always the sender: errors of the SuperLink name another one.  ``waiting`` are the
    messages that had no reply when the exchange ended, with their nodes; ``late`` the replies to earlier messages, and
    when they came; ``start`` and ``took`` when it began and how long it was, by the grid's clock.  ``early``: it ended
    because enough had answered.
    """

    replies: list[Message]
    by_node: dict[int, Message]
    seconds: dict[int, Seconds]
    waiting: dict[str, int] = field(default_factory=dict)
    late: list[tuple[Message, Seconds]] = field(default_factory=list)
    start: Seconds = 0.0
    took: Seconds = 0.0
    early: bool = False


class TimedGrid:
    """Sends, then looks for replies in a fast loop and stamps each; Flower's grid looks every 3 s and tells no times.

    ``poll`` is the pause between looks, and so the resolution.  Clock and sleep are arguments for tests.
    """

    def __init__(
        self, grid: Grid, *, poll: Seconds = 0.1,
        clock: Callable[[], Seconds] = time.monotonic, sleep: Callable[[Seconds], None] = time.sleep,
    ) -> None:  # fmt: skip
        self.grid, self.now = grid, clock
        self._poll, self._sleep = poll, sleep

    def post(self, messages: Iterable[Message]) -> dict[str, int]:
        """Send; return which node each accepted message went to."""
        listed = list(messages)
        if not listed:
            return {}
        # The SuperLink may take fewer than it was given: only the ids it returned are on their way.
        accepted = {number for number in self.grid.push_messages(listed) if number}
        return {
            message.metadata.message_id: message.metadata.dst_node_id
            for message in listed
            if message.metadata.message_id in accepted
        }

    def exchange(
        self,
        messages: Iterable[Message],
        timeout: Seconds | None,
        *,
        enough: Callable[[Mapping[int, Message]], bool] | None = None,
        late: Collection[str] = (),
    ) -> Exchange:
        """Send all messages and collect replies until every one is there, the time is up, or they are ``enough``.

        ``enough`` is told the replies by node.  Replies to the messages ``late``, which were sent before, are collected
        as well, and not waited for.
        """
        start, expected = self.now(), set(late)
        waiting = self.post(messages)
        replies: list[Message] = []
        by_node: dict[int, Message] = {}
        seconds: dict[int, Seconds] = {}
        found: list[tuple[Message, Seconds]] = []
        taken, early = 0.0, False
        while waiting:
            pulled = list(self.grid.pull_messages([*waiting, *expected]))
            taken = self.now() - start
            for reply in pulled:
                number = reply.metadata.reply_to_message_id
                if number in expected:
                    expected.discard(number)
                    found.append((reply, start + taken))
                node = waiting.pop(number, None)
                if node is not None:
                    replies.append(reply)
                    by_node[node], seconds[node] = reply, max(taken, 1e-9)
            early = bool(waiting) and enough is not None and enough(by_node)
            if early or not waiting or (timeout is not None and taken >= timeout):
                break
            self.pause()
        return Exchange(replies, by_node, seconds, waiting, found, start, taken, early)

    def pause(self) -> None:
        """Wait a moment."""
        self._sleep(self._poll)


class ChosenGrid(Grid):
    """The grid that an inner strategy sees: only these nodes are there, and it sends nothing by itself."""

    def __init__(self, grid: Grid, nodes: Collection[int]) -> None:
        self._grid, self._nodes, self._looks = grid, tuple(nodes), 0

    def set_run(self, run: Run) -> None:
        """Set the run."""
        self._grid.set_run(run)

    @property
    def run(self) -> Run:
        """Run information."""
        return self._grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Create a message."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Return the chosen nodes; an inner strategy that keeps looking for more is stopped."""
        self._looks += 1
        if self._looks > _PATIENCE:
            raise NotEnoughClientsError(
                f"the inner strategy waits for more than the {len(self._nodes)} nodes chosen; lower its "
                "min_train_nodes and min_available_nodes"
            )
        return list(self._nodes)

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Return what the SuperLink knows of the chosen nodes."""
        chosen = set(self.get_node_ids())
        return [node for node in self._grid.get_nodes() if node.node_id in chosen]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Fetch the replies that are there."""
        return self._grid.pull_messages(message_ids)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Refuse: what is sent behind the selector's back would not be counted."""
        raise OutOfOrderError("an inner strategy sent messages in configure_train; return them instead")

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Refuse, for the same reason."""
        return self.push_messages(messages)  # type: ignore[return-value]
