"""When every node is kept out for the same reason, the run fails at once and says what to do."""

from __future__ import annotations

import re

import pytest
from flwr.app import Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo

import pausefl
from pausefl.errors import InvalidValueError, NotEnoughClientsError
from pausefl.flower import Checkpoint
from pausefl.flower.protocol import Refusal
from pausefl.flower.server.clients_and_nodes import AvailableClients, NodeNames
from pausefl.flower.server.training_rounds import RunState
from pausefl.flower.testing import MemoryGrid
from pausefl.privacy import Geometric
from pausefl.sim.latency import two_groups


def failing(code: int, reason: str):
    return lambda message: Message(Error(code=code, reason=reason), reply_to=message)


def refusing(message: Message) -> Message:
    return Message(Refusal("unready").error(), reply_to=message)


RAISED = failing(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, "\x1b[36mray\x1b[39m\n  File x\n\nKeyError: 'arrays'\n'>")
UNLOADED = failing(ErrorCode.LOAD_CLIENT_APP_EXCEPTION, "No module named 'pausefl'")


def error_of(tools, nodes, names="hello", count=10, **more) -> tuple[str, float]:
    """What a run with so many clients says of these nodes, and after how many seconds."""
    clock = tools.Clock()
    grid = tools.timed(nodes, clock, **more)
    available = AvailableClients(tools.selector(count), names, "ignore", 2, 60.0, RunState("run"))
    with pytest.raises(NotEnoughClientsError) as caught:
        available.ready(grid, 1)
    return str(caught.value), clock.now - 100.0


MOD = "if you want privacy, write ClientApp(mods=[PrivateUpdate()]) in the app; for selection without privacy"


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (RAISED, f"has an app without pausefl's mod, which failed: Flower's error 2: \"KeyError: 'arrays'\"; {MOD}"),
        (lambda message: Message(RecordDict(), reply_to=message), f"answered without pausefl's mod; {MOD}"),
        (refusing, "gave no name: pausefl refuses (unready): the owner's file or ledger cannot be used; the client's "
                   "log says why; name the owner's file: PrivateUpdate(owner=FILE) in a simulation"),
        (UNLOADED, "gave no name: Flower's error 1: \"No module named 'pausefl'\"; install what the app imports"),
    ],
)  # fmt: skip
def test_one_reason_for_all_nodes_is_told_at_once(tools, node, said):
    message, waited = error_of(tools, dict.fromkeys(range(10), node))
    assert f"but round 1 needs 2; 10 connected nodes are left out: each {said}" in message
    assert waited == 0.0


def test_names_that_nobody_knows_are_told_at_once_with_those_that_are_known(tools):
    message, waited = error_of(tools, {n: tools.named(f"clinic-{n}") for n in range(10)})
    assert re.search(r"each calls itself 'clinic-\d', which the selector does not know; the selector knows", message)
    assert (
        "knows 'client-0', 'client-1', 'client-2', …; give it the names of the nodes, or pass newcomers='join'"
        in message
    )
    assert waited == 0.0
    infos = [NodeInfo(node_id=n) for n in range(10)]
    message, waited = error_of(tools, dict.fromkeys(range(10), refusing), "registered", infos=infos)
    assert "each gave no name; names='registered' needs SuperNodes with keys" in message
    assert waited == 0.0


def test_more_nodes_may_come_so_that_fewer_than_all_are_given_a_moment(tools):
    """Two of ten clients are there, which would do for a round; the other eight may be on their way."""
    message, waited = error_of(tools, dict.fromkeys(range(2), refusing))
    assert "2 connected nodes are left out" in message
    assert 14.0 < waited < 16.0
    message, waited = error_of(tools, {1: refusing})  # fewer than a round needs: others are waited for
    assert "1 connected node is left out: it gave no name" in message
    assert waited >= 60.0


def test_two_reasons_are_waited_for_and_both_told(tools):
    message, waited = error_of(tools, {**dict.fromkeys(range(7), refusing), **dict.fromkeys(range(7, 10), RAISED)})
    assert "7 connected nodes are left out: each gave no name: pausefl refuses (unready)" in message
    assert "3 connected nodes are left out: each has an app without pausefl's mod" in message
    assert waited >= 60.0


def test_nodes_that_are_slow_to_say_their_names_are_told_apart_from_nodes_that_are_missing(tools):
    """A busy machine takes long to start their processes; more nodes would not help."""
    message, waited = error_of(tools, dict.fromkeys(range(10), lambda message: None))
    assert (
        "needs 2; 10 connected nodes have not said their names yet; wait longer, for example with wait=600.0" in message
    )
    assert waited == pytest.approx(300.0, abs=0.2)
    clock = tools.Clock()
    slow = {n: tools.after(clock, 200.0, tools.named(f"client-{n}")) for n in range(2)}
    available = AvailableClients(tools.selector(10), "hello", "ignore", 2, 60.0, RunState("run"))
    assert len(available.ready(tools.timed(slow, clock), 1)) == 2
    assert "needs 2; start more nodes, wait longer" in error_of(tools, {})[0]


