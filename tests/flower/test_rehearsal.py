"""Rehearsals: everybody at once, before the first release, without a charge; the answer is a name alone."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import context_to_proto, message_to_proto
from flwr.serverapp.strategy import FedAvg

from pausefl.flower import PrivateUpdate
from pausefl.flower.protocol import REHEARSAL, Refusal
from pausefl.flower.server.training_rounds import Plan, RunState, play
from pausefl.sim.latency import FlooredNormal

ALLOWED = "[replies]\nrehearse = true"


def allow(client: Any, tools: Any) -> Any:
    client.write(tools.OWNER.replace("[replies]", ALLOWED))
    return client


def rehearsals(grid: Any) -> list[int]:
    return [message.metadata.dst_node_id for message in grid.sent if message.metadata.message_type == REHEARSAL]


# The client.


def test_a_deployment_refuses_rehearsals_unless_its_owner_allows_them(client: Any, tools: Any) -> None:
    refused = client.ask(kind=REHEARSAL)
    assert Refusal.of(refused.error) == Refusal("not-allowed")
    assert not client.seen
    reply = allow(client, tools).ask(kind=REHEARSAL)
    assert dict(reply.content) == {"pausefl": {"name": "client-0"}}
    assert len(client.seen) == 1 and "pausefl" not in client.seen[0].content
    assert client.charges == 0


def test_there_is_no_rehearsal_after_the_first_release(client: Any, tools: Any) -> None:
    """Training may leave something of the data in the machine, and a rehearsal's time could tell it, uncharged."""
    assert allow(client, tools).ask(kind=REHEARSAL).has_content()
    assert client.ask().has_content()
    for run in ("run", "another", None):
        assert Refusal.of(client.ask(kind=REHEARSAL, run=run).error) == Refusal("not-allowed")
    assert [message.metadata.message_type for message in client.seen] == [REHEARSAL, "train"]
    assert client.charges == 1


