"""Real owner's files, ledgers and messages; the app under the mod is a few lines of numpy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity

import pausefl
from pausefl.flower import PauseStrategy, PrivateUpdate
from pausefl.flower.protocol import Note
from pausefl.flower.server.timed_grid import TimedGrid
from pausefl.flower.testing import MemoryGrid
from pausefl.owner.ledger_identity import make_ledger
from pausefl.privacy import FixedHorizon, SqliteLedger

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
examples = 17
"""
SIMULATED = "simulation = true\n" + OWNER.replace("examples = 17", 'allow = ["num-examples"]')
"""One file for all clients of a simulation, in which numbers of the app may leave."""


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
        return SqliteLedger(self.folder / "ledger.db")

    @property
    def name(self) -> str:
        return f"client-{self.number}"

    @property
    def charges(self) -> int:
        return len(self.ledger.charges(self.name))

    def write(self, text: str) -> None:
        """Write the owner's file; that of a deployment quotes its ledger, which is made with the first one."""
        if "simulation" not in text and "ledger_id" not in text:
            ledger = self.folder / "ledger.db"
            made = SqliteLedger(ledger) if ledger.exists() else make_ledger(ledger)
            text = f'ledger_id = "{made.id}"\n' + text.replace("{partition-id}", str(self.number))
        (self.folder / "owner.toml").write_text(text)
        (self.folder / "owner.toml").chmod(0o600)

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
    numbers = MetricRecord({"num-examples": 40, "loss": 0.123456789})
    return Message(RecordDict({"arrays": record(arrays), "metrics": numbers}), reply_to=message)


def selector(count: int = 5, per_round: int = 2, **more):
    more.setdefault("schedule", FixedHorizon(8.0, 4))
    return pausefl.Selector({f"client-{n}": 10.0 * (n + 1) for n in range(count)}, per_round, **more)


def inner(**more) -> FedAvg:
    return FedAvg(fraction_evaluate=0.0, **more)


def wrapped(inside=None, chooser=None, **more) -> PauseStrategy:
    return PauseStrategy(inside or inner(), chooser or selector(), **{"poll": 0.001, "wait": 0.2, **more})


def as_float32(reply: Message) -> Message:
    """As torch apps reply, whatever they were sent."""
    arrays = reply.content.array_records["arrays"]
    for name in arrays:
        arrays[name] = Array(arrays[name].numpy().astype(np.float32))
    return reply


def grid_of(clients) -> MemoryGrid:
    return MemoryGrid({100 + client.number: client.answer for client in clients})


def trained_by(grid: MemoryGrid) -> list[list[int]]:
    """Who was asked to train in each round, as the grid saw it."""
    rounds: dict[int, list[int]] = {}
    for message in grid.sent:
        record = message.content.config_records["pausefl"]
        if not record["hello"]:
            rounds.setdefault(record["round"], []).append(message.metadata.dst_node_id - 100)
    return [sorted(rounds[number]) for number in sorted(rounds)]


def hello_only(grid, node, otherwise):
    """Let a node answer who it is, and training in another way."""
    honest = grid.nodes[node]

    def answer(message: Message):
        hello = message.content.config_records["pausefl"]["hello"]
        return honest(message) if hello else otherwise(message)

    grid.nodes[node] = answer


def broken(message: Message) -> Message:
    return Message(Error(code=9, reason="no mod here"), reply_to=message)


class CrashError(Exception):
    pass


def crashing(grid: MemoryGrid, number: int) -> MemoryGrid:
    """The server dies in round ``number``, after its clients have been asked and have answered."""
    real = grid.pull_messages

    def pull(message_ids):
        replies = list(real(message_ids))
        asked = grid.sent[-1].content.config_records["pausefl"]
        if asked["round"] == number:
            raise CrashError
        return replies

    grid.pull_messages = pull
    return grid


class Clock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def after(clock: Clock, seconds: float, make=lambda message: Message(RecordDict(), reply_to=message)):
    """A node that answers so long after it was first asked."""
    asked: dict[str, float] = {}

    def node(message: Message) -> Message | None:
        start = asked.setdefault(message.metadata.message_id, clock())
        return make(message) if clock() - start >= seconds else None

    return node


def timed(nodes, clock, **infos):
    return TimedGrid(MemoryGrid(nodes, **infos), poll=0.1, clock=clock, sleep=clock.sleep)


def train(*nodes: int) -> list[Message]:
    return [Message(RecordDict(), node, "train") for node in nodes]


def named(name: str, releases: int = 0):
    def node(message: Message) -> Message:
        assert message.content.config_records["pausefl"]["hello"] is True
        return Message(RecordDict({"pausefl": Note(name, releases).record()}), reply_to=message)

    return node


@pytest.fixture
def start() -> ArrayRecord:
    return record(model())


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
        SIMULATED = SIMULATED
        Client = Client
        record = staticmethod(record)
        model = staticmethod(model)
        request = staticmethod(request)
        trained = staticmethod(trained)
        selector = staticmethod(selector)
        inner = staticmethod(inner)
        wrapped = staticmethod(wrapped)
        as_float32 = staticmethod(as_float32)
        grid_of = staticmethod(grid_of)
        trained_by = staticmethod(trained_by)
        hello_only = staticmethod(hello_only)
        broken = staticmethod(broken)
        CrashError = CrashError
        crashing = staticmethod(crashing)
        Clock = Clock
        after = staticmethod(after)
        timed = staticmethod(timed)
        train = staticmethod(train)
        named = staticmethod(named)

    return Tools
