"""What came of a round: which replies are sound, who took how long, who refused and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from flwr.app import ArrayRecord, Message
from flwr.serverapp.strategy import Strategy

from pausefl.flower.grid import Exchange
from pausefl.flower.protocol import WEIGHT, Note, Refusal
from pausefl.types import ClientId, FloatArray, Seconds


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A round as the server saw it; ``errors`` are replies without content, which the inner strategy logs."""

    sound: Mapping[ClientId, Message]
    errors: tuple[Message, ...]
    measured: Mapping[ClientId, Seconds]
    reported: Mapping[ClientId, Seconds]
    releases: Mapping[ClientId, int]
    refused: Mapping[ClientId, str]

    def exhausted(self) -> set[ClientId]:
        """Return whose budget is gone, by their own word."""
        return {client for client, why in self.refused.items() if why == "exhausted"}

    def updates(self, model: ArrayRecord) -> dict[ClientId, FloatArray]:
        """Return what each client sent, less the model, flat."""
        before = _flat(model)
        return {
            client: _flat(next(iter(reply.content.array_records.values()))) - before
            for client, reply in self.sound.items()
        }


def read_outcome(exchange: Exchange, chosen: Mapping[int, ClientId], model: ArrayRecord) -> Outcome:
    """Sort the replies; what does not have the model's tensors counts as no answer."""
    sound: dict[ClientId, Message] = {}
    errors: list[Message] = []
    reported: dict[ClientId, Seconds] = {}
    releases: dict[ClientId, int] = {}
    refused: dict[ClientId, str] = {}
    replies = exchange.by_node()
    for node, client in chosen.items():
        reply = replies.get(node)
        if reply is None:
            refused[client] = "no answer"
        elif reply.has_error():
            errors.append(reply)
            refusal = Refusal.of(reply.error)
            # What the SuperLink says in a node's place is that it cannot be reached.
            silent = reply.metadata.src_node_id != node
            refused[client] = "no answer" if silent else "failed" if refusal is None else refusal.why
            if refusal is not None and refusal.releases is not None:
                releases[client] = refusal.releases
        elif not _fits(reply, model):
            refused[client] = "unsound"
        else:
            sound[client] = reply
            note = Note.of(reply)
            if note is not None:
                releases[client] = note.releases
                if note.seconds is not None:
                    reported[client] = note.seconds
    measured = {client: exchange.seconds[node] for node, client in chosen.items() if client in sound}
    return Outcome(sound, tuple(errors), measured, reported, releases, refused)


def weigh(inner: Strategy, replies: Mapping[ClientId, Message], weights: Mapping[ClientId, float] | None) -> None:
    """Write a policy's own aggregation weights over the clients', for policies that draw with replacement."""
    if weights is not None:
        key = getattr(inner, "weighted_by_key", WEIGHT)
        for client, reply in replies.items():
            next(iter(reply.content.metric_records.values()))[key] = float(weights[client])


def _fits(reply: Message, model: ArrayRecord) -> bool:
    records = list(reply.content.array_records.values())
    if len(records) != 1 or len(reply.content.metric_records) != 1:
        return False
    shapes = {name: tuple(array.shape) for name, array in records[0].items()}
    return shapes == {name: tuple(array.shape) for name, array in model.items()}


def _flat(record: ArrayRecord) -> FloatArray:
    return np.concatenate([np.asarray(array.numpy(), dtype=np.float64).ravel() for array in record.values()])