def test_what_the_superlink_says_in_a_nodes_place_is_no_reason_to_give_up(tools):
    def lost(message: Message) -> Message:
        reply = Message(Error(code=ErrorCode.NODE_UNAVAILABLE, reason="gone"), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = 1
        return reply

    message, waited = error_of(tools, dict.fromkeys(range(100, 110), lost))
    assert "10 connected nodes are left out: each gave no name: 'gone'" in message
    assert waited >= 60.0


def test_one_node_that_answers_is_reason_enough_to_go_on(tools):
    found = NodeNames(["a", "b"], "hello", "run").present(
        tools.timed({1: refusing, 2: tools.named("a")}, tools.Clock()), 1, 60.0
    )
    assert dict(found.nodes) == {"a": 2}


def test_nodes_with_ids_beyond_63_bits_play_a_run_and_its_checkpoint(tools, start, tmp_path):
    """As Flower's node ids are; no client has the mod."""
    ids = [2**64 - 1 - n for n in range(3)]
    grid = MemoryGrid({node: lambda message: tools.trained(message, None) for node in ids})
    path = tmp_path / "run.state"

    def play(rounds):
        strategy = tools.wrapped(chooser=pausefl.Selector(dict.fromkeys(ids, 1.0), 2), names="node", checkpoint=path)
        strategy.start(grid, start, num_rounds=rounds)
        return strategy

    play(1)
    assert set(play(2).history[1].members) > set(ids) - set(Checkpoint.read(path).history[0].members)
    assert Checkpoint.read(path).round == 2


def test_a_node_that_connects_later_joins_and_is_tried(tools, start, caplog):
    """Whoever knows nodes by their ids only cannot list those that come, or come back, in mid-run."""
    grid = MemoryGrid({node: lambda message: tools.trained(message, None) for node in (2**63, 7)})
    chooser = pausefl.Selector({2**63: 10.0, 7: 30.0}, 2)
    strategy = tools.wrapped(chooser=chooser, names="node", newcomers="join")

    def come(number, _):
        if number == 1:
            grid.nodes[2**63 + 5] = grid.nodes.pop(7)

    strategy.start(grid, start, num_rounds=2, evaluate_fn=come)
    assert [set(played.members) for played in strategy.history] == [{2**63, 7}, {2**63, 2**63 + 5}]
    assert chooser.cohort.sizes.tolist() == [10.0, 30.0, 20.0]
    assert "not a candidate" not in caplog.text


@pytest.mark.parametrize("crash", [1, 2, 3, 4, 5])
def test_those_that_joined_are_clients_again_after_a_crash(tools, start, tmp_path, crash):
    """The next server finds other nodes, in another order, and still goes on as if nothing had happened."""

    def play(path, listed, crash=0):
        nodes = (2**63, 7, 9) if crash or len(listed) == 2 else (9, 5, 7, 2**63)
        grid = MemoryGrid({node: lambda message: tools.trained(message, None) for node in nodes})
        strategy = tools.wrapped(
            chooser=pausefl.Selector(listed, 2, "random", prior={7: 3.0}), names="node", newcomers="join",
            checkpoint=path,
        )  # fmt: skip
        arrive(strategy, grid)
        if crash:
            tools.crashing(grid, crash)
        return strategy.start(grid, start, num_rounds=6), strategy

    def arrive(strategy, grid):
        """One more node comes before the third round."""
        real = strategy.configure_train

        def configure_train(number, *rest):
            if number >= 3:
                grid.nodes.setdefault(5, grid.nodes[7])
            else:
                grid.nodes.pop(5, None)
            return real(number, *rest)

        strategy.configure_train = configure_train

    whole, one = play(tmp_path / "whole", {2**63: 10.0, 7: 30.0})
    with pytest.raises(tools.CrashError):
        play(tmp_path / "cut", {2**63: 10.0, 7: 30.0}, crash)
    listed = {2**63: 10.0, 7: 30.0} if crash == 1 else {9: 1.0, 7: 1.0, 5: 1.0}
    cut, other = play(tmp_path / "cut", listed)
    assert [played.members for played in other.history] == [played.members for played in one.history]
    assert one._selector.cohort.ids == other._selector.cohort.ids == [2**63, 7, 9, 5]
    for column in ("sizes", "picks", "releases", "present"):
        assert getattr(other._selector.cohort, column).tolist() == getattr(one._selector.cohort, column).tolist()
    assert {name: array.data for name, array in cut.arrays.items()} == {
        name: array.data for name, array in whole.arrays.items()
    }


def test_newcomers_need_a_list_that_is_not_fixed(tools):
    with pytest.raises(InvalidValueError, match="latency is"):
        tools.wrapped(newcomers="join", latency=two_groups(5))
    with pytest.raises(InvalidValueError, match="newcomers is 'refuse', but must be 'ignore' or 'join'"):
        tools.wrapped(newcomers="refuse")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"schedule": {7: Geometric(40.0, 0.04), 9: Geometric(20.0, 0.04)}}, "schedule is 'one per client'"),
        ({"clusters": {7: 0, 9: 1}}, "clusters is 'one per client'"),
    ],
)
def test_newcomers_need_a_selector_that_they_can_join(tools, more, said):
    """Otherwise the first stranger that connects would end the run."""
    with pytest.raises(InvalidValueError, match=said):
        tools.wrapped(chooser=pausefl.Selector({7: 1.0, 9: 1.0}, 2, **more), names="node", newcomers="join")


@pytest.mark.parametrize(
    ("names", "more", "warned"),
    [("node", {}, 0), ("node", {"epsilon": 0.5}, 1), ("node", {"clip": 0.5}, 1), ("registered", {}, 1)],
)
def test_updates_without_noise_are_told_once_where_privacy_may_be_meant(tools, start, caplog, names, more, warned):
    infos = [NodeInfo(node_id=node, name=str(node)) for node in (7, 9)]
    grid = MemoryGrid({node: lambda message: tools.trained(message, None) for node in (7, 9)}, infos)
    strategy = tools.wrapped(chooser=pausefl.Selector({7: 1.0, 9: 1.0}, 2), names=names, **more)
    strategy.start(grid, start, num_rounds=3)
    assert len(strategy.history) == 3
    assert caplog.text.count("2 of 2 replies came without pausefl's mod, so these updates are NOT private") == warned
