"""What came of a round: which replies are sound, who took how long, who refused and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

from pausefl.errors import is_finite
from pausefl.flower.arrays import record_of
from pausefl.flower.protocol import Note, Refusal
from pausefl.flower.server.grid import Exchange
from pausefl.types import ClientId, FloatArray, Seconds

_TOLD = 5
"""How many clients a warning names."""


_HEAVIEST = 2.0**53
"""The most examples a client may claim: sums of them stay finite."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A round as the server saw it; ``errors`` are replies without content, which the inner strategy logs.

    ``replayed``: who says it sent a kept reply again.  ``doubted``: who must say again who it is, having been silent or
    having answered under another name.
    """

    sound: Mapping[ClientId, Message]
    errors: tuple[Message, ...]
    measured: Mapping[ClientId, Seconds]
    reported: Mapping[ClientId, Seconds]
    releases: Mapping[ClientId, int]
    refused: Mapping[ClientId, str]
    replayed: frozenset[ClientId]
    doubted: frozenset[ClientId]
    details: Mapping[ClientId, str]

    def faults(self) -> str:
        """Say in one line who gave no sound reply, and why, as far as that can be told from here."""
        told = [f"{client} {why}{self.details.get(client, '')}" for client, why in self.refused.items()]
        return ", ".join(told[:_TOLD]) + (f", and {len(told) - _TOLD} more" if len(told) > _TOLD else "")

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


def read_outcome(
    exchange: Exchange, chosen: Mapping[int, ClientId], model: ArrayRecord, weight: str | None, *, by_note: bool = False
) -> Outcome:
    """Sort the replies; one without the model's tensors, finite, and a ``weight`` above 0 counts as no answer.

    ``by_note``: clients are known by the name in their notes, so that a note with another name is not theirs.
    """
    sound: dict[ClientId, Message] = {}
    errors: list[Message] = []
    reported: dict[ClientId, Seconds] = {}
    releases: dict[ClientId, int] = {}
    refused: dict[ClientId, str] = {}
    details: dict[ClientId, str] = {}
    replayed, misnamed = set[ClientId](), set[ClientId]()
    replies, tensors = exchange.by_node(), {name: array.numpy() for name, array in model.items()}
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
            if refusal is None:
                details[client] = f" (Flower's error {reply.error.code}: {reply.error.reason!r:.150})"
            elif refusal.releases is not None:
                releases[client] = refusal.releases
        elif by_note and (note := Note.of(reply)) is not None and note.name != str(client):
            refused[client], details[client] = "unsound", f" (calls itself {note.name!r})"
            misnamed.add(client)
        elif (fault := _fault(reply, tensors, weight)) is not None:
            refused[client], details[client] = "unsound", f" ({fault})"
        else:
            sound[client] = reply
            _conform(reply, tensors)
            note = Note.of(reply)
            if note is not None:
                releases[client] = note.releases
                if note.seconds is not None:
                    reported[client] = note.seconds
                if note.replayed:
                    replayed.add(client)
    measured = {client: exchange.seconds[node] for node, client in chosen.items() if client in sound}
    silent_ones = {client for client, why in refused.items() if why == "no answer"}
    return Outcome(
        sound, tuple(errors), measured, reported, releases, refused, frozenset(replayed),
        frozenset(misnamed | silent_ones), details,
    )  # fmt: skip


def settle(outcome: Outcome, key: str, weight: str | None, weights: Mapping[ClientId, float] | None) -> None:
    """Make the replies ones that can be averaged: the same keys, and the metrics that all of them have.

    Owners allow different metrics, and Flower refuses to average unlike ones.  A policy that draws with replacement
    brings aggregation weights of its own.
    """
    numbers = _common([reply.content for reply in outcome.sound.values()])
    for (client, reply), values in zip(outcome.sound.items(), numbers, strict=True):
        if weights is not None and weight is not None:
            values[weight] = float(weights[client])
        arrays = next(iter(reply.content.array_records.values()))
        reply.content = RecordDict({key: arrays, "metrics": MetricRecord(dict(values))})


def settle_evaluation(replies: Iterable[Message], weight: str | None) -> list[Message]:
    """Make the replies to an evaluation ones that can be averaged; without a ``weight`` above 0 one weighs 1."""
    listed = list(replies)
    answered = [reply for reply in listed if reply.has_content()]
    told = [_numbers(reply.content).get(weight or "", 1.0) for reply in answered]
    for reply, values, given in zip(answered, _common([reply.content for reply in answered]), told, strict=True):
        if weight is not None:
            values[weight] = given if given > 0.0 else 1.0
        reply.content = RecordDict({"metrics": MetricRecord(dict(values))})
    return listed


def _numbers(content: RecordDict) -> dict[str, int | float]:
    """Return the single finite numbers of a reply; what else a client calls a metric cannot be averaged."""
    return {
        name: cast("int | float", value)
        for record in content.metric_records.values()
        for name, value in record.items()
        if is_finite(value)
    }


def _common(contents: list[RecordDict]) -> list[dict[str, int | float]]:
    found = [_numbers(content) for content in contents]
    shared = set.intersection(*map(set, found)) if found else set()
    return [{name: value for name, value in one.items() if name in shared} for one in found]


def _fault(reply: Message, model: Mapping[str, npt.NDArray[Any]], weight: str | None) -> str | None:
    """Say what keeps a reply from being averaged; None if nothing does."""
    arrays, metrics = list(reply.content.array_records.values()), list(reply.content.metric_records.values())
    if len(arrays) != 1 or len(metrics) != 1:
        return f"{len(arrays)} array records and {len(metrics)} metric records, not 1 of each"
    if set(arrays[0]) != set(model):
        return f"{len(arrays[0])} tensors that are not the model's {len(model)}"
    value = 1.0 if weight is None else metrics[0].get(weight)
    if not is_finite(value) or not 0.0 < cast(float, value) <= _HEAVIEST:
        return f"{weight!r} is {value!r:.40}, not above 0 and at most 2^53"
    try:
        faults = (_unlike(arrays[0][name].numpy(), tensor) for name, tensor in model.items())
        return next((f"tensor {name!r:.60} {fault}" for name, fault in zip(model, faults, strict=True) if fault), None)
    except Exception:  # whatever bytes a client sent in place of an array
        return "an array that cannot be read"


def _unlike(tensor: npt.NDArray[Any], model: npt.NDArray[Any]) -> str:
    if tensor.dtype.kind != model.dtype.kind or tensor.dtype.kind not in "fiub" or tensor.shape != model.shape:
        return f"is {tensor.dtype} {tensor.shape}, not {model.dtype} {model.shape}"
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = tensor.astype(model.dtype, copy=False)
    if tensor.dtype.kind != "f":
        return "" if np.array_equal(narrow, tensor) else f"holds numbers that are no {model.dtype}"
    return "" if np.isfinite(narrow).all() else f"holds NaN or infinity, as {model.dtype}"


def _conform(reply: Message, model: Mapping[str, npt.NDArray[Any]]) -> None:
    """Bring a sound reply's tensors into the model's order and types: strategies take both from the first reply."""
    key, arrays = next(iter(reply.content.array_records.items()))
    if list(arrays) != list(model) or any(arrays[name].dtype != str(tensor.dtype) for name, tensor in model.items()):
        reply.content[key] = record_of(
            {name: arrays[name].numpy().astype(tensor.dtype) for name, tensor in model.items()}
        )


def _flat(record: ArrayRecord) -> FloatArray:
    return np.concatenate([np.asarray(array.numpy(), dtype=np.float64).ravel() for array in record.values()])
