"""What clients' replies are worth: a verdict on each, the seconds that count, and what can be averaged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from logging import WARNING
from statistics import median_low
from typing import Literal, TypeAlias, cast

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.supercore import log

from pausefl.errors import is_finite, require
from pausefl.flower.protocol import (
    METRICS,
    Note,
    Refusal,
    clean_error,
    is_name,
    record_of,
    records_in,
    view_of,
    views_of,
)
from pausefl.flower.server.model_steps import flat_model
from pausefl.flower.server.timed_grid import Exchange
from pausefl.privacy.mechanisms.base import NoiseLevel
from pausefl.privacy.mechanisms.tensor_rules import Tensor
from pausefl.rng import stream
from pausefl.selector.cohort import Cohort
from pausefl.sim.latency import LatencyModel
from pausefl.types import ClientId, FloatArray, Seconds

Latency: TypeAlias = Literal["round-trip", "reported"] | LatencyModel
"""``round-trip``: measured here, with Flower's own seconds of overhead.  ``reported``: the client's training time, by
its word, and at most the round trip; clients that report none, as all do outside of simulations, are taken at their
round trip.  A model: virtual seconds
per client and round, for the simulation engine, where clients wait for each other's processors."""

_TOLD = 5
"""How many clients a warning names."""
_METRICS = 100
"""How many metrics of a round are kept, beside the one that weighs: each is written to the journal."""
_TRUSTED = 16.0
"""How much quieter than the median reply, and how much stronger, a client may say that its own is."""
_LOUDEST = 1e100
"""The most noise or signal that is taken of a client's word."""
_HEAVIEST = 2.0**53
"""The most examples a client may claim: sums of them stay finite."""
_LEAST: Seconds = 1e-9
"""What the selector takes for a latency at the least."""
_MOST: Seconds = 1e9
"""What is taken of a client's word at the most."""


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """What one client's reply is worth.

    ``fault`` says why it counts as no answer; a sound reply has none.  ``reply`` is a sound one, or an error, which the
    inner strategy logs.  ``seconds`` were measured here; ``reported``, ``releases``, ``replayed`` (it sent a kept reply
    again), ``level`` (how loud it is), ``left`` (the share of its budget) and ``next_noise`` (of its next release) are
    the client's word.  ``numbers`` are its metrics.  A ``doubted`` client must say again who it is: it was silent, or
    answered under another name.
    """

    client: ClientId
    fault: str = ""
    detail: str = ""
    reply: Message | None = None
    seconds: Seconds = 0.0
    reported: Seconds | None = None
    releases: int | None = None
    replayed: bool = False
    level: NoiseLevel | None = None
    left: float | None = None
    next_noise: float | None = None
    doubted: bool = False
    numbers: Mapping[str, int | float] = field(default_factory=dict)

    @property
    def arrays(self) -> ArrayRecord:
        """The tensors of a sound reply."""
        return next(iter(records_in(cast(Message, self.reply).content, ArrayRecord).values()))


def judge(
    exchange: Exchange, chosen: Mapping[int, ClientId], model: ArrayRecord, weight: str | None, *, by_note: bool = False
) -> list[Verdict]:
    """Return a verdict on each of the ``chosen``, by the nodes they were asked at.

    A reply without the model's tensors, finite, and a ``weight`` above 0 is unsound.  ``by_note``: clients are known by
    the name in their notes, so that a note with another name is not theirs.
    """
    replies, tensors = exchange.by_node, views_of(model)
    return [
        _silent(client, node, reply)
        if (reply := replies.get(node)) is None or reply.has_error()
        else _answered(client, reply, exchange.seconds[node], tensors, weight, by_note)
        for node, client in chosen.items()
    ]


def faults(verdicts: Iterable[Verdict]) -> str:
    """Say in one line who gave no sound reply, and why, as far as that can be told from here."""
    told = [f"{one.client} {one.fault}{one.detail}" for one in verdicts if one.fault]
    return ", ".join(told[:_TOLD]) + (f", and {len(told) - _TOLD} more" if len(told) > _TOLD else "")


def flat_updates(sound: Iterable[Verdict], model: ArrayRecord) -> dict[ClientId, FloatArray]:
    """Return what each client sent, less the model, flat."""
    before = flat_model(model)
    return {one.client: flat_model(one.arrays) - before for one in sound}


def plain_weights(
    sound: list[Verdict], weight: str | None, weights: Mapping[ClientId, float] | None
) -> list[int | float]:
    """Return by what each reply weighs: its own number, or the policy's, which may draw with replacement."""
    if weights is not None:
        return [float(weights[one.client]) for one in sound]
    return [one.numbers.get(weight or "", 1.0) for one in sound]


