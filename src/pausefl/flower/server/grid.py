"""Grids around Flower's own: one that stamps replies with a steady clock, one that shows only the chosen nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from flwr.app import Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run

from pausefl.errors import NotEnoughClientsError, OutOfOrderError, is_finite, require
from pausefl.types import Seconds

_PATIENCE = 20
"""How often an inner strategy may look for nodes in one round; Flower's look twice, and then wait for ever."""


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """What came back of the messages sent, and how many seconds each reply took, by the node it was sent to."""

    sent: tuple[int, ...]
    replies: tuple[Message, ...]
    seconds: dict[int, Seconds]
    node_of: dict[str, int]

    def by_node(self) -> dict[int, Message]:
        """Return the replies by the node that was asked: errors of the SuperLink name another sender."""
        return {self.node_of[reply.metadata.reply_to_message_id]: reply for reply in self.replies}


class GridAround(Grid):
    """Passes everything on; the base of what follows."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

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
        """Return who is there."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Return who is there, with what the SuperLink knows of each."""
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Fetch the replies that are there."""
        return self._grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send, and wait for the replies."""
        return self._grid.send_and_receive(messages, timeout=timeout)


def check_poll(poll: Seconds) -> None:
    """Refuse a pause that is none."""
    require(is_finite(poll) and poll > 0.0, "poll", poll, "a number of seconds above 0", "0.1 is the default")


class TimedGrid(GridAround):
    """Sends, then looks for replies in a fast loop and stamps each; the stock grid looks every 3 s and tells no times.

    ``poll`` is the pause between looks, and so the resolution.  Clock and sleep are arguments for tests.
    """

    def __init__(
        self, grid: Grid, *, poll: Seconds = 0.1,
        clock: Callable[[], Seconds] = time.monotonic, sleep: Callable[[Seconds], None] = time.sleep,
    ) -> None:  # fmt: skip
        super().__init__(grid)
        check_poll(poll)
        self._poll, self._clock, self._sleep = poll, clock, sleep

    def post(self, messages: Iterable[Message]) -> dict[str, int]:
        """Send; return which node each accepted message went to."""
        listed = list(messages)
        if not listed:
            return {}
        # The SuperLink may take fewer than it was given: only the ids it returned are on their way.
        accepted = {number for number in self._grid.push_messages(listed) if number}
        return {
            message.metadata.message_id: message.metadata.dst_node_id
            for message in listed
            if message.metadata.message_id in accepted
        }

    def exchange(self, messages: Iterable[Message], timeout: Seconds | None) -> Exchange:
        """Send all messages and collect replies until every one is there, or the time is up."""
        listed = list(messages)
        start = self._clock()
        node_of = self.post(listed)
        waiting, replies, seconds = set(node_of), [], {}
        while waiting:
            found = [m for m in self._grid.pull_messages(list(waiting)) if m.metadata.reply_to_message_id in waiting]
            now = self._clock() - start
            for message in found:
                number = message.metadata.reply_to_message_id
                if number in waiting:
                    waiting.discard(number)
                    replies.append(message)
                    seconds[node_of[number]] = max(now, 1e-9)
            if not waiting or (timeout is not None and now >= timeout):
                break
            self._sleep(self._poll)
        return Exchange(tuple(m.metadata.dst_node_id for m in listed), tuple(replies), seconds, node_of)

    def pause(self, seconds: Seconds | None = None) -> Seconds:
        """Wait a moment; return the time of the clock."""
        self._sleep(self._poll if seconds is None else seconds)
        return self._clock()

    def now(self) -> Seconds:
        """Return the time of the clock."""
        return self._clock()

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send, and collect the replies in the fast loop."""
        return list(self.exchange(messages, timeout).replies)


class ChosenGrid(GridAround):
    """The grid that an inner strategy sees: only these nodes are there, and it sends nothing by itself."""

    def __init__(self, grid: Grid, nodes: Collection[int]) -> None:
        super().__init__(grid)
        self._nodes, self._looks = tuple(nodes), 0

    def get_node_ids(self) -> Iterable[int]:
        """Return the chosen nodes; an inner strategy that keeps looking for more is stopped."""
        self._looks += 1
        if self._looks > _PATIENCE:
            raise NotEnoughClientsError(
                f"the inner strategy waits for more than the {len(self._nodes)} nodes chosen; lower its minimum counts"
            )
        return list(self._nodes)

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Return what the SuperLink knows of the chosen nodes."""
        chosen = set(self.get_node_ids())
        return [node for node in self._grid.get_nodes() if node.node_id in chosen]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Refuse: what is sent behind the selector's back would not be counted."""
        raise OutOfOrderError("an inner strategy sent messages while it was configured; return them instead")

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Refuse, for the same reason."""
        return self.push_messages(messages)  # type: ignore[return-value]
