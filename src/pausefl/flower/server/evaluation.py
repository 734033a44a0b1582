"""Evaluation on the nodes: who is asked, and one warning for all who refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from logging import WARNING

from flwr.app import Message
from flwr.serverapp.strategy import Strategy
from flwr.supercore import log

from pausefl.flower.protocol import Refusal, clean_error
from pausefl.flower.server.inner_strategy import least_evaluation
from pausefl.owner.request_and_reply import SENTENCES, Reason


class Evaluation:
    """Whom the inner strategy may ask in one run.

    Law: a node whose owner does not allow evaluation is asked once in a run.  Refusals do not reach the inner strategy,
    which would log each of them; they are counted in one warning.
    """

    def __init__(self, inner: Strategy) -> None:
        self._off = getattr(inner, "fraction_evaluate", 1.0) == 0.0
        self._needed = least_evaluation(inner)
        self._never: set[int] = set()

    def asked(self, here: Iterable[int]) -> list[int]:
        """Return the nodes that may be asked; nobody if evaluation is off or if they are too few."""
        if self._off:
            return []
        there = list(here)
        nodes = [node for node in there if node not in self._never]
        if len(nodes) >= self._needed:
            return nodes
        if len(there) < self._needed:  # else the refusals have been told
            log(
                WARNING,
                "pausefl: evaluation is left out, because %s nodes are there and it needs %s",
                len(there),
                self._needed,
            )
        return []

    def answered(self, replies: Iterable[Message]) -> list[Message]:
        """Return the replies without the refusals, which are logged by number and reason; other errors are cleaned."""
        kept, refused = list[Message](), Counter[Reason]()
        for reply in replies:
            refusal = Refusal.of(reply.error) if reply.has_error() else None
            if refusal is None:
                kept.append(clean_error(reply) if reply.has_error() else reply)
                continue
            refused[refusal.why] += 1
            if refusal.why == "not-allowed":
                self._never.add(reply.metadata.src_node_id)
        for why, count in refused.items():
            todo = "; they are not asked again; evaluate on the server (evaluate_fn), and pass fraction_evaluate=0.0"
            nodes = "1 node refuses" if count == 1 else f"{count} nodes refuse"
            log(WARNING, "pausefl: %s evaluation: %s%s", nodes, SENTENCES[why], todo if why == "not-allowed" else "")
        return kept
