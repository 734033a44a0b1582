"""Time and identity on the server: stamps by a steady clock, matched by the message replied to."""

from __future__ import annotations

import pytest
from flwr.app import Error, Message, RecordDict

from pausefl.errors import NotEnoughClientsError, OutOfOrderError
from pausefl.flower.server.timed_grid import ChosenGrid, TimedGrid
from pausefl.flower.testing import MemoryGrid


def test_replies_are_stamped_one_by_one(tools):
    clock = tools.Clock()
    grid = tools.timed({1: tools.after(clock, 0.0), 2: tools.after(clock, 0.55), 3: tools.after(clock, 1.95)}, clock)
    exchange = grid.exchange(tools.train(1, 2, 3), timeout=10.0)
    assert exchange.seconds == pytest.approx({1: 1e-9, 2: 0.6, 3: 2.0})
    assert set(exchange.by_node) == {1, 2, 3}


def test_the_late_are_left_out_and_nobody_waits_longer(tools):
    clock = tools.Clock()
    exchange = tools.timed({1: tools.after(clock, 0.5), 2: tools.after(clock, 50.0)}, clock).exchange(
        tools.train(1, 2), timeout=3.0
    )
    assert list(exchange.seconds) == [1]
    assert clock.now == pytest.approx(103.0, abs=0.2)


def test_an_error_of_the_superlink_is_put_down_to_the_node_that_was_asked(tools):
    def lost(message: Message) -> Message:
        reply = Message(Error(code=5, reason="node unavailable"), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = 1
        return reply

    clock = tools.Clock()
    exchange = tools.timed({7: tools.after(clock, 0.3, lost), 8: tools.after(clock, 0.0)}, clock).exchange(
        tools.train(7, 8), timeout=5.0
    )
    assert exchange.by_node[7].has_error()
    assert not exchange.by_node[8].has_error()


def test_a_message_that_was_not_accepted_is_not_waited_for(tools):
    clock = tools.Clock()
    exchange = tools.timed({1: tools.after(clock, 0.2)}, clock).exchange(tools.train(99, 1), timeout=None)
    assert list(exchange.seconds) == [1]


def test_the_superlink_may_leave_gaps_among_the_ids(tools):
    class Gaps(MemoryGrid):
        def push_messages(self, messages):
            accepted = list(super().push_messages(messages))
            return [None, *accepted[1:]]  # as Flower's grid over HTTP does

    clock = tools.Clock()
    grid = TimedGrid(Gaps({1: tools.after(clock, 0.0), 2: tools.after(clock, 0.0)}), clock=clock, sleep=clock.sleep)
    assert list(grid.exchange(tools.train(1, 2), timeout=1.0).seconds) == [2]


def test_replies_to_nobodys_question_are_ignored(tools):
    class Chatty(MemoryGrid):
        def pull_messages(self, message_ids):
            stray = Message(RecordDict(), reply_to=self.sent[0])
            stray.metadata.__dict__["_reply_to_message_id"] = "never sent"
            return [stray, *super().pull_messages(message_ids)]

    clock = tools.Clock()
    grid = TimedGrid(Chatty({1: tools.after(clock, 0.0)}), clock=clock, sleep=clock.sleep)
    assert len(grid.exchange(tools.train(1), timeout=1.0).replies) == 1


def test_an_inner_strategy_sees_the_chosen_and_sends_nothing_itself(tools):
    view = ChosenGrid(MemoryGrid({n: lambda message: None for n in range(9)}), [3, 5])
    assert list(view.get_node_ids()) == [3, 5]
    assert [node.node_id for node in view.get_nodes()] == [3, 5]
    with pytest.raises(OutOfOrderError):
        view.push_messages(tools.train(3))
    with pytest.raises(OutOfOrderError):
        view.send_and_receive(tools.train(3))


def test_an_inner_strategy_that_waits_for_more_is_stopped():
    view = ChosenGrid(MemoryGrid({}), [3, 5])
    with pytest.raises(NotEnoughClientsError, match="more than the 2 nodes chosen"):
        while len(list(view.get_node_ids())) < 3:
            pass
