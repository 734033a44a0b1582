"""Apps as folders, built as Flower builds them; an owner's folder; a guard around them."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import indent
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.common.serde import recorddict_from_proto
from flwr.proto.recorddict_pb2 import RecordDict as RecordBytes
from flwr.supercore.task_identity import TaskIdentity

from pausefl.flower.node.box import Box
from pausefl.flower.node.bundle import Bundle, load_bundle
from pausefl.flower.node.guard import Guard
from pausefl.flower.node.kept_state import state_in
from pausefl.flower.node.reviewed_apps import FILE, ReviewedApps
from pausefl.owner.owner_init import init_owner
from pausefl.privacy import SqliteLedger

collect_ignore = ["hostile_client.py"]
HOSTILE = Path(__file__).with_name("hostile_client.py")

CONFIG = """
[project]
name = "{name}"
version = "{version}"
dependencies = []

[tool.flwr.app]
publisher = "tests"

[tool.flwr.app.components]
serverapp = "tried.server:app"
clientapp = "tried.client:app"

[tool.flwr.app.config]
"""
HEAD = """
import os, sys, time
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()

def changed(message, by=0.5):
    arrays = message.content.array_records["arrays"]
    return ArrayRecord({name: Array((array.numpy() + by).astype(np.float32)) for name, array in arrays.items()})

def answer(message, record, **numbers):
    content = {"arrays": record, "metrics": MetricRecord({"num-examples": 17, **numbers})}
    return Message(RecordDict(content), reply_to=message)
"""
PLAIN = (
    HEAD
    + """
@app.train()
def train(message, context):
    return answer(message, changed(message), loss=0.25)
"""
)


def write_app(folder: Path, client: str, *, name: str = "tried", version: str = "1.0", settings: str = "") -> Path:
    (folder / "tried").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(CONFIG.format(name=name, version=version) + settings)
    (folder / "tried" / "__init__.py").write_text("")
    (folder / "tried" / "client.py").write_text(client)
    (folder / "tried" / "server.py").write_text("from flwr.serverapp import ServerApp\n\napp = ServerApp()\n")
    return folder


def train_in(body: str) -> str:
    """The code of an app whose training is this."""
    lines = indent(body, "    ")
    return f"{HEAD}\n@app.train()\ndef train(message, context):\n{lines}\n"


def model() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"w": rng.normal(size=(20, 10)).astype(np.float32), "b": np.zeros(10, dtype=np.float32)}


# Flower stamps messages with the process's task; a test has none.
TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
_numbers = itertools.count(1)


def request(number: int = 1, kind: str = "train") -> Message:
    arrays = ArrayRecord({name: Array(array) for name, array in model().items()})
    asked = ConfigRecord({"run": "run", "round": number})
    message = Message(RecordDict({"arrays": arrays, "pausefl": asked}), 5, kind)
    message.metadata.__dict__["_message_id"] = f"message-{next(_numbers)}"
    return message


def update(reply: Message) -> np.ndarray:
    arrays = reply.content.array_records["arrays"]
    return np.concatenate([(arrays[name].numpy() - array).ravel() for name, array in model().items()])


@dataclass
class Node:
    """One owner's folder, list and guard; ``ask`` sends a message to an app, as a SuperNode's task would."""

    folder: Path
    guard: Guard

    def __post_init__(self) -> None:
        self.context = Context(run_id=1, node_id=5, node_config={}, state=RecordDict(), run_config={})

    @property
    def apps(self) -> ReviewedApps:
        return ReviewedApps(self.guard.reviewed)

    @property
    def charges(self) -> int:
        return len(SqliteLedger(self.folder / "ledger.db").charges("clinic"))

    def app(self, client: str = PLAIN, **more: str) -> Bundle:
        """Write an app and put it on the list."""
        bundle = load_bundle(write_app(self.folder.parent / f"app-{next(_numbers)}", client, **more))
        self.apps.add(bundle)
        return bundle

    def ask(self, bundle: bytes, number: int = 1, kind: str = "train") -> Message:
        return self.guard.answer(bundle, request(number, kind), self.context)

    def limited(self, **more: object) -> Node:
        return Node(self.folder, replace(self.guard, box=replace(self.guard.box, **more)))


def state_of(node: Node) -> RecordDict:
    """What the app would find in its context: it is kept as bytes."""
    [(_, record)] = node.context.state.items()
    kept = state_in(node.context.state, record["pausefl-state-of"])
    return recorddict_from_proto(RecordBytes.FromString(kept))


def make_owner(folder: Path, **terms: Any) -> Path:
    init_owner(folder, "clinic", **terms)
    return folder / "owner.toml"


def node_of(owner: Path) -> Node:
    guard = Guard(owner=owner, reviewed=owner.with_name(FILE), box=Box(hidden=(owner.parent,)))
    return Node(owner.parent, guard)


UNSHARE = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "true"]


def need_namespaces() -> None:
    """Skip where the machine has no namespaces; asked of another program, so that a broken box is no reason."""
    if not shutil.which("unshare") or subprocess.run(UNSHARE, capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no user namespaces, so there is no box to test")


@pytest.fixture(scope="session", autouse=True)
def namespaces() -> None:
    need_namespaces()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return node_of(make_owner(tmp_path / "owner"))


@pytest.fixture(scope="session")
def kit() -> ModuleType:
    """This module: tests have no other way to import it."""
    return sys.modules[__name__]
