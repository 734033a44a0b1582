"""Time and identity on the server: stamps by a steady clock, matched by the message replied to."""

from __future__ import annotations

import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo

from pausefl.errors import InvalidValueError, NotEnoughClientsError, OutOfOrderError
from pausefl.flower.grid import ChosenGrid, TimedGrid
from pausefl.flower.memory import MemoryGrid
from pausefl.flower.protocol import Note, Refusal
from pausefl.flower.roster import Roster


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


def test_replies_are_stamped_one_by_one():
    clock = Clock()
    grid = timed({1: after(clock, 0.0), 2: after(clock, 0.55), 3: after(clock, 1.95)}, clock)
    exchange = grid.exchange(train(1, 2, 3), timeout=10.0)
    assert exchange.seconds == pytest.approx({1: 1e-9, 2: 0.6, 3: 2.0})
    assert set(exchange.by_node()) == {1, 2, 3}


def test_the_late_are_left_out_and_nobody_waits_longer():
    clock = Clock()
    exchange = timed({1: after(clock, 0.5), 2: after(clock, 50.0)}, clock).exchange(train(1, 2), timeout=3.0)
    assert list(exchange.seconds) == [1]
    assert clock.now == pytest.approx(103.0, abs=0.2)


def test_an_error_of_the_superlink_is_put_down_to_the_node_that_was_asked():
    def lost(message: Message) -> Message:
        reply = Message(Error(code=5, reason="node unavailable"), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = 1
        return reply

    clock = Clock()
    exchange = timed({7: after(clock, 0.3, lost), 8: after(clock, 0.0)}, clock).exchange(train(7, 8), timeout=5.0)
    assert exchange.by_node()[7].has_error()
    assert not exchange.by_node()[8].has_error()


def test_a_message_that_was_not_accepted_is_not_waited_for():
    clock = Clock()
    exchange = timed({1: after(clock, 0.2)}, clock).exchange(train(99, 1), timeout=None)
    assert exchange.sent == (99, 1)
    assert list(exchange.seconds) == [1]


def test_the_superlink_may_leave_gaps_among_the_ids():
    class Gaps(MemoryGrid):
        def push_messages(self, messages):
            accepted = list(super().push_messages(messages))
            return [None, *accepted[1:]]  # as Flower's grid over HTTP does

    clock = Clock()
    grid = TimedGrid(Gaps({1: after(clock, 0.0), 2: after(clock, 0.0)}), clock=clock, sleep=clock.sleep)
    assert list(grid.exchange(train(1, 2), timeout=1.0).seconds) == [2]


def test_replies_to_nobodys_question_are_ignored():
    class Chatty(MemoryGrid):
        def pull_messages(self, message_ids):
            stray = Message(RecordDict(), reply_to=self.sent[0])
            stray.metadata.__dict__["_reply_to_message_id"] = "never sent"
            return [stray, *super().pull_messages(message_ids)]

    clock = Clock()
    grid = TimedGrid(Chatty({1: after(clock, 0.0)}), clock=clock, sleep=clock.sleep)
    assert len(grid.exchange(train(1), timeout=1.0).replies) == 1


def test_polling_without_a_pause_is_refused():
    with pytest.raises(InvalidValueError, match="poll is 0"):
        TimedGrid(MemoryGrid({}), poll=0)


def test_an_inner_strategy_sees_the_chosen_and_sends_nothing_itself():
    view = ChosenGrid(MemoryGrid({n: lambda message: None for n in range(9)}), [3, 5])
    assert list(view.get_node_ids()) == [3, 5]
    assert [node.node_id for node in view.get_nodes()] == [3, 5]
    with pytest.raises(OutOfOrderError):
        view.push_messages(train(3))
    with pytest.raises(OutOfOrderError):
        view.send_and_receive(train(3))


def test_an_inner_strategy_that_waits_for_more_is_stopped():
    view = ChosenGrid(MemoryGrid({}), [3, 5])
    with pytest.raises(NotEnoughClientsError, match="more than the 2 nodes chosen"):
        while len(list(view.get_node_ids())) < 3:
            pass


def named(name: str, releases: int = 0):
    def node(message: Message) -> Message:
        assert message.content.config_records["pausefl"]["hello"] is True
        return Message(RecordDict({"pausefl": Note(name, releases).record()}), reply_to=message)

    return node


def test_nodes_are_known_by_the_name_they_give_and_are_asked_once():
    clock = Clock()
    grid = timed({11: named("a", 3), 12: named("b"), 13: named("stranger")}, clock)
    roster = Roster(["a", "b", "c"], "hello", "run")
    found = roster.present(grid, 2, 10.0)
    assert dict(found.nodes) == {"a": 11, "b": 12}
    assert dict(found.releases) == {"a": 3, "b": 0}
    assert dict(roster.present(grid, 2, 10.0).releases) == {}
    assert len(grid._grid.sent) == 3


def test_whole_numbers_are_names_too():
    assert dict(Roster(range(3), "hello", "run").present(timed({8: named("2")}, Clock()), 1, 1.0).nodes) == {2: 8}


def test_after_a_restart_the_new_node_of_a_name_counts():
    clock = Clock()
    grid = timed({11: named("a")}, clock)
    roster = Roster(["a"], "hello", "run")
    roster.present(grid, 1, 1.0)
    grid._grid.nodes[22] = named("a")  # the SuperLink still lists the old one for a while
    assert dict(roster.present(grid, 1, 1.0).nodes) == {"a": 22}
    del grid._grid.nodes[11]
    assert dict(roster.present(grid, 1, 1.0).nodes) == {"a": 22}


def test_a_silent_node_holds_nobody_up_twice():
    clock = Clock()
    grid = timed({1: named("a"), 2: lambda message: None}, clock)
    roster = Roster(["a", "b"], "hello", "run")
    roster.present(grid, 1, 60.0)
    assert 10.0 < clock.now - 100.0 < 20.0  # a moment, for those about to answer
    before = clock.now
    assert set(roster.present(grid, 1, 60.0).nodes) == {"a"}
    assert clock.now == before


def test_too_few_are_waited_for():
    clock = Clock()
    found = Roster(["a", "b"], "hello", "run").present(timed({1: named("a")}, clock), 2, 30.0)
    assert set(found.nodes) == {"a"}
    assert clock.now == pytest.approx(130.0, abs=0.3)


def test_a_smaller_round_is_waited_for_once_and_then_played_at_once():
    clock = Clock()
    grid, roster = timed({1: named("a")}, clock), Roster(["a", "b"], "hello", "run")
    roster.present(grid, 2, 30.0, least=1)
    assert clock.now == pytest.approx(130.0, abs=0.3)
    roster.present(grid, 2, 30.0, least=1)
    assert clock.now == pytest.approx(130.0, abs=0.4)
    grid._grid.nodes[2] = after(clock, 5.0, named("b"))  # on its way: worth a moment
    assert set(roster.present(grid, 2, 30.0, least=1).nodes) == {"a", "b"}
    assert clock.now == pytest.approx(135.2, abs=0.4)


def test_those_without_budget_do_not_count_as_enough():
    clock = Clock()
    grid = timed({1: named("a"), 2: named("b")}, clock)
    roster = Roster(["a", "b"], "hello", "run")
    assert set(roster.present(grid, 2, 30.0, without={"a"}).nodes) == {"a", "b"}
    assert clock.now == pytest.approx(130.0, abs=0.3)


def test_one_that_says_no_is_asked_a_few_times_and_then_left_alone():
    clock = Clock()
    grid = timed({1: lambda message: Message(Refusal("unready").error(), reply_to=message), 2: named("b")}, clock)
    roster = Roster(["a", "b"], "hello", "run")
    for _ in range(6):
        assert set(roster.present(grid, 1, 1.0).nodes) == {"b"}
    assert len(grid._grid.sent) == 1 + 3


@pytest.mark.parametrize("record", [{}, {"name": ""}, {"name": "a\n"}, {"name": "a"}, {"name": "a", "releases": -1}])
def test_a_senseless_note_is_none(record):
    def node(message: Message) -> Message:
        return Message(RecordDict({"pausefl": ConfigRecord(record)}), reply_to=message)

    assert not Roster(["a"], "hello", "run").present(timed({1: node}, Clock()), 1, 1.0).nodes


def test_names_that_the_superlink_verified():
    infos = [NodeInfo(node_id=1, name="a", public_key=b"key"), NodeInfo(node_id=2)]
    grid = timed({1: named("liar"), 2: named("liar")}, Clock(), infos=infos)
    assert dict(Roster(["a"], "registered", "run").present(grid, 1, 1.0).nodes) == {"a": 1}
    print_of_key = "2c70e12b7a0646f9"  # of sha256(b"key"), as any tool prints it
    assert dict(Roster([print_of_key], "key", "run").present(grid, 1, 1.0).nodes) == {print_of_key: 1}
    assert dict(Roster([1, 2], "node", "run").present(grid, 1, 1.0).nodes) == {1: 1, 2: 2}
    assert not grid._grid.sent
    with pytest.raises(InvalidValueError, match="names is 'face'"):
        Roster(["a"], "face", "run")
