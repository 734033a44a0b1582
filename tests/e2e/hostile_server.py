"""A server app that wants more than it is owed: takes the place of the example's, in front of the same client app."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from digits_app.task import SHAPE
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

app = ServerApp()
VICTIM = "client-3"


def asked(node: int, model: ArrayRecord, kind: str = "train", **request: object) -> Message:
    greedy = {"server-round": 1, "epsilon": 1e9, "budget": 1e9, "clip": 1e9, "schedule": "none", "allow": ["loss"]}
    content = {"arrays": model, "config": ConfigRecord(greedy)}
    if request:
        content["pausefl"] = ConfigRecord(request)
    return Message(RecordDict(content), node, kind)


def pulled(grid: Grid, messages: list[Message], seconds: float) -> list[Message | None]:
    ids = list(grid.push_messages(messages))
    found: dict[str, Message] = {}
    end = time.monotonic() + seconds
    while len(found) < len(ids) and time.monotonic() < end:
        for reply in grid.pull_messages([number for number in ids if number not in found]):
            found[reply.metadata.reply_to_message_id] = reply
        time.sleep(0.1)
    return [found.get(number) for number in ids]


def victim(grid: Grid) -> int:
    end = time.monotonic() + 180
    while time.monotonic() < end:
        nodes = list(grid.get_node_ids())
        hello = [asked(node, ArrayRecord(), run="x", round=0, hello=True) for node in nodes]
        for node, reply in zip(nodes, pulled(grid, hello, 60), strict=True):
            if reply is not None and reply.has_content() and reply.content["pausefl"]["name"] == VICTIM:
                return node
    raise RuntimeError("the victim does not answer")


@app.main()
def main(grid: Grid, context: Context) -> None:
    node = victim(grid)
    model, other = (ArrayRecord([np.full(SHAPE, value, dtype=np.float32)]) for value in (0.0, 1.0))
    first = [("first", asked(node, model, run="h", round=1, epsilon=1e9, clip=1e9))]
    more = [
        ("replay", asked(node, model, run="h", round=1, epsilon=1e9, clip=1e9)),
        ("other content", asked(node, other, run="h", round=1)),
        ("evaluate", asked(node, model, "evaluate")),
        ("no name", asked(node, model)),
        ("new run", asked(node, model, run="h2", round=1)),
        ("new round", asked(node, model, run="h", round=2)),
    ]
    told = []
    for batch in (first, more):
        replies = pulled(grid, [message for _, message in batch], 240)
        for (what, _), reply in zip(batch, replies, strict=True):
            entry: dict[str, object] = {"what": what, "error": None, "update": None, "metrics": None}
            if reply is None:
                entry["error"] = "no answer"
            elif reply.has_error():
                entry["error"] = reply.error.reason
            else:
                records = reply.content.array_records
                entry["records"] = [list(reply.content.array_records), list(reply.content)]
                entry["update"] = [
                    float(x) for record in records.values() for name, array in record.items()
                    for x in (array.numpy() - model[name].numpy()).ravel()
                ]  # fmt: skip
                entry["metrics"] = {k: v for r in reply.content.metric_records.values() for k, v in r.items()}
            told.append(entry)
    print("norms", [float(np.linalg.norm(entry["update"])) for entry in told if entry["update"]])
    Path(str(context.run_config["checkpoint"])).write_text(json.dumps(told))
