"""The audit of a whole client: real Flower messages to a scratch copy of an owner's client, entire replies compared.

The owner's terms are used as they are, but with ledgers of their own in a temporary folder: the owner's ledger is never
opened.  Apps stand for data sets.  For a given request, two data sets may differ in the noised arrays and in nothing
else; the arrays go through the attacks of :mod:`pausefl.privacy.audit`, against the epsilon that the ledger charged.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_to_proto
from flwr.supercore.task_identity import TaskIdentity

from pausefl.errors import ConfigError
from pausefl.flower.client import NODE_KEY, App, PrivateUpdate
from pausefl.flower.protocol import RECORD, Refusal, record_of, request_record
from pausefl.owner.ledger_identity import make_ledger
from pausefl.owner.owner_file import Owner, read_owner
from pausefl.owner.request_and_reply import TrainingRequest
from pausefl.privacy import SecureNoise, SqliteLedger
from pausefl.privacy.audit import Audit, attack, bound_for
from pausefl.privacy.audit.input_pairs import MANY
from pausefl.system.toml_sections import read_toml, toml_text
from pausefl.types import Epsilon, FloatArray

Mod: TypeAlias = Callable[[Message, Context, App], Message]

_TRIALS = 60
"""Trials by which each pair of updates is tried at least; every one takes a ledger of its own."""
_SHAPES = {"weight": (8, 7), "bias": (8,)}
_MEMORY = Path("/dev/shm")  # noqa: S108 - only a place for a private folder
"""Where Linux keeps files in memory: thousands of ledgers are made, and none has to last."""
_NODE, _STATE = 5, "XDG_STATE_HOME"


def audit_client(path: Path, *, runs: int = 4000, error: float = 0.01, mod: Mod | None = None) -> list[Audit]:
    """Attack the client that this owner's file describes; the first finding is about replies, the second about arrays.

    If the replies tell something there is no second: no noise would make good for that.  ``mod`` is what stands between
    messages and app.
    """
    path = path.absolute()
    owner = read_owner(path)
    if owner.simulation:
        raise ConfigError(f"{path}: simulation is true, and lets out numbers on purpose; audit a deployment's file")
    with (
        TemporaryDirectory(prefix="pausefl-audit-", dir=_MEMORY if _MEMORY.is_dir() else None) as folder,
        _apart(folder),
    ):
        client = _Client(owner, read_toml(path), Path(folder), mod or PrivateUpdate())
        # The mechanism is at its loudest where the schedule is: the first release.
        epsilon = client.epsilon()
        leak = _difference(client)

        def found(source: str, lower: Epsilon, most: Epsilon, event: str) -> Audit:
            delta, name = owner.mechanism.guarantee.delta, f"client of {path.name}, {owner.mechanism!r}"
            return Audit(name, source, SecureNoise.private, epsilon, delta, lower, most, event, runs, error)

        lower = math.inf if leak else 0.0
        replies = found("whole replies", lower, math.inf, leak or "nothing but noised arrays differs")
        if leak:
            return [replies]
        guarantee, bound = owner.mechanism.guarantee, bound_for(owner.mechanism)
        arrays = attack(
            client.trial, guarantee, bound, runs=runs, error=error, low_bits=True, sizes=(MANY,), least=_TRIALS
        )
        return [replies, found("noised arrays", *arrays)]


class _Client:
    """A scratch client: the owner's terms, and a new ledger whenever one is wanted."""

    def __init__(self, owner: Owner, content: Mapping[str, Any], folder: Path, mod: Mod) -> None:
        self._name, self._content, self._folder, self._mod = owner.name, dict(content), folder, mod
        self._made, self._file = 0, folder
        # Flower stamps every message with the task of its process; here there is none.
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

    def renew(self) -> None:
        """Begin again with an empty ledger."""
        shutil.rmtree(self._folder / str(self._made), ignore_errors=True)
        self._made += 1
        place = self._folder / str(self._made)
        place.mkdir(mode=0o700)
        self._file, ledger = place / "owner.toml", make_ledger(place / "ledger.db")
        self._file.touch(mode=0o600)
        self._file.write_text(toml_text({**self._content, "ledger": ledger.path.name, "ledger_id": ledger.id}))

    def epsilon(self) -> Epsilon:
        """Return what the ledger charges for a first release."""
        self.renew()
        self._released(np.zeros(MANY), 1)
        return float(SqliteLedger(self._file.with_name("ledger.db")).charges(self._name)[0].epsilon)

    def trial(self, updates: Sequence[FloatArray]) -> FloatArray:
        """Release updates one after the other from an empty ledger, or from several where one is exhausted."""
        self.renew()
        return np.stack([self._released(update, number) for number, update in enumerate(updates, 1)])

    def answers(self, app: App) -> Iterator[tuple[str, Message]]:
        """Send all kinds of messages to an app from an empty ledger, and tell what is answered to each."""
        self.renew()
        for name, kind, request in _SCRIPT:
            yield name, self._answer(app, kind, request)

    def _released(self, update: FloatArray, number: int) -> FloatArray:
        def app(message: Message, context: Context) -> Message:
            return _trained(message, update)

        request = TrainingRequest("audit", number)
        reply = self._answer(app, "train", request)
        if reply.has_error():
            self.renew()
            reply = self._answer(app, "train", request)
        if reply.has_error():
            refusal = Refusal.of(reply.error)
            why = refusal.why if refusal else "an error"
            raise ConfigError(f"the client answers nothing: {why}; run 'pausefl owner check' on its file")
        return np.concatenate([array.numpy().ravel() for array in _arrays(reply).values()])

    def _answer(self, app: App, kind: str, request: TrainingRequest) -> Message:
        model = {name: np.zeros(shape) for name, shape in _SHAPES.items()}
        content = RecordDict({"arrays": record_of(model), RECORD: request_record(request)})
        message = Message(content, _NODE, kind)
        message.metadata.__dict__["_message_id"] = f"{kind}-{request.release}"
        flower = ClientApp(mods=[self._mod])
        for register in (flower.train, flower.evaluate, flower.query):
            register()(app)
        node: dict[str, Any] = {NODE_KEY: str(self._file)}
        return flower(message, Context(run_id=1, node_id=_NODE, node_config=node, state=RecordDict(), run_config={}))


