"""A scratch copy of an owner's client for the audit: the owner's terms, real messages, and ledgers to throw away."""

from __future__ import annotations

import logging
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
from flwr.app import ArrayRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.supercore.task_identity import TaskIdentity

from pausefl.errors import ConfigError
from pausefl.flower.client import NODE_KEY, App
from pausefl.flower.protocol import RECORD, Refusal, record_of, request_record
from pausefl.owner.ledger_identity import make_ledger
from pausefl.owner.owner_file import Owner
from pausefl.owner.request_and_reply import TrainingRequest
from pausefl.privacy import SqliteLedger
from pausefl.privacy.audit.input_pairs import bounded
from pausefl.privacy.ledger.charge import alone_epsilon
from pausefl.privacy.mechanisms.tensor_rules import Tensor
from pausefl.system.toml_sections import toml_text
from pausefl.types import Epsilon, FloatArray

Mod: TypeAlias = Callable[[Message, Context, App], Message]

_SHAPES = {"weight": (8, 7), "bias": (8,)}
_MODEL = {name: np.zeros(shape) for name, shape in _SHAPES.items()}
_MEMORY = Path("/dev/shm")  # noqa: S108 - only a place for a private folder
"""Where Linux keeps files in memory: thousands of ledgers are made, and none has to last."""
_NODE, _STATE = 5, "XDG_STATE_HOME"

_SCRIPT = (
    ("a training request", "train", TrainingRequest("audit", 1)),
    ("one with wishes", "train", TrainingRequest("audit", 2, epsilon=0.5, clip=0.01)),
    ("a repeated one", "train", TrainingRequest("audit", 1)),
    ("an evaluation", "evaluate", TrainingRequest("audit", 3)),
    ("a query", "query", TrainingRequest("audit", 3)),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered to one message of the script, and the latest time that it can be stamped with."""

    what: str
    asked: Message
    reply: Message
    until: float


class ScratchClient:
    """A scratch client: the owner's terms, and a new ledger whenever one is wanted."""

    def __init__(self, owner: Owner, content: Mapping[str, Any], folder: Path, mod: Mod) -> None:
        self.owner, self.model = owner, dict[str, Tensor](_MODEL)
        self._content, self._folder, self._mod = dict(content), folder, mod
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
        """Return what the ledger charges for a first release by itself."""
        self.renew()
        self.released(self._idle, 1)
        charge = SqliteLedger(self._file.with_name("ledger.db")).charges(self.owner.name)[0]
        return float(alone_epsilon(charge, self.owner.mechanism))

    def trial(self, updates: Sequence[FloatArray]) -> FloatArray:
        """Release updates one after the other from an empty ledger, or from several where one is exhausted."""
        self.renew()
        return np.stack([self.released(self._app(update), number) for number, update in enumerate(updates, 1)])

    def _idle(self, message: Message, context: Context) -> Message:
        """Answer as an app that learns nothing."""
        rows = {name: np.zeros((1, *tensor.shape), tensor.dtype) for name, tensor in self.model.items()}
        return Message(RecordDict({"arrays": record_of(rows if self.owner.rows else self.model)}), reply_to=message)

    def _app(self, update: FloatArray) -> App:
        """Return an app that trained this; where the owner lets apps clip, one that does it well."""
        if update.ndim == 2 and not self.owner.rows:
            update = bounded(update, self.owner.mechanism.guarantee, self.owner.examples)
        return lambda message, context: trained(message, update)

    def answers(self, app: App) -> Iterator[Answer]:
        """Send all kinds of messages to an app from an empty ledger, and tell what is answered to each."""
        self.renew()
        for what, kind, request in _SCRIPT:
            asked, context = self.message(kind, request)
            yield Answer(what, asked, self._sent(app, asked, context), time.time())

    def released(self, app: App, number: int) -> FloatArray:
        """Return what is released of this app's training, less the model."""
        request = TrainingRequest("audit", number)
        reply = self._answer(app, "train", request)
        if reply.has_error():
            self.renew()
            reply = self._answer(app, "train", request)
        if reply.has_error():
            refusal = Refusal.of(reply.error)
            why = refusal.why if refusal else "an error"
            raise ConfigError(f"the client answers nothing: {why}; run 'pausefl owner check' on its file")
        return np.concatenate(
            [np.ravel(array.numpy() - self.model[name].astype(float)) for name, array in arrays_of(reply).items()]
        )

    def message(self, kind: str, request: TrainingRequest) -> tuple[Message, Context]:
        """Return a message with the model as a server sends it, and what Flower knows of the node."""
        content = RecordDict({"arrays": record_of(self.model), RECORD: request_record(request)})
        message = Message(content, _NODE, kind)
        message.metadata.__dict__["_message_id"] = f"{kind}-{request.release}"
        node: dict[str, Any] = {NODE_KEY: str(self._file)}
        return message, Context(run_id=1, node_id=_NODE, node_config=node, state=RecordDict(), run_config={})

    def _answer(self, app: App, kind: str, request: TrainingRequest) -> Message:
        return self._sent(app, *self.message(kind, request))

    def _sent(self, app: App, message: Message, context: Context) -> Message:
        """Return what Flower sends back; of what is raised past the mod it sends kind and text."""
        flower = ClientApp(mods=[self._mod])
        for register in (flower.train, flower.evaluate, flower.query):
            register()(app)
        try:
            return flower(message, context)
        except Exception as error:
            told = f"{type(error)}:<'{error}'>"
            return Message(Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=told), reply_to=message)


def trained(message: Message, update: FloatArray) -> Message:
    """Return an app's answer with this update of a model of zeros, or with a table of rows."""
    parts = np.split(update, np.cumsum([math.prod(shape) for shape in _SHAPES.values()])[:-1], axis=-1)
    arrays = {
        name: part.reshape(*update.shape[:-1], *shape)
        for (name, shape), part in zip(_SHAPES.items(), parts, strict=True)
    }
    return Message(RecordDict({"arrays": record_of(arrays)}), reply_to=message)


def unreadable(message: Message, context: Context) -> Message:
    """Fail, as an app does that cannot read its data."""
    raise ValueError("this record cannot be read")


def arrays_of(reply: Message) -> ArrayRecord:
    """Return the arrays of a reply."""
    return next(iter(reply.content.array_records.values()))


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder, and keep the client's log and its notes out of the user's sight while it is there.

    A client logs every training that fails, as it should, and notes every ledger in the user's state folder.
    """
    log, state = logging.getLogger("flwr"), os.environ.get(_STATE)
    with TemporaryDirectory(prefix="pausefl-audit-", dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        before, log.handlers, log.propagate = (log.handlers, log.propagate), [logging.NullHandler()], False
        os.environ[_STATE] = folder
        try:
            yield Path(folder)
        finally:
            log.handlers, log.propagate = before
            os.environ.pop(_STATE)
            if state is not None:
                os.environ[_STATE] = state
