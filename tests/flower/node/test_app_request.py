"""What an app is asked: the model's numbers and a short request, whatever else a server sends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.common.serde import message_to_proto
from hypothesis import given
from hypothesis import strategies as st

from pausefl.errors import InvalidValueError
from pausefl.flower.client import NODE_KEY
from pausefl.flower.node.app_request import app_request, check_size
from pausefl.flower.protocol import Refusal

LIMIT, LAYOUT = 1 << 16, 1 << 21


def context(**settings: Any) -> Context:
    config = {NODE_KEY: "owner.toml", "data": "/srv/records"}
    return Context(run_id=7, node_id=5, node_config=config, state=RecordDict(), run_config=settings)


def tensor(change: Callable[[Array], None]) -> Callable[[Message], None]:
    return lambda message: change(message.content["arrays"]["w"])


def put(record: Any, name: str = "more") -> Callable[[Message], None]:
    return lambda message: message.content.__setitem__(name, record)


def stamp(name: str, value: Any) -> Callable[[Message], None]:
    return lambda message: message.metadata.__dict__.__setitem__(f"_{name}", value)


# Each adds about so many bytes to a message; an app has no use for any of them.
BULK: dict[str, Callable[[int], Callable[[Message], None]]] = {
    "bytes behind the numbers": lambda n: tensor(lambda w: setattr(w, "data", w.data + bytes(n))),
    "a text": lambda n: put(ConfigRecord({"text": "x" * n})),
    "bytes": lambda n: put(ConfigRecord({"bytes": bytes(n)})),
    "empty texts": lambda n: put(ConfigRecord({"texts": [""] * (n // 2)})),
    "empty bytes": lambda n: put(ConfigRecord({"bytes": [b""] * (n // 2)})),
    "falses": lambda n: put(ConfigRecord({"values": [False] * n})),
    "zeros": lambda n: put(MetricRecord({"values": [0] * n})),
    "keys": lambda n: put(ConfigRecord({f"{k:x}": False for k in range(n // 8)})),
    "an empty list for each key": lambda n: put(ConfigRecord({f"{k:x}": [] for k in range(n // 4)})),
    "a long name": lambda n: put(ConfigRecord(), "x" * n),
    "the request to the gate": lambda n: put(ConfigRecord({"run": "x" * n, "round": 1}), "pausefl"),
    "a group": lambda n: stamp("group_id", "x" * n),
    "a type": lambda n: stamp("message_type", "train." + "x" * n),
    "an id": lambda n: stamp("message_id", "x" * n),
    "an id of another message": lambda n: stamp("reply_to_message_id", "x" * n),
}
LARGE_LAYOUT: dict[str, Callable[[int], Callable[[Message], None]]] = {
    "a false shape": lambda n: tensor(lambda w: setattr(w, "shape", (1,) * n)),
    "a false type": lambda n: tensor(lambda w: setattr(w, "dtype", "x" * n)),
    "a kind": lambda n: tensor(lambda w: setattr(w, "stype", "numpy.ndarray" if n < LAYOUT else "x" * n)),
    "a name": lambda n: put(ArrayRecord({"x" * n: Array(np.zeros(1))}), "arrays"),
    "names": lambda n: put(ArrayRecord({f"{k}": Array(np.zeros(1)) for k in range(n // 35)}), "arrays"),
    "empty records": lambda n: lambda m: [put(ArrayRecord(), f"{k}")(m) for k in range(n // 8)] and None,
}


@pytest.mark.parametrize("how", BULK)
def test_a_message_may_hold_little_beside_its_model(how: str, kit: ModuleType) -> None:
    for size, fine in ((LIMIT // 4, True), (2 * LIMIT, False)):
        message = kit.request()
        BULK[how](size)(message)
        refuse(message, context(), fine)


@pytest.mark.parametrize("how", LARGE_LAYOUT)
def test_the_layout_of_a_model_has_a_limit(how: str, kit: ModuleType) -> None:
    for size, fine in ((LAYOUT // 4, True), (2 * LAYOUT, False)):
        message = kit.request()
        LARGE_LAYOUT[how](size)(message)
        refuse(message, context(), fine)


def refuse(message: Message, given: Context, fine: bool) -> None:
    if fine:
        check_size(message, given)
    else:
        with pytest.raises((InvalidValueError, TypeError)):
            check_size(message, given)


def test_settings_of_a_run_count_and_those_of_the_node_do_not(kit: ModuleType) -> None:
    large = context()
    large.node_config["list"] = "x" * LIMIT
    check_size(kit.request(), large)
    with pytest.raises(InvalidValueError, match=r"beside its model is 6.*, but must be at most 65536 bytes"):
        check_size(kit.request(), context(note="x" * LIMIT))


def test_a_large_model_with_usual_names_is_not_too_large(kit: ModuleType) -> None:
    message = kit.request()
    message.content["arrays"] = ArrayRecord({f"{n:0>60}": Array(np.zeros((1, 1, 1, 1))) for n in range(12_000)})
    check_size(message, context())


@given(padding=st.binary(max_size=50), shape=st.lists(st.integers(0, 9), max_size=5), group=st.text(max_size=9))
def test_no_byte_that_the_server_wrote_reaches_the_app_but_what_it_reads(
    kit: ModuleType, padding: bytes, shape: list[int], group: str
) -> None:
    plain, odd = kit.request(), kit.request()
    array = odd.content["arrays"]["w"]
    array.data, array.shape, array.dtype = array.data + padding, tuple(shape), "float12"
    for name, value in {"message_id": "m", "reply_to_message_id": "r", "ttl": 1e-9, "created_at": 0.0}.items():
        stamp(name, value)(odd)
    for message in (plain, odd):
        stamp("group_id", group)(message)
    asked = [message_to_proto(app_request(message, context(), 7.0)[0]) for message in (plain, odd)]
    assert asked[0] == asked[1] and asked[0].metadata.created_at == 7.0


def test_an_app_reads_model_records_settings_and_group_and_not_the_request_to_the_gate(kit: ModuleType) -> None:
    message = kit.request()
    message.content["config"] = ConfigRecord({"lr": 0.1, "server-round": 3, "names": ["a", ""], "key": b"\x00"})
    message.content["metrics"] = MetricRecord({"loss": [0.5, 1.5]})
    stamp("group_id", "3")(message)
    asked, given_context = app_request(message, context(steps=2), 7.0)
    assert list(asked.content) == ["arrays", "config", "metrics"]
    assert asked.content["config"] == message.content["config"] and asked.content["metrics"]["loss"] == [0.5, 1.5]
    for name, sent in kit.model().items():
        np.testing.assert_array_equal(asked.content["arrays"][name].numpy(), sent)
    about = asked.metadata
    assert (about.message_type, about.group_id, about.run_id, about.dst_node_id) == ("train", "3", 7, 5)
    assert given_context.run_config == {"steps": 2} and given_context.node_config == {"data": "/srv/records"}


def test_a_message_that_expires_while_the_app_runs_fails_no_training(
    node: Any, kit: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    """The server says for how long a message is good, and an app that takes longer must not see that."""
    body = "assert message.metadata.ttl > 3600 and message.metadata.created_at > 1e9\n"
    bundle = node.app(kit.train_in(body + "return answer(message, changed(message))"))
    message = kit.request()
    stamp("ttl", 1e-9)(message)
    assert node.guard.answer(bundle.content, message, node.context).has_content()
    assert "training failed" not in caplog.text


def test_a_bulky_message_is_a_bad_request_and_costs_nothing(node: Any, kit: ModuleType) -> None:
    message, bundle = kit.request(), node.app()
    BULK["bytes behind the numbers"](2 * LIMIT)(message)
    reply = node.guard.answer(bundle.content, message, replace(node.context))
    assert Refusal.of(reply.error) == Refusal("bad-request") and not node.charges