_SCRIPT = (
    ("a training request", "train", TrainingRequest("audit", 1)),
    ("one with wishes", "train", TrainingRequest("audit", 2, epsilon=0.5, clip=0.01)),
    ("a repeated one", "train", TrainingRequest("audit", 1)),
    ("an evaluation", "evaluate", TrainingRequest("audit", 3)),
    ("a query", "query", TrainingRequest("audit", 3)),
)


def _difference(client: _Client) -> str:
    """Return in words where two data sets differ in more than noised arrays, or a repeated reply in anything at all."""
    plain: list[bytes] = []
    for name, app in _apps().items():
        answers = list(client.answers(app))
        first, again = (_bytes(answers[number][1]) for number in (0, 2))
        seen = [_without_noise(reply) for _, reply in answers]
        plain = plain or seen
        for (what, _), ours, theirs in zip(answers, plain, seen, strict=True):
            if ours != theirs:
                return f"the answer to {what} tells data that is {name!r} from ordinary data"
        if again and again != first:
            return "a repeated request gets other arrays than the first time"
    return ""


def _apps() -> dict[str, App]:
    """Return apps as data sets would make them behave: ordinary first."""
    update = np.linspace(-1.0, 1.0, MANY)

    def trained(change: float = 1.0, examples: int = 10, **numbers: float) -> App:
        numbers |= {"num-examples": examples}

        def app(message: Message, context: Context) -> Message:
            if message.metadata.message_type != "train":
                return Message(RecordDict({"metrics": MetricRecord(dict(numbers))}), reply_to=message)
            reply = _trained(message, update * change)
            reply.content["metrics"] = MetricRecord(dict(numbers))
            return reply

        return app

    def raising(message: Message, context: Context) -> Message:
        raise ValueError("this record cannot be read")

    def shapeless(message: Message, context: Context) -> Message:
        return Message(RecordDict({"arrays": ArrayRecord({"weight": Array(np.zeros(3))})}), reply_to=message)

    def talking(message: Message, context: Context) -> Message:
        reply = trained()(message, context)
        reply.content["more"] = ConfigRecord({"labels": [1, 2, 3]})
        return reply

    def erring(message: Message, context: Context) -> Message:
        return Message(Error(code=9, reason="no data"), reply_to=message)

    return {
        "ordinary": trained(), "large": trained(examples=9999), "hard": trained(loss=7.25),
        "empty": trained(examples=0), "without news": trained(0.0), "opposite": trained(-1.0),
        "far out": trained(1e200),
        "too much for training": trained(math.nan), "unreadable": raising, "of another shape": shapeless,
        "talkative": talking, "missing": erring,
    }  # fmt: skip


def _trained(message: Message, update: FloatArray) -> Message:
    parts = np.split(update, np.cumsum([math.prod(shape) for shape in _SHAPES.values()])[:-1])
    arrays = {name: part.reshape(shape) for (name, shape), part in zip(_SHAPES.items(), parts, strict=True)}
    return Message(RecordDict({"arrays": record_of(arrays)}), reply_to=message)


def _arrays(reply: Message) -> ArrayRecord:
    return next(iter(reply.content.array_records.values()))


def _bytes(reply: Message) -> list[bytes]:
    return [array.data for array in _arrays(reply).values()] if reply.has_content() else []


def _without_noise(reply: Message) -> bytes:
    """Return all that Flower sends of a reply, with zeros in place of noised numbers and of the clock."""
    if reply.has_content():
        for record in reply.content.array_records.values():
            for name, array in record.items():
                record[name] = Array(np.zeros_like(array.numpy()))
    proto = message_to_proto(reply)
    proto.metadata.created_at = proto.metadata.ttl = 0.0
    return bytes(proto.SerializeToString(deterministic=True))


@contextmanager
def _apart(folder: str) -> Iterator[None]:
    """Keep the client's log and its notes to itself.

    It logs every training that fails, as it should, and notes every ledger in the user's state folder.
    """
    log, state = logging.getLogger("flwr"), os.environ.get(_STATE)
    before, log.disabled = log.disabled, True
    os.environ[_STATE] = folder
    try:
        yield
    finally:
        log.disabled = before
        os.environ.pop(_STATE)
        if state is not None:
            os.environ[_STATE] = state
