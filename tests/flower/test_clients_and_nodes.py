"""Who is who, by what nodes say of themselves or what the SuperLink verified."""

from __future__ import annotations

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo

from pausefl.flower.protocol import Refusal
from pausefl.flower.server.clients_and_nodes import NodeNames


def test_nodes_are_known_by_the_name_they_give_and_are_asked_once(tools):
    clock = tools.Clock()
    grid = tools.timed({11: tools.named("a", 3), 12: tools.named("b"), 13: tools.named("stranger")}, clock)
    nodes = NodeNames(["a", "b", "c"], "hello", "run")
    found = nodes.present(grid, 2, 10.0)
    assert dict(found.nodes) == {"a": 11, "b": 12}
    assert dict(found.releases) == {"a": 3, "b": 0}
    assert dict(nodes.present(grid, 2, 10.0).releases) == {}
    assert len(grid.grid.sent) == 3


def test_whole_numbers_are_names_too(tools):
    assert dict(
        NodeNames(range(3), "hello", "run").present(tools.timed({8: tools.named("2")}, tools.Clock()), 1, 1.0).nodes
    ) == {2: 8}


def test_after_a_restart_the_new_node_of_a_name_counts(tools):
    clock = tools.Clock()
    grid = tools.timed({11: tools.named("a")}, clock)
    nodes = NodeNames(["a"], "hello", "run")
    nodes.present(grid, 1, 1.0)
    grid.grid.nodes[22] = tools.named("a")  # the SuperLink still lists the old one for a while
    assert dict(nodes.present(grid, 1, 1.0).nodes) == {"a": 22}
    del grid.grid.nodes[11]
    assert dict(nodes.present(grid, 1, 1.0).nodes) == {"a": 22}


def test_a_name_that_moves_while_its_old_node_is_still_there_is_worth_a_warning(tools, caplog):
    grid, nodes = tools.timed({11: tools.named("a")}, tools.Clock()), NodeNames(["a"], "hello", "run")
    nodes.present(grid, 1, 1.0)
    grid.grid.nodes[22] = tools.named("a")
    for _ in range(3):
        nodes.present(grid, 1, 1.0)
    assert caplog.text.count("'a' was node 11, which is still there, and now it is node 22") == 1
    del grid.grid.nodes[11], grid.grid.nodes[22]
    grid.grid.nodes[33] = tools.named("a")  # a restart, and the old node is gone
    nodes.present(grid, 1, 1.0)
    assert caplog.text.count("still there") == 1


def test_doubt_does_not_hide_that_a_name_moved(tools, caplog):
    grid, nodes = tools.timed({11: tools.named("a")}, tools.Clock()), NodeNames(["a"], "hello", "run")
    nodes.present(grid, 1, 1.0)
    nodes.doubt(["a"])
    grid.grid.nodes = {11: lambda message: None, 22: tools.named("a")}
    assert dict(nodes.present(grid, 1, 1.0).nodes) == {"a": 22}
    assert "which is still there" in caplog.text


def test_a_silent_node_holds_nobody_up_twice(tools):
    clock = tools.Clock()
    grid = tools.timed({1: tools.named("a"), 2: lambda message: None}, clock)
    nodes = NodeNames(["a", "b"], "hello", "run")
    nodes.present(grid, 1, 60.0)
    assert 10.0 < clock.now - 100.0 < 20.0  # a moment, for those about to answer
    before = clock.now
    assert set(nodes.present(grid, 1, 60.0).nodes) == {"a"}
    assert clock.now == before


def test_too_few_are_waited_for(tools):
    clock = tools.Clock()
    found = NodeNames(["a", "b"], "hello", "run").present(tools.timed({1: tools.named("a")}, clock), 2, 30.0)
    assert set(found.nodes) == {"a"}
    assert clock.now == pytest.approx(130.0, abs=0.3)


