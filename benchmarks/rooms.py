"""What it costs to run an app on each record in a room of its own, against a bare fork: the least that a process takes.

The difference of two numbers of records counts, so that loading Python and Flower, once for each training, does not.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from benchmarks.measure import Figure, medians, show
from pausefl.flower.node.box import Box
from pausefl.flower.node.bundle import load_bundle
from pausefl.flower.node.record_rooms import rows_from_rooms
from pausefl.owner.data_records import DataRecords

FEW, MANY = 20, 120
APP = {
    "pyproject.toml": """
[project]
name = "each"
version = "1.0"
dependencies = []

[tool.flwr.app]
publisher = "benchmarks"

[tool.flwr.app.components]
serverapp = "each.server:app"
clientapp = "each.client:app"
""",
    "each/__init__.py": "",
    "each/server.py": "from flwr.serverapp import ServerApp\n\napp = ServerApp()\n",
    "each/client.py": """
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message, context):
    return Message(RecordDict({"arrays": message.content["arrays"]}), reply_to=message)
""",
}


def main() -> bool:
    """Measure; nothing is asked."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    with tempfile.TemporaryDirectory() as folder:
        for name, text in APP.items():
            Path(folder, name).parent.mkdir(exist_ok=True)
            Path(folder, name).write_text(text)
        bundle = load_bundle(Path(folder)).content
        few, many, forks = medians(
            lambda: rooms(bundle, Path(folder, "few"), FEW),
            lambda: rooms(bundle, Path(folder, "many"), MANY),
            lambda: bare_forks(MANY),
            repeats=3,
        )
    each, fork = (many - few) / (MANY - FEW), forks / MANY
    return show(
        "rooms for records",
        [
            Figure("seconds for a record, in a room", f"{each:.4f}"),
            Figure("seconds for a bare fork", f"{fork:.4f}"),
            Figure("a room / a bare fork", f"{each / fork:.1f}"),
            Figure("seconds before the first record", f"{few - FEW * each:.2f}"),
        ],
    )


def rooms(bundle: bytes, path: Path, count: int) -> None:
    """Train on so many records."""
    path.write_text("1\n" * count)
    model = {"w": np.zeros(2410, dtype=np.float32)}
    message = Message(RecordDict({"arrays": ArrayRecord({"w": Array(model["w"])})}), 5, "train")
    context = Context(run_id=1, node_id=5, node_config={}, state=RecordDict(), run_config={})
    with DataRecords(path) as records:
        for _ in rows_from_rooms(Box(), bundle, message, context, model, records, began=time.time(), end=math.inf):
            pass


def bare_forks(count: int) -> None:
    """Start so many processes that end at once."""
    for _ in range(count):
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
