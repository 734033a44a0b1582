"""What server and client say to each other in Flower's records: requests, notes, refusals, and arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any, TypeVar, cast, get_args

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.app.message.message import make_message

from pausefl.errors import is_finite, require
from pausefl.owner.data_records import DataRecord
from pausefl.owner.request_and_reply import SECONDS, SENTENCES, Reason, TrainingRequest
from pausefl.privacy.mechanisms.base import NoiseLevel
from pausefl.privacy.mechanisms.tensor_rules import Tensor
from pausefl.system.printable_text import printable

RECORD = "pausefl"
"""The config record that carries a request to the client, and a note back."""
DATA = "pausefl-record"
"""The config record that carries one record of the owner's data to the app."""
METRICS = "metrics"
"""The metric record of a reply."""
REHEARSAL = "query.rehearsal"
"""The type of a message that asks for a rehearsal: Flower takes it to the app's function ``app.query("rehearsal")``."""
REFUSED = 6
"""Flower's code for a mod that could not do what was asked."""

_LONGEST_ERROR = 1000
"""Letters of an error's text that are handed on."""
_MOST_LETTERS, _LONGEST_LAYOUT = 200, 512
"""Bytes of the longest description of a tensor that is remembered."""

_Record = TypeVar("_Record", ArrayRecord, MetricRecord, ConfigRecord)

_PATTERN = re.compile(r"pausefl refuses \(([a-z-]+)\): [^\n]*?(?: \[releases: (\d{1,15})\])?")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a client released nothing, and how often it has in all.

    >>> Refusal.of(Refusal("exhausted", 7).error())
    Refusal(why='exhausted', releases=7)
    """

    why: Reason
    releases: int | None = None

    def error(self) -> Error:
        """Return it as Flower sends it."""
        count = "" if self.releases is None else f" [releases: {self.releases}]"
        return Error(code=REFUSED, reason=f"pausefl refuses ({self.why}): {SENTENCES[self.why]}{count}")

    @staticmethod
    def of(error: Error) -> Refusal | None:
        """Return the refusal that an error carries, if it is one of ours."""
        found = _PATTERN.fullmatch(error.reason or "")
        if error.code != REFUSED or found is None or found[1] not in get_args(Reason):
            return None
        return Refusal(cast(Reason, found[1]), int(found[2]) if found[2] else None)


def clean_error(reply: Message) -> Message:
    """Make the text of an error, which a client chose, one short line: Flower's strategies log it as it is."""
    error = reply.error
    reply.error = Error(error.code, printable(str(error.reason)[:_LONGEST_ERROR]))
    return reply


def request_record(request: TrainingRequest, *, hello: bool = False) -> ConfigRecord:
    """Return a request as Flower sends it; with ``hello`` it only asks who is there."""
    values: dict[str, Any] = {"run": request.run, "round": request.round, "hello": hello}
    values |= {name: v for name in ("epsilon", "clip") if (v := getattr(request, name)) is not None}
    return ConfigRecord(values)


def read_request(message: Message) -> tuple[TrainingRequest, bool]:
    """Return the request in a message, and whether it only asks who is there.

    A server without this package is understood by Flower's own run and round.
    """
    configs = message.content.config_records
    asked: Mapping[str, Any] = configs.get(RECORD, {})
    stray = sorted(set(asked) - {"run", "round", "hello", "epsilon", "clip"})
    require(not stray, "request", stray, "of the known keys only", "install the same pausefl on server and clients")
    number: Any = next((config["server-round"] for config in configs.values() if "server-round" in config), None)
    request = TrainingRequest(
        run=asked.get("run", f"flwr-{message.metadata.run_id}"),
        round=asked.get("round", number),
        action=message.metadata.message_type.partition(".")[2],
        epsilon=asked.get("epsilon"),
        clip=asked.get("clip"),
    )
    return request, asked.get("hello") is True


def is_name(text: str) -> bool:
    """Say whether a node may be called so: names are logged and shown."""
    return 0 < len(text) <= _MOST_LETTERS and text.isprintable()


@dataclass(frozen=True, slots=True)
class Note:
    """What a client adds to a reply: its name, how many releases it has made in all, and seconds, if its owner agrees.

    ``replayed``: these are the bytes of an earlier reply, sent again without training.  ``level``: how loud the arrays
    are, by the owner's file, the epsilon that was charged and the model's dimension.  ``left``: the share of its budget
    that is left.  ``next_noise``: the squared norm of the noise of its next release.  All of it is the client's word,
    and nothing more.
    """

    name: str
    releases: int
    seconds: float | None = None
    replayed: bool = False
    level: NoiseLevel | None = None
    left: float | None = None
    next_noise: float | None = None

    def record(self) -> ConfigRecord:
        """Return it as Flower sends it."""
        values: dict[str, Any] = {"name": self.name, "releases": self.releases}
        values |= {} if self.seconds is None else {SECONDS: self.seconds}
        values |= {"replayed": True} if self.replayed else {}
        values |= {} if self.level is None else asdict(self.level)
        values |= {} if self.left is None else {"left": self.left}
        values |= {} if self.next_noise is None else {"next-noise": self.next_noise}
        return ConfigRecord(values)

    @staticmethod
    def of(message: Message) -> Note | None:
        """Read it from a reply; None if there is none, or none that makes sense."""
        record = message.content.get(RECORD) if message.has_content() else None
        if not isinstance(record, ConfigRecord):
            return None
        found = dict(record.items())
        name, releases, seconds = found.get("name"), found.get("releases"), found.get(SECONDS)
        whole = isinstance(releases, int) and not isinstance(releases, bool) and 0 <= releases < 2**53
        if not isinstance(name, str) or not is_name(name) or not whole:
            return None
        told = float(cast(float, seconds)) if is_finite(seconds) and cast(float, seconds) > 0.0 else None
        loud = [found.get(name) for name in ("noise", "signal")]
        sensible = all(is_finite(value) and cast(float, value) > 0.0 for value in loud)
        level = NoiseLevel(*(float(cast(float, value)) for value in loud)) if sensible else None
        left, ahead = found.get("left"), found.get("next-noise")
        return Note(
            name, cast(int, releases), told, found.get("replayed") is True, level,
            float(cast(float, left)) if is_finite(left) and 0.0 <= cast(float, left) <= 1.0 else None,
            float(cast(float, ahead)) if is_finite(ahead) and cast(float, ahead) > 0.0 else None,
        )  # fmt: skip