def test_a_smaller_round_is_waited_for_once_and_then_played_at_once(tools):
    clock = tools.Clock()
    grid, nodes = tools.timed({1: tools.named("a")}, clock), NodeNames(["a", "b"], "hello", "run")
    nodes.present(grid, 2, 30.0, least=1)
    assert clock.now == pytest.approx(130.0, abs=0.3)
    nodes.present(grid, 2, 30.0, least=1)
    assert clock.now == pytest.approx(130.0, abs=0.4)
    grid.grid.nodes[2] = tools.after(clock, 5.0, tools.named("b"))  # on its way: worth a moment
    assert set(nodes.present(grid, 2, 30.0, least=1).nodes) == {"a", "b"}
    assert clock.now == pytest.approx(135.2, abs=0.4)


def test_those_without_budget_do_not_count_as_enough(tools):
    clock = tools.Clock()
    grid = tools.timed({1: tools.named("a"), 2: tools.named("b")}, clock)
    nodes = NodeNames(["a", "b"], "hello", "run")
    assert set(nodes.present(grid, 2, 30.0, without={"a"}).nodes) == {"a", "b"}
    assert clock.now == pytest.approx(130.0, abs=0.3)


def test_one_that_says_no_is_asked_a_few_times_and_then_left_alone(tools):
    clock = tools.Clock()
    grid = tools.timed(
        {1: lambda message: Message(Refusal("unready").error(), reply_to=message), 2: tools.named("b")}, clock
    )
    nodes = NodeNames(["a", "b"], "hello", "run")
    for _ in range(6):
        assert set(nodes.present(grid, 1, 1.0).nodes) == {"b"}
    assert len(grid.grid.sent) == 1 + 3


def refusing(message: Message) -> Message:
    return Message(Refusal("unready").error(), reply_to=message)


def test_one_that_failed_gets_another_chance_some_rounds_later(tools, caplog):
    """Its owner has mended the file meanwhile; the SuperNode never stopped."""
    grid, nodes = tools.timed({1: refusing, 2: tools.named("b")}, tools.Clock()), NodeNames(["a", "b"], "hello", "run")
    for _ in range(7):
        assert set(nodes.present(grid, 1, 1.0).nodes) == {"b"}
    assert len(grid.grid.sent) == 1 + 3
    assert caplog.text.count("node 1 gave no name") == 1  # the same again is not told again
    grid.grid.nodes[1] = tools.named("a")
    assert set(nodes.present(grid, 1, 1.0).nodes) == {"a", "b"}
    assert len(grid.grid.sent) == 1 + 4


def test_one_that_failed_is_asked_at_once_when_it_reconnects(tools):
    grid, nodes = tools.timed({1: refusing, 2: tools.named("b")}, tools.Clock()), NodeNames(["a", "b"], "hello", "run")
    for _ in range(4):
        nodes.present(grid, 1, 1.0)
    del grid.grid.nodes[1]
    nodes.present(grid, 1, 1.0)
    grid.grid.nodes[1] = tools.named("a")
    assert set(nodes.present(grid, 1, 1.0).nodes) == {"a", "b"}


def test_one_that_failed_is_asked_at_once_when_too_few_are_there(tools):
    grid, nodes = tools.timed({1: refusing, 2: tools.named("b")}, tools.Clock()), NodeNames(["a", "b"], "hello", "run")
    for _ in range(4):
        nodes.present(grid, 1, 1.0)
    grid.grid.nodes[1] = tools.named("a")
    assert set(nodes.present(grid, 2, 1.0).nodes) == {"a", "b"}


def test_a_stranger_is_a_candidate_as_soon_as_its_name_joins(tools):
    grid = tools.timed({1: tools.named("a"), 2: tools.named("new", 4)}, tools.Clock())
    nodes = NodeNames(["a"], "hello", "run")
    for _ in range(3):
        assert set(nodes.present(grid, 1, 1.0).nodes) == {"a"}
    assert len(grid.grid.sent) == 2
    nodes.know(["a", "new"])
    found = nodes.present(grid, 1, 1.0)
    assert set(found.nodes) == {"a", "new"}
    assert dict(found.releases) == {"new": 4}  # asked again: its count may have grown
    nodes.know(["new"])  # and the other one left
    assert set(nodes.present(grid, 1, 1.0).nodes) == {"new"}