def test_nothing_is_charged_while_a_rehearsal_goes_on(client: Any, tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pausefl.owner.kept_replies._PATIENCE", 0.0)
    inside: list[Message] = []

    def app(message: Message, context: Context) -> Message:
        if message.metadata.message_type == REHEARSAL:
            inside.append(client.ask())
        return tools.trained(message, context)

    allow(client, tools).app = app
    assert client.ask(kind=REHEARSAL).has_content()
    assert Refusal.of(inside[0].error) == Refusal("unready")
    assert client.charges == 0
    assert client.ask().has_content()


def test_without_a_ledger_to_look_at_there_is_no_rehearsal(client: Any, tools: Any) -> None:
    allow(client, tools)
    (client.folder / "ledger.db").write_bytes(b"no ledger at all")
    assert Refusal.of(client.ask(kind=REHEARSAL).error) == Refusal("unready")
    assert not client.seen


def test_no_other_query_is_served_with_it(client: Any, tools: Any) -> None:
    allow(client, tools)
    for kind in ("query", "query.rehearsals", "evaluate.rehearsal"):
        assert Refusal.of(client.ask(kind=kind).error) == Refusal("not-allowed")
    assert not client.seen


def fine(message: Message, context: Context) -> Message:
    return Message(RecordDict(), reply_to=message)


def writes_state(message: Message, context: Context) -> Message:
    context.state["SECRET"] = ConfigRecord({"SECRET": "SECRET"})
    context.node_config["pausefl-owner"] = "SECRET"
    return fine(message, context)


def vandal(message: Message, context: Context) -> Message:
    message.metadata.__dict__.update(_group_id="SECRET", _run_id=42, _dst_node_id=42)
    del message.content["arrays"]
    return Message(RecordDict({"pausefl": ConfigRecord({"name": "SECRET", "releases": 9})}), reply_to=message)


def raising(error: BaseException) -> Any:
    def app(message: Message, context: Context) -> Message:
        raise error

    return app


@pytest.mark.parametrize(
    "app",
    [
        writes_state, vandal, lambda message, context: None, lambda message, context: "SECRET",
        lambda message, context: Message(Error(code=9, reason="SECRET"), reply_to=message),
        *map(raising, (ValueError("SECRET"), SystemExit("SECRET"), KeyboardInterrupt("SECRET"), MemoryError("SECRET"))),
    ],
)  # fmt: skip
def test_the_whole_reply_is_the_same_whatever_the_app_does(app: Any, client: Any, tools: Any) -> None:
    """Through Flower's own ClientApp, which takes the message to the function for rehearsals."""
    allow(client, tools)

    def left_by(function: Any) -> tuple[bytes, bytes]:
        flower, context = ClientApp(mods=[PrivateUpdate()]), client.context()
        context.state["kept"] = ConfigRecord({"patient": 17})
        flower.query("rehearsal")(function)
        message = tools.request(kind=REHEARSAL, run=None)
        message.metadata.__dict__["_message_id"] = "message"
        proto = message_to_proto(flower(message, context))
        proto.metadata.created_at = proto.metadata.ttl = 0.0
        return proto.SerializeToString(deterministic=True), context_to_proto(context).SerializeToString(
            deterministic=True
        )

    usual, other = left_by(fine), left_by(app)
    assert other == usual
    assert b"SECRET" not in other[0] + other[1]
    assert client.charges == 0


def test_the_app_sees_nothing_of_what_it_kept_from_training(client: Any, tools: Any) -> None:
    allow(client, tools)
    context, seen = client.context(), []
    context.state["kept"] = ConfigRecord({"patient": 17})

    def app(message: Message, given: Context) -> Message:
        seen.append(dict(given.state))
        return fine(message, given)

    PrivateUpdate()(tools.request(kind=REHEARSAL), context, app)
    assert seen == [{}]
    assert context.state["kept"]["patient"] == 17


def test_why_it_failed_stays_in_the_log(client: Any, tools: Any, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("flwr").propagate = True
    allow(client, tools).app = raising(ValueError("no such layer"))
    assert client.ask(kind=REHEARSAL).has_content()
    assert "the rehearsal failed" in caplog.text and "no such layer" in caplog.text


# The server.


class Paced:
    """A strategy on nodes that answer after so many seconds of a clock that only sleeping moves."""

    def __init__(self, clients: list[Any], tools: Any, seconds: list[float | None], **more: Any) -> None:
        only_speed = tools.selector(alpha=0.0, gamma=0.0)
        self.clock, self.strategy = tools.Clock(), tools.wrapped(rehearse=True, chooser=only_speed, **more)
        self.grid = tools.grid_of([allow(client, tools) for client in clients])
        for client, taken in zip(clients, seconds, strict=True):
            honest = self.grid.nodes[100 + client.number]
            slow = tools.after(self.clock, np.inf if taken is None else taken, honest)
            self.grid.nodes[100 + client.number] = lambda message, honest=honest, slow=slow: (
                slow(message) if _works(message) else honest(message)
            )
        self.timed = tools.timed({}, self.clock)
        self.timed.grid = self.grid

    def start(self, initial: Any, rounds: int, timeout: float = 30.0) -> Any:
        strategy = self.strategy
        strategy._timed = self.timed
        strategy._begin(self.grid, initial)
        plan = Plan(rounds, timeout, ConfigRecord({"lr": 0.5}), ConfigRecord(), None)
        play(strategy, self.timed, strategy._state, plan)
        return strategy


def _works(message: Message) -> bool:
    return not message.content.config_records.get("pausefl", {}).get("hello")


SLOW_TO_FAST = [2.0, 1.6, 1.2, 0.8, 0.4]


def test_everybody_is_asked_once_and_at_once_and_the_fastest_are_picked_first(
    clients: list[Any], start: Any, tools: Any
) -> None:
    paced = Paced(clients, tools, SLOW_TO_FAST)
    strategy = paced.start(start, rounds=2)
    assert rehearsals(paced.grid) == [100, 101, 102, 103, 104]
    assert paced.strategy.history[0].members == ("client-3", "client-4")
    asked = [message for client in clients for message in client.seen if message.metadata.message_type == REHEARSAL]
    assert len(asked) == 5
    for message in asked:
        assert dict(message.content["config"]) == {"lr": 0.5, "server-round": 0}
        assert (message.content["arrays"]["w"].numpy() == tools.model()["w"]).all()
    cohort = strategy._selector.cohort
    assert cohort.picks.sum() == 4
    assert (cohort.timings == np.maximum(cohort.picks, 1)).all()  # a rehearsal counts until the client has trained
    assert sum(client.charges for client in clients) == 4
    never = [row for row in range(5) if not cohort.picks[row]]
    assert 1.0 / cohort.rate[never] == pytest.approx(np.array(SLOW_TO_FAST)[never], abs=0.11)


def test_who_does_not_rehearse_stays_unknown_and_comes_first(clients: list[Any], start: Any, tools: Any) -> None:
    """One is silent, one fails to come in time, one's owner refuses; the rest is known."""
    paced = Paced(clients, tools, [None, 9.0, 0.3, 0.2, 0.1])
    clients[2].write(tools.OWNER)
    strategy = paced.start(start, rounds=1, timeout=3.0)
    cohort = strategy._selector.cohort
    assert (cohort.timings - cohort.picks).tolist() == [0, 0, 0, 1, 1]
    assert set(strategy.history[0].members) <= {"client-0", "client-1", "client-2"}


def test_those_who_come_a_little_later_rehearse_too(clients: list[Any], start: Any, tools: Any) -> None:
    paced = Paced(clients, tools, SLOW_TO_FAST, wait=20.0)
    late = {node: paced.grid.nodes.pop(node) for node in (100, 101, 102)}
    sleep = paced.clock.sleep

    def arriving(seconds: float) -> None:
        sleep(seconds)
        if paced.clock() > 116.0:  # beyond the moment for which others are waited for in a round
            paced.grid.nodes.update(late)

    paced.timed._sleep = arriving
    cohort = paced.start(start, rounds=0)._selector.cohort
    assert cohort.timings.tolist() == [1] * 5


def test_a_reply_under_another_name_is_not_believed(clients: list[Any], start: Any, tools: Any) -> None:
    paced = Paced(clients, tools, SLOW_TO_FAST)
    honest = paced.grid.nodes[104]

    def stranger(message: Message) -> Message | None:
        if message.metadata.message_type != REHEARSAL:
            return honest(message)
        return Message(RecordDict({"pausefl": ConfigRecord({"name": "client-0"})}), reply_to=message)

    paced.grid.nodes[104] = stranger
    cohort = paced.start(start, rounds=0)._selector.cohort
    assert cohort.timings.tolist() == [1, 1, 1, 1, 0]


def test_a_run_that_goes_on_does_not_rehearse_again(clients: list[Any], start: Any, tools: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.state"
    first = Paced(clients, tools, SLOW_TO_FAST, checkpoint=path)
    first.start(start, rounds=0)  # dies before its first round
    again = Paced(clients, tools, SLOW_TO_FAST, checkpoint=path)
    strategy = again.start(start, rounds=2)
    assert rehearsals(again.grid) == []
    assert strategy.history[0].members == ("client-3", "client-4")  # but what was learned is kept
    assert strategy._selector.cohort.timings.sum() == 3 + 4  # three have only rehearsed


def test_without_it_nobody_is_asked(clients: list[Any], start: Any, tools: Any) -> None:
    grid = tools.grid_of(clients)
    strategy = tools.wrapped()
    strategy.start(grid, start, num_rounds=1)
    assert rehearsals(grid) == []
    assert (strategy._selector.cohort.timings == strategy._selector.cohort.picks).all()


def test_a_latency_model_gives_virtual_seconds_to_the_rehearsal_too(clients: list[Any], start: Any, tools: Any) -> None:
    model = FlooredNormal(np.array([0.1, 0.3, 0.5, 0.7, 0.9]), std=1e-6, floor=0.05)
    paced = Paced(clients, tools, SLOW_TO_FAST, latency=model)
    strategy = paced.start(start, rounds=1)
    assert strategy.history[0].members == ("client-0", "client-1")


def test_the_model_travels_under_the_inner_strategys_names(clients: list[Any], start: Any, tools: Any) -> None:
    inside = FedAvg(fraction_evaluate=0.0, arrayrecord_key="weights", configrecord_key="settings")
    paced = Paced(clients, tools, SLOW_TO_FAST, inside=inside)
    paced.start(start, rounds=0)
    [content] = {id(message.content): message.content for message in paced.grid.sent if _works(message)}.values()
    assert set(content) == {"weights", "settings"}


def test_a_server_whose_clients_all_refuse_goes_on_without(
    clients: list[Any], start: Any, tools: Any, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("flwr").propagate = True
    strategy = tools.wrapped(rehearse=True)
    strategy.start(tools.grid_of(clients), start, num_rounds=1)
    assert "nobody rehearsed" in caplog.text
    assert len(strategy.history) == 1 and isinstance(strategy._state, RunState)
