"""Before the first round: all clients at once do the work of a round on made-up data, and are timed."""

from __future__ import annotations

from collections.abc import Mapping
from logging import INFO, WARNING

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp.strategy import Strategy
from flwr.supercore import log

from pausefl.flower.protocol import REHEARSAL, name_in
from pausefl.flower.server.inner_strategy import record_keys
from pausefl.flower.server.timed_grid import TimedGrid
from pausefl.flower.server.training_rounds import Plan
from pausefl.types import ClientId, Seconds


def rehearse(
    grid: TimedGrid, nodes: Mapping[ClientId, int], inner: Strategy, model: ArrayRecord, plan: Plan, *, by_name: bool
) -> dict[ClientId, Seconds]:
    """Return how long each of these clients took, by the node it was asked at; who failed or refused is left out.

    They are sent what they would be sent to train.  ``by_name``: clients are known by the name in their replies, so
    that a reply with another name is not theirs.
    """
    arrays, config = record_keys(inner)
    content = RecordDict({arrays: model, config: ConfigRecord({**plan.train_config, "server-round": 0})})
    found = grid.exchange([Message(content, node, REHEARSAL, ttl=plan.ttl) for node in nodes.values()], plan.timeout)
    names = {client: name_in(found.by_node.get(node)) for client, node in nodes.items()}
    taken = {
        client: found.seconds[nodes[client]]
        for client, name in names.items()
        if name is not None and (name == str(client) or not by_name)
    }
    slowest = max(taken.values(), default=0.0)
    log(INFO, "pausefl: rehearsal: %s of %s answered, the last after %.2f s", len(taken), len(nodes), slowest)
    if not taken:
        log(WARNING, "pausefl: nobody rehearsed, so the run begins without; a rehearsal needs a function "
            "app.query('rehearsal') in the app, owners' files that allow it, and no release so far")  # fmt: skip
    return taken