def test_a_stranger_that_was_renamed_is_noticed_some_rounds_later(tools, caplog):
    grid = tools.timed({1: tools.named("a"), 2: tools.named("typo")}, tools.Clock())
    nodes = NodeNames(["a", "b"], "hello", "run")
    for _ in range(5):
        nodes.present(grid, 1, 1.0)
    grid.grid.nodes[2] = tools.named("b")
    assert set(nodes.present(grid, 1, 1.0).nodes) == {"a", "b"}
    assert caplog.text.count("calls itself 'typo'") == 1


def test_verified_names_may_join_too(tools):
    infos = [NodeInfo(node_id=1, name="a"), NodeInfo(node_id=2, name="b")]
    grid = tools.timed({1: refusing, 2: refusing}, tools.Clock(), infos=infos)
    nodes = NodeNames(["a"], "registered", "run")
    assert dict(nodes.present(grid, 1, 1.0).nodes) == {"a": 1}
    nodes.know(["a", "b"])
    assert dict(nodes.present(grid, 1, 1.0).nodes) == {"a": 1, "b": 2}


@pytest.mark.parametrize("record", [{}, {"name": ""}, {"name": "a\n"}, {"name": "a"}, {"name": "a", "releases": -1}])
def test_a_senseless_note_is_none(record, tools):
    def node(message: Message) -> Message:
        return Message(RecordDict({"pausefl": ConfigRecord(record)}), reply_to=message)

    assert not NodeNames(["a"], "hello", "run").present(tools.timed({1: node}, tools.Clock()), 1, 1.0).nodes


def test_names_that_the_superlink_verified(tools):
    infos = [NodeInfo(node_id=1, name="a", public_key=b"key"), NodeInfo(node_id=2)]
    grid = tools.timed({1: tools.named("liar"), 2: tools.named("liar")}, tools.Clock(), infos=infos)
    assert dict(NodeNames(["a"], "registered", "run").present(grid, 1, 1.0).nodes) == {"a": 1}
    print_of_key = "2c70e12b7a0646f9"  # of sha256(b"key"), as any tool prints it
    assert dict(NodeNames([print_of_key], "key", "run").present(grid, 1, 1.0).nodes) == {print_of_key: 1}
    assert dict(NodeNames([1, 2], "node", "run").present(grid, 1, 1.0).nodes) == {1: 1, 2: 2}
    assert not grid.grid.sent


def test_two_nodes_that_are_registered_under_one_name_are_told_apart_by_nobody(tools, caplog):
    """Whoever may register SuperNodes can choose any name.  The node that was there first stays."""
    infos = [NodeInfo(node_id=number, name=name) for number, name in enumerate("aba", 1)]
    grid = tools.timed({1: refusing, 2: refusing}, tools.Clock(), infos=infos)
    nodes = NodeNames(["a", "b"], "registered", "run")
    assert dict(nodes.present(grid, 2, 1.0).nodes) == {"a": 1, "b": 2}
    grid.grid.nodes[3] = refusing
    assert dict(nodes.present(grid, 2, 1.0).nodes) == {"a": 1, "b": 2}
    assert "node 3 has the name 'a', and so has another node" in caplog.text
    fresh = NodeNames(["a", "b"], "registered", "run")
    assert dict(fresh.present(grid, 1, 1.0).nodes) == {"b": 2}
    assert "register each SuperNode under a name of its own" in fresh.excuses()


@pytest.mark.parametrize("name", ["a\x1b[2K", "a\n", "a" * 201])
def test_a_registered_name_that_no_client_could_give_itself_is_none(tools, name, caplog):
    grid = tools.timed({1: refusing}, tools.Clock(), infos=[NodeInfo(node_id=1, name=name)])
    assert not NodeNames([name], "registered", "run").present(grid, 1, 1.0).nodes
    assert name not in caplog.text