def believed_levels(sound: list[Verdict]) -> list[NoiseLevel | None]:
    """Return how loud each reply is taken to be: by the client's word, within bounds that the others set.

    A client that claims less noise than it adds gets more weight.  So none is taken to be more than 16 times quieter
    than the median reply, or to have a signal of more than 16 times the median one's.  One that claims more loses its
    weight, and nothing else: of two replies the quieter is the median.  A reply that tells nothing is taken for the
    median one.  Unless more than half of them tell it, nobody is believed: a few would speak for all.
    """
    told = [_within_reason(one.level) for one in sound if one.level is not None]
    if 2 * len(told) <= len(sound):
        return [None] * len(sound)
    usual = NoiseLevel(median_low(x.noise for x in told), median_low(x.signal for x in told))
    least, most = usual.noise / _TRUSTED, usual.signal * _TRUSTED
    claimed = [usual if one.level is None else _within_reason(one.level) for one in sound]
    return [NoiseLevel(max(x.noise, least), min(x.signal, most)) for x in claimed]


def settle(sound: list[Verdict], key: str, weight: str | None, weights: Sequence[int | float]) -> None:
    """Make the replies ones that can be averaged, by these weights: the same keys, and the metrics that all have.

    Owners allow different metrics, and Flower refuses to average unlike ones.
    """
    for one, values, given in zip(sound, _common([one.numbers for one in sound]), weights, strict=True):
        if weight is not None:
            values[weight] = given
        cast(Message, one.reply).content = RecordDict({key: one.arrays, METRICS: MetricRecord(dict(values))})


def settle_evaluation(replies: Iterable[Message], weight: str | None) -> list[Message]:
    """Make the replies to an evaluation ones that can be averaged; one without a ``weight`` that counts weighs 1."""
    listed = list(replies)
    answered = [reply for reply in listed if reply.has_content()]
    told = [_numbers(reply.content) for reply in answered]
    for reply, values, numbers in zip(answered, _common(told), told, strict=True):
        if weight is not None:
            given = numbers.get(weight, 1.0)
            values[weight] = given if 0.0 < given <= _HEAVIEST else 1.0
        reply.content = RecordDict({METRICS: MetricRecord(dict(values))})
    return listed


def check_latency(latency: Latency, clients: int) -> None:
    """Refuse what is neither a name nor a model of as many clients."""
    if isinstance(latency, str):
        bound = "'round-trip', 'reported' (in simulations) or a latency model"
        require(latency in ("round-trip", "reported"), "latency", latency, bound, "'round-trip' is the default")
    else:
        found = len(latency) if hasattr(latency, "sample") else latency
        require(
            found == clients,
            "latency model",
            found,
            f"one of {clients} clients",
            "pass a model with a column per client",
        )


def latencies(
    latency: Latency, number: int, cohort: Cohort, seed: int,
    measured: Mapping[ClientId, Seconds], reported: Mapping[ClientId, Seconds], replayed: Collection[ClientId] = (),
) -> dict[ClientId, Seconds]:  # fmt: skip
    """Return the latency of every client that answered in round ``number``.

    One that ``replayed`` a kept reply did not train, so its round trip says nothing: it is taken at its mean, which
    stays as it is.  With no mean yet it is taken at what it reported, but not below what it would have had otherwise,
    nor below those that did train: nobody gets faster by the claim.
    """
    if not isinstance(latency, str):
        virtual = latency.sample(stream(seed, "flower latency", number))
        rows = cohort.rows(measured)
        return {client: float(virtual[row]) for client, row in zip(measured, rows.tolist(), strict=True)}
    taken = dict(measured)
    if latency == "reported":
        taken = {client: max(min(seconds, reported.get(client, seconds)), _LEAST) for client, seconds in taken.items()}
    again = [client for client in taken if client in replayed]
    slowest = max((seconds for client, seconds in taken.items() if client not in replayed), default=0.0)
    for client, rate in zip(again, cohort.rate[cohort.rows(again)].tolist(), strict=True):
        told = min(reported.get(client, 0.0), _MOST)
        taken[client] = 1.0 / rate if rate > 1.0 / _MOST else max(taken[client], told, slowest)
    return taken


def _within_reason(level: NoiseLevel) -> NoiseLevel:
    """Return a level whose sums, products and quotients with others are finite and above 0."""
    noise, signal = (min(max(value, 1.0 / _LOUDEST), _LOUDEST) for value in (level.noise, level.signal))
    return NoiseLevel(noise, signal)


