"""Replies that come after their round has closed: their clients have paid, so they are used later, or counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

import numpy as np
from flwr.app import ArrayRecord, Message

from pausefl.flower.protocol import record_of, records_in, views_of
from pausefl.flower.server import replies as answers
from pausefl.flower.server.timed_grid import Exchange
from pausefl.types import ClientId, Seconds

Late: TypeAlias = Literal["waste", "use"]
"""What becomes of a late reply: it is counted and thrown away, or its update joins the next round."""

_ROUNDS = 20
"""After so many rounds nobody looks for a reply any more."""


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    client: ClientId
    node: int
    round: int
    sent: Seconds
    model: ArrayRecord


@dataclass(frozen=True, slots=True, eq=False)
class LateReply:
    """A verdict on a late reply of a node, and how many rounds late it is; it was trained from ``model``."""

    verdict: answers.Verdict
    node: int
    staleness: int
    model: ArrayRecord

    @property
    def weight(self) -> float:
        """By how much less than a reply in time it weighs."""
        return 1.0 / (1.0 + self.staleness)

    def rebased(self, current: ArrayRecord, scale: float = 1.0) -> answers.Verdict:
        """Return the verdict with its reply as if it were from the current model: that model, plus the late update.

        Only floats have updates; counters and truth values are those of the current model.
        """
        before, now, sent = views_of(self.model), views_of(current), views_of(self.verdict.arrays)
        moved = {
            name: np.asarray(
                tensor.astype(np.float64)
                + scale * (sent[name].astype(np.float64) - before[name].astype(np.float64))
            ).astype(tensor.dtype)
            if tensor.dtype.kind == "f"
            else tensor
            for name, tensor in now.items()
        }  # fmt: skip
        reply = cast(Message, self.verdict.reply)
        key = next(iter(records_in(reply.content, ArrayRecord)))
        reply.content[key] = record_of(moved)
        return replace(self.verdict, reply=reply)


class LateReplies:
    """The requests of closed rounds that have no reply yet.

    They live in this process only: another one cannot fetch replies to them.  ``open`` is what a checkpoint keeps, so
    that the next process can say what was lost.
    """

    def __init__(self) -> None:
        self._requests: dict[str, _Request] = {}

    @property
    def ids(self) -> list[str]:
        """The messages that may still be answered."""
        return list(self._requests)

    @property
    def open(self) -> list[tuple[ClientId, int]]:
        """The clients that may still answer, and the rounds in which they were asked."""
        return [(one.client, one.round) for one in self._requests.values()]

    def remember(self, exchange: Exchange, chosen: Mapping[int, ClientId], number: int, model: ArrayRecord) -> None:
        """Take note of a round's messages without a reply, and forget those of rounds long past."""
        self._requests = {key: one for key, one in self._requests.items() if number - one.round < _ROUNDS}
        for message, node in exchange.waiting.items():
            self._requests[message] = _Request(chosen[node], node, number, exchange.start, model)

    def forget(self) -> None:
        """Forget all of them."""
        self._requests = {}

    def judge(
        self, found: Iterable[tuple[Message, Seconds]], number: int, weight: str | None, *, by_note: bool
    ) -> list[LateReply]:
        """Return what replies are worth that came in round ``number``; the seconds are from asking to coming."""
        judged = []
        for reply, came in found:
            request = self._requests.pop(reply.metadata.reply_to_message_id, None)
            if request is None:
                continue
            one = Exchange([reply], {request.node: reply}, {request.node: max(came - request.sent, 1e-9)})
            [verdict] = answers.judge(one, {request.node: request.client}, request.model, weight, by_note=by_note)
            judged.append(LateReply(verdict, request.node, max(number - request.round, 1), request.model))
        return judged
