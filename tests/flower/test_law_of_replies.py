"""Through Flower's own ClientApp: for a given request, ledger and kept replies, all but noise and time is the same."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import context_to_proto, message_to_proto

from pausefl.flower import PrivateUpdate
from pausefl.flower.simulation import simulated


def whole(reply: Message) -> bytes:
    """Return all that Flower sends of a reply, with zeros in place of noised numbers and of the clock."""
    if reply.has_content():
        for record in reply.content.array_records.values():
            for name, array in record.items():
                record[name] = Array(np.zeros_like(array.numpy()))
    proto = message_to_proto(reply)
    proto.metadata.created_at = proto.metadata.ttl = 0.0
    return bytes(proto.SerializeToString(deterministic=True))


def told(tools: Any, reply: Message, **records: Any) -> Message:
    """Return the reply with these records changed; None leaves one out."""
    for name, record in records.items():
        reply.content.pop(name, None)
        if record is not None:
            reply.content[name] = record
    return reply


def raising(error: BaseException) -> Any:
    def app(msg: Message, context: Context) -> Message:
        raise error

    return app


def apps(tools: Any) -> dict[str, Any]:
    def app(change: Any) -> Any:
        return lambda msg, context: change(tools.trained(msg, context), msg, context)

    def arrays(**more: Any) -> Any:
        def change(reply: Message, msg: Message, context: Context) -> Message:
            found = {name: array.numpy() for name, array in reply.content.array_records["arrays"].items()} | more
            return told(tools, reply, arrays=tools.record({k: v for k, v in found.items() if v is not None}))

        return app(change)

    def records(**more: Any) -> Any:
        return app(lambda reply, msg, context: told(tools, reply, **more))

    def vandal(reply: Message, msg: Message, context: Context) -> Message:
        for name in list(msg.content):
            del msg.content[name]
        msg.metadata.__dict__.update(_group_id="SECRET", _run_id=42, _dst_node_id=42)
        reply.metadata.__dict__.update(_group_id="SECRET", _message_type="query")
        return reply

    def in_state(reply: Message, msg: Message, context: Context) -> Message:
        context.state["SECRET"] = ConfigRecord({"SECRET": "SECRET" * 1000})
        context.node_config["pausefl-owner"] = context.run_config["SECRET"] = "SECRET"
        context.run_id = context.node_id = 42
        return reply

    def no_state(reply: Message, msg: Message, context: Context) -> Message:
        context.state = context.node_config = context.run_config = "SECRET"  # type: ignore[assignment]
        return reply

    def state(record: Any, *more: Any) -> Any:
        def change(reply: Message, msg: Message, context: Context) -> Message:
            context.state["SECRET"] = record
            for value in more:
                record["SECRET"].append(value)
            return reply

        return app(change)

    def other_state(reply: Message, msg: Message, context: Context) -> Message:
        context.state.__dict__["_data"] = {"SECRET": object()}
        return reply

    def then_raising(reply: Message, msg: Message, context: Context) -> Message:
        context.state["SECRET"] = ConfigRecord({"SECRET": 2**70})
        raise ValueError("SECRET")

    def lies(data: bytes) -> ArrayRecord:
        return ArrayRecord({"w": Array("float32", (4, 3), "numpy.ndarray", data), "b": Array(np.zeros(3))})

    return {
        "fine": tools.trained,
        "slow": app(lambda reply, msg, context: time.sleep(0.1) or reply),
        "raising": raising(ValueError("SECRET")),
        "exit": raising(SystemExit("SECRET")),
        "interrupt": raising(KeyboardInterrupt("SECRET")),
        "generator": raising(GeneratorExit("SECRET")),
        "memory": raising(MemoryError("SECRET")),
        "nan": arrays(b=np.full(3, np.nan, dtype=np.float32)),
        "overflow": arrays(b=np.full(3, np.inf, dtype=np.float32)),
        "shape": arrays(b=np.zeros(4, dtype=np.float32)),
        "type": arrays(b=np.zeros(3, dtype=np.int64)),
        "precision": arrays(b=np.zeros(3)),
        "other name": arrays(SECRET=np.ones(3)),
        "missing name": arrays(b=None),
        "no bytes": records(arrays=lies(b"")),
        "pickled bytes": records(arrays=lies(b"\x80\x04SECRET")),
        "no arrays": records(arrays=None),
        "two array records": records(more=tools.record(tools.model())),
        "renamed record": app(lambda reply, msg, context: told(tools, reply, SECRET=reply.content["arrays"],
                                                               arrays=None)),
        "no metrics": records(metrics=None),
        "extra records": records(SECRET=ConfigRecord({"SECRET": "SECRET"}), pausefl=ConfigRecord({"releases": 99})),
        "extra metrics": records(metrics=MetricRecord({f"SECRET-{n}": float(n) for n in range(500)})),
        "huge metrics": records(metrics=MetricRecord({"num-examples": 2**60, "loss": [0.5] * 50_000})),
        "other metrics": records(metrics=MetricRecord({"num-examples": 0})),
        "error": app(lambda reply, msg, context: Message(Error(code=9, reason="SECRET"), reply_to=msg)),
        "empty": app(lambda reply, msg, context: Message(RecordDict(), reply_to=msg)),
        "none": app(lambda reply, msg, context: None),
        "no message": app(lambda reply, msg, context: "SECRET"),
        "mutating": app(vandal),
        "writing to the context": app(in_state),
        "ruining the context": app(no_state),
        "state: number beyond 64 bits": state(MetricRecord({"loss": -(2**80)})),
        "state: text that is none": state(ConfigRecord({"file": "caf\udce9.csv"})),
        "state: name that is none": state(ArrayRecord({"caf\udce9": Array(np.zeros(2))})),
        "state: list of two kinds": state(ConfigRecord({"SECRET": [1, 2]}), "SECRET"),
        "state: numpy's number": state(ConfigRecord({"SECRET": [1.0]}), np.float32(2.0)),
        "state: no record": app(other_state),
        "state: then raising": app(then_raising),
    }  # fmt: skip


NAMES = (
    "slow", "raising", "exit", "interrupt", "generator", "memory", "nan", "overflow", "shape", "type", "precision",
    "other name", "missing name", "no bytes", "pickled bytes", "no arrays", "two array records", "renamed record",
    "no metrics", "extra records", "extra metrics", "huge metrics", "other metrics", "error", "empty", "none",
    "no message", "mutating", "writing to the context", "ruining the context", "state: number beyond 64 bits",
    "state: text that is none", "state: name that is none", "state: list of two kinds", "state: numpy's number",
    "state: no record", "state: then raising",
)  # fmt: skip


def play(tools: Any, folder: Path, app: Any, text: str) -> list[Any]:
    """Send the same five messages to an app, and return what leaves in answer to each."""
    folder.mkdir()
    client = tools.Client(folder)
    client.write(text)
    flower = ClientApp(mods=[PrivateUpdate()])
    for register in (flower.train, flower.evaluate, flower.query):
        register()(app)
    context, answers = client.context(), []
    for number, (round_, kind) in enumerate([(1, "train"), (2, "train"), (1, "train"), (3, "evaluate"), (3, "query")]):
        message = tools.request(round=round_, kind=kind, config={"server-round": round_})
        message.metadata.__dict__["_message_id"] = f"message-{number}"  # the same in every folder
        answers.append(whole(flower(message, context)))
        # Flower sends the context back to the SuperNode.  If it cannot, the server sees an error a minute later.
        assert context_to_proto(context).SerializeToString()
        assert context.node_config == client.context().node_config
    return answers


def test_the_list_of_apps_is_complete(tools: Any) -> None:
    assert {"fine", *NAMES} == set(apps(tools))


@pytest.mark.parametrize("name", NAMES)
def test_whole_replies_of_a_deployment_are_the_same_whatever_the_app_does(
    tmp_path: Path, tools: Any, name: str
) -> None:
    usual = play(tools, tmp_path / "usual", tools.trained, tools.OWNER)
    other = play(tools, tmp_path / "other", apps(tools)[name], tools.OWNER)
    assert other == usual
    assert not any(b"SECRET" in answer for answer in other)


@pytest.mark.parametrize("name", NAMES)
def test_a_simulation_that_allows_no_number_tells_nothing_either(tmp_path: Path, tools: Any, name: str) -> None:
    """An evaluation that raised was told apart from one that worked, 60 times of 60, and nothing was charged."""
    silent = tools.SIMULATED.replace('["num-examples"]', "[]") + 'messages = ["evaluate", "query"]\n'
    with simulated():
        usual = play(tools, tmp_path / "usual", tools.trained, silent)
        other = play(tools, tmp_path / "other", apps(tools)[name], silent)
    assert other == usual


def test_a_deployment_does_not_call_the_app_for_anything_but_training(client: Any, tools: Any) -> None:
    for kind in ("evaluate", "query", "evaluate.loss"):
        assert client.ask(kind=kind).has_error()
    assert not client.seen


def test_the_state_that_an_app_keeps_is_still_there_for_its_next_message(client: Any, tools: Any) -> None:
    context, seen = client.context(), []

    def app(msg: Message, own: Context) -> Message:
        seen.append(len(own.state))
        own.state = RecordDict({**own.state, f"kept-{len(seen)}": ConfigRecord({"value": 1})})
        return tools.trained(msg, own)

    for number in (1, 2, 3):
        PrivateUpdate()(tools.request(round=number), context, app)
    assert seen == [0, 1, 2]


def test_a_state_that_flower_cannot_send_is_forgotten_and_the_one_before_it_stays(
    client: Any, tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = client.context()
    states = [{"value": 1}, {"value": 2**70}, {"value": "x" * 500}]
    monkeypatch.setattr("pausefl.flower.client._MOST_STATE", 400)
    for number, values in enumerate(states, start=1):

        def app(msg: Message, own: Context, values: Any = values) -> Message:
            own.state["kept"] = ConfigRecord(values)
            return tools.trained(msg, own)

        assert PrivateUpdate()(tools.request(round=number), context, app).has_content()
        assert dict(context.state.config_records["kept"]) == {"value": 1}
