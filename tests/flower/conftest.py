"""Real owner's files, ledgers and messages; the app under the mod is a few lines of numpy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from pausefl.flower import PrivateUpdate
from pausefl.privacy import SqliteLedger

OWNER = """
name = "client-{partition-id}"

[schedule]
kind = "fixed-horizon"
budget = 8.0
releases = 4

[mechanism]
kind = "privunit"
l2 = 1.0

[replies]
allow = ["num-examples"]
"""


def record(arrays: dict[str, np.ndarray]) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


def model() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"w": rng.normal(size=(4, 3)).astype(np.float32), "b": np.zeros(3, dtype=np.float32)}


@dataclass
class Client:
    """One data owner: a folder, a mod and an app; ``ask`` sends a message through, as a SuperNode would."""

    folder: Path
    number: int = 0
    app: Callable[[Message, Context], Message] | None = None
    seen: list[Message] = field(default_factory=list)

    @property
    def ledger(self) -> SqliteLedger:
        return SqliteLedger(self.folder / "ledger.db", create=False)

    @property
    def name(self) -> str:
        return f"client-{self.number}"

    @property
    def charges(self) -> int:
        return len(self.ledger.charges(self.name)) if (self.folder / "ledger.db").exists() else 0

    def write(self, text: str) -> None:
        (self.folder / "owner.toml").write_text(text)

    def context(self) -> Context:
        config = {"partition-id": self.number, "pausefl-owner": str(self.folder / "owner.toml")}
        return Context(run_id=1, node_id=5, node_config=config, state=RecordDict(), run_config={})

    def answer(self, message: Message) -> Message:
        def seen(msg: Message, context: Context) -> Message:
            self.seen.append(msg)
            return (self.app or trained)(msg, context)

        return PrivateUpdate()(message, self.context(), seen)

    def ask(self, **asked: Any) -> Message:
        return self.answer(request(**asked))


_numbers = itertools.count(1)
# Flower stamps messages with the process's task; a test has none.
TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


def request(
    *, run: Any = "run", round: Any = 1, kind: str = "train", node: int = 5,  # noqa: A002
    arrays: dict[str, np.ndarray] | None = None, config: dict[str, Any] | None = None,
    more: dict[str, Any] | None = None,
) -> Message:  # fmt: skip
    content: dict[str, Any] = {"arrays": record(model() if arrays is None else arrays)}
    if config is not None:
        content["config"] = ConfigRecord(config)
    if run is not None:
        content["pausefl"] = ConfigRecord({"run": run, "round": round, **(more or {})})
    message = Message(RecordDict(content), node, kind)
    message.metadata.__dict__["_message_id"] = f"message-{next(_numbers)}"
    return message


def trained(message: Message, context: Context) -> Message:
    """Add one to every number."""
    arrays = {name: array.numpy() + 1 for name, array in message.content.array_records["arrays"].items()}
    numbers = MetricRecord({"num-examples": 17, "loss": 0.123456789})
    return Message(RecordDict({"arrays": record(arrays), "metrics": numbers}), reply_to=message)


@pytest.fixture
def client(tmp_path: Path) -> Client:
    made = Client(tmp_path)
    made.write(OWNER)
    return made


@pytest.fixture
def clients(tmp_path: Path) -> list[Client]:
    """Five owners with a folder each."""
    made = []
    for number in range(5):
        (tmp_path / str(number)).mkdir()
        made.append(Client(tmp_path / str(number), number))
        made[-1].write(OWNER)
    return made


@pytest.fixture
def tools() -> Any:
    class Tools:
        OWNER = OWNER
        Client = Client
        record = staticmethod(record)
        model = staticmethod(model)
        request = staticmethod(request)
        trained = staticmethod(trained)

    return Tools