def _silent(client: ClientId, node: int, reply: Message | None) -> Verdict:
    """Judge what holds no content: nothing at all, or an error."""
    if reply is None:
        return Verdict(client, "no answer", doubted=True)
    refusal = Refusal.of(reply.error)
    # What the SuperLink says in a node's place is that it cannot be reached.
    gone = reply.metadata.src_node_id != node
    fault = "no answer" if gone else "failed" if refusal is None else refusal.why
    detail = f" (Flower's error {reply.error.code}: {reply.error.reason!r:.150})" if refusal is None else ""
    told = None if refusal is None else refusal.releases
    return Verdict(client, fault, detail, clean_error(reply), releases=told, doubted=gone)


def _answered(
    client: ClientId, reply: Message, seconds: Seconds, model: Mapping[str, Tensor], weight: str | None, by_note: bool
) -> Verdict:
    note = Note.of(reply)
    if by_note and note is not None and note.name != str(client):
        return Verdict(client, "unsound", f" (calls itself {note.name!r})", doubted=True)
    if (fault := _fault(reply, model, weight)) is not None:
        return Verdict(client, "unsound", f" ({fault})")
    _conform(reply, model)
    numbers = _numbers(reply.content)
    if note is None:
        return Verdict(client, reply=reply, seconds=seconds, numbers=numbers)
    return Verdict(
        client, reply=reply, seconds=seconds, numbers=numbers,
        reported=note.seconds, releases=note.releases, replayed=note.replayed, level=note.level,
        left=note.left, next_noise=note.next_noise,
    )  # fmt: skip


def _numbers(content: RecordDict) -> dict[str, int | float]:
    """Return the single finite numbers of a reply; what else a client calls a metric cannot be averaged."""
    return {
        name: cast("int | float", value)
        for record in records_in(content, MetricRecord).values()
        for name, value in record.items()
        if is_finite(value)
    }


def _common(told: Sequence[Mapping[str, int | float]]) -> list[dict[str, int | float]]:
    """Return the metrics that all have, and no flood of them: one client alone may decide what they are."""
    shared = [name for name in told[0] if all(name in one for one in told)] if told else []
    kept = [name for name in shared if is_name(name)][:_METRICS]
    if len(kept) < len(shared):
        log(
            WARNING,
            "pausefl: of %s metrics only %s are kept: the first with short, printable names",
            len(shared),
            len(kept),
        )
    return [{name: one[name] for name in kept} for one in told]


def _fault(reply: Message, model: Mapping[str, Tensor], weight: str | None) -> str | None:
    """Say what keeps a reply from being averaged; None if nothing does."""
    arrays = list(records_in(reply.content, ArrayRecord).values())
    metrics = list(records_in(reply.content, MetricRecord).values())
    if len(arrays) != 1 or len(metrics) != 1:
        return f"{len(arrays)} array records and {len(metrics)} metric records, not 1 of each"
    if arrays[0].keys() != model.keys():
        return f"{len(arrays[0])} tensors that are not the model's {len(model)}"
    value = 1.0 if weight is None else metrics[0].get(weight)
    if not is_finite(value) or not 0.0 < cast(float, value) <= _HEAVIEST:
        return f"{weight!r} is {value!r:.40}, not above 0 and at most 2^53"
    try:
        unlike = {name: _unlike(view_of(arrays[0][name]), tensor) for name, tensor in model.items()}
    except Exception:  # whatever bytes a client sent in place of an array
        return "an array that cannot be read"
    return next((f"tensor {name!r:.60} {fault}" for name, fault in unlike.items() if fault), None)


def _unlike(tensor: Tensor, model: Tensor) -> str:
    if tensor.dtype.kind != model.dtype.kind or tensor.dtype.kind not in "fiub" or tensor.shape != model.shape:
        return f"is {tensor.dtype} {tensor.shape}, not {model.dtype} {model.shape}"
    with np.errstate(over="ignore", invalid="ignore"):
        narrowed = tensor.astype(model.dtype, copy=False)
    if tensor.dtype.kind != "f":
        return "" if np.array_equal(narrowed, tensor) else f"holds numbers that are not {model.dtype}"
    return "" if np.isfinite(narrowed).all() else f"holds NaN or infinity, as {model.dtype}"


def _conform(reply: Message, model: Mapping[str, Tensor]) -> None:
    """Bring a sound reply's tensors into the model's order and types: strategies take both from the first reply."""
    key, arrays = next(iter(records_in(reply.content, ArrayRecord).items()))
    # By its bytes and not only by its word: a client may say float32 of an array of float64.
    alike = all(
        arrays[name].dtype == str(tensor.dtype) and view_of(arrays[name]).dtype == tensor.dtype
        for name, tensor in model.items()
    )
    if not alike or list(arrays) != list(model):
        reply.content[key] = record_of(
            {name: view_of(arrays[name]).astype(tensor.dtype) for name, tensor in model.items()}
        )