def rehearsal_reply(name: str) -> RecordDict:
    """Return the answer to a rehearsal: who it is, and nothing else."""
    return RecordDict({RECORD: ConfigRecord({"name": name})})


def name_in(message: Message | None) -> str | None:
    """Return who answered a rehearsal; None if nobody did."""
    found = message.content.config_records.get(RECORD) if message is not None and message.has_content() else None
    name = None if found is None else found.get("name")
    return name if isinstance(name, str) else None


def with_record(message: Message, record: DataRecord) -> Message:
    """Return a copy of a message to an app, with one record of the owner's data."""
    content = RecordDict({**message.content, DATA: ConfigRecord({"data": record.data, "name": record.name})})
    return make_message(message.metadata, content)


def record_in(message: Message) -> DataRecord | None:
    """Return the one record to train on; None where the owner lets the app read the data by itself.

    For an app that returns what this record adds to the model, in tensors of the model's names and shapes.

    >>> asked = with_record(Message(RecordDict(), 5, "train"), DataRecord(b"71,0.5"))
    >>> record_in(asked).data
    b'71,0.5'
    """
    found = message.content.config_records.get(DATA)
    if found is None:
        return None
    return DataRecord(cast(bytes, found["data"]), cast(str, found["name"]))


def records_in(content: RecordDict, kind: type[_Record]) -> dict[str, _Record]:
    """Return the records of one kind; Flower's own way to them makes a checked copy of each at every look."""
    return {name: record for name, record in content.items() if isinstance(record, kind)}


def arrays_in(content: RecordDict) -> tuple[str, dict[str, Tensor]]:
    """Return key and tensors of the one array record there must be."""
    records = content.array_records
    require(len(records) == 1, "array records", len(records), "exactly 1", "send the model, and nothing else")
    key, record = next(iter(records.items()))
    return key, tensors_of(record)


def tensors_of(record: ArrayRecord) -> dict[str, Tensor]:
    """Return Flower's arrays as numpy tensors by name."""
    return {name: _tensor_of(array) for name, array in record.items()}


def views_of(record: ArrayRecord) -> dict[str, Tensor]:
    """Return Flower's arrays as tensors that can only be read: they lie in the record's own bytes, without a copy."""
    return {name: view_of(array) for name, array in record.items()}


def view_of(array: Array) -> Tensor:
    """Return an array as a tensor in its own bytes, if they are laid out as usual, and else as a copy.

    Bytes that are no tensor are refused, with the same errors as by Flower where Flower refuses them.

    >>> view_of(Array(np.array([1.5, 2.5]))).tolist()
    [1.5, 2.5]
    """
    data = array.data
    start = 10 + int.from_bytes(data[8:10], "little")
    if array.stype != "numpy.ndarray" or not data.startswith(b"\x93NUMPY\x01\x00") or start > _LONGEST_LAYOUT:
        return _tensor_of(array)
    shape, by_column, dtype = _layout(data[:start])
    if by_column or dtype.kind not in "biuf" or min(shape, default=1) < 1:
        return _tensor_of(array)
    size = math.prod(shape)
    if len(data) < start + size * dtype.itemsize:
        return _tensor_of(array)
    return np.frombuffer(data, dtype, size, start).reshape(shape)


def _tensor_of(array: Array) -> Tensor:
    """Return an array as Flower reads it; of a zip file Flower makes something that is no tensor."""
    tensor = array.numpy()
    kind = type(tensor).__name__
    require(isinstance(tensor, np.ndarray), "array", kind, "one tensor", "send each tensor as an array of its own")
    return tensor


@lru_cache(maxsize=256)
def _layout(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return what the first bytes of a tensor in numpy's format say: its shape, order and type."""
    layout: tuple[tuple[int, ...], bool, np.dtype[Any]] = np.lib.format.read_array_header_1_0(BytesIO(head[8:]))
    return layout


def record_of(arrays: Mapping[str, Tensor]) -> ArrayRecord:
    """Return tensors as Flower sends them."""
    return ArrayRecord({name: Array(np.asarray(tensor, order="C")) for name, tensor in arrays.items()})
