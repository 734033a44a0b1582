"""That the right parts are joined: what one side is given reaches the part of the other side that must have it."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest
from flwr.app import Message, MetricRecord, RecordDict

import pausefl
from pausefl.flower.testing import MemoryGrid
from pausefl.privacy import FixedHorizon
from pausefl.selection.clustered import ClusteredBySimilarity

LAPLACE = '[mechanism]\nkind = "laplace"\nunit = "coordinate"\nwidth = 0.5\n'


def adding(tools, amounts):
    """A node for each amount, which adds that much to every number of the model; all weigh the same."""

    def node(amount):
        def answer(message: Message) -> Message:
            arrays = {name: array.numpy() + np.float32(amount) for name, array in message.content["arrays"].items()}
            content = {"arrays": tools.record(arrays), "metrics": MetricRecord({"num-examples": 1})}
            return Message(RecordDict(content), reply_to=message)

        return answer

    return MemoryGrid({number: node(amount) for number, amount in enumerate(amounts)})


def test_a_policy_that_learns_gets_every_update(start, tools):
    policy = ClusteredBySimilarity()
    chooser = pausefl.Selector([1.0] * 4, 4, policy=policy)
    tools.wrapped(tools.inner(), chooser, names="node").start(adding(tools, [1, -2, 3, 0.5]), start, num_rounds=1)
    coordinates = sum(array.numpy().size for array in start.values())
    learned = {row: sketch[:coordinates] for row, sketch in policy.sketches.items()}
    assert sorted(learned) == [0, 1, 2, 3]
    for row, amount in enumerate([1, -2, 3, 0.5]):
        assert np.allclose(learned[row], amount, atol=1e-6)


def test_what_a_policy_learned_decides_the_next_round(start, tools):
    """Two pairs of clients with like updates: one of each pair trains from then on, never both."""
    chooser = pausefl.Selector([1.0] * 4, 2, policy="clustered-similarity", seed=3)
    strategy = tools.wrapped(
        tools.inner(min_train_nodes=1, min_available_nodes=1), chooser, names="node", fewer="smaller"
    )
    strategy.start(adding(tools, [1, 1, -1, -1]), start, num_rounds=40)
    seen: set[int] = set()
    for played in strategy.history:
        if len(seen) == 4:
            assert len(set(played.members) & {0, 1}) == 1, played
        seen |= set(played.members)
    assert len(seen) == 4


def test_weights_of_draws_with_replacement_weigh_the_average(start, tools):
    """A client drawn twice out of three trains once, and counts twice."""
    sizes, amounts = [40.0, 10.0, 10.0], [1.0, 10.0, 100.0]
    alone = pausefl.Selector(sizes, 3, policy="clustered", seed=1).select()
    assert alone.weights is not None
    assert alone.weights[0] == pytest.approx(2 / 3)  # not the 1/2 of two equals
    expected = sum(alone.weights[client] * amounts[client] for client in alone.members)
    chooser = pausefl.Selector(sizes, 3, policy="clustered", seed=1)
    strategy = tools.wrapped(
        tools.inner(min_train_nodes=1, min_available_nodes=1), chooser, names="node", fewer="smaller"
    )
    result = strategy.start(adding(tools, amounts), start, num_rounds=1)
    for name, before in tools.model().items():
        assert np.allclose(result.arrays[name].numpy() - before, expected, atol=1e-4)


def noise_of(clients, tools, **wishes) -> float:
    """The mean size of the clients' Laplace noise in a round with these wishes, where training changes nothing."""
    zeros = {"w": np.zeros(5_000)}
    cut, end = tools.OWNER.index("[mechanism]"), tools.OWNER.index("[replies]")
    grid, replies = tools.grid_of(clients), []

    def unchanged(message: Message, context) -> Message:
        return Message(RecordDict({"arrays": message.content["arrays"], "metrics": MetricRecord({})}), reply_to=message)

    def recorded(client):
        def answer(message: Message) -> Message:
            reply = client.answer(message)
            replies.extend(array["w"].numpy() for array in reply.content.array_records.values())
            return reply

        return answer

    for client in clients:
        client.write(tools.OWNER[:cut] + LAPLACE + tools.OWNER[end:])
        client.app = unchanged
    grid.nodes = {node: recorded(client) for node, client in zip(grid.nodes, clients, strict=True)}
    tools.wrapped(chooser=tools.selector(per_round=5), **wishes).start(grid, tools.record(zeros), num_rounds=1)
    assert len(replies) == 5
    return float(np.abs(replies).mean())


@pytest.mark.parametrize(
    ("wishes", "size"),
    [({}, 0.25), ({"epsilon": 0.5}, 1.0), ({"clip": 0.1}, 0.25), ({"epsilon": 0.5, "clip": 0.1}, 1.0)],
    ids=["none", "epsilon", "clip", "both"],
)
def test_a_smaller_epsilon_makes_the_noise_louder_and_a_smaller_clip_leaves_it(clients, tools, wishes, size):
    """Laplace noise has a mean size of width / epsilon; the owners have 0.5 / 2."""
    assert noise_of(clients, tools, **wishes) == pytest.approx(size, rel=0.05)
    for client in clients:
        [charge] = client.ledger.charges(client.name)
        assert charge.epsilon == FixedHorizon(8.0, 4).epsilon(1)  # charged in full all the same


@pytest.mark.parametrize(("what", "most"), [("hello", 1), ("train", 2), ("replay", 2), ("exhausted", 2)])
def test_a_message_opens_the_ledger_no_more_often_than_needed(client, monkeypatch, what, most):
    """Once to check it all, and once more to charge it and to read it back from the disk."""
    for number in range(4 if what == "exhausted" else 1):
        client.ask(round=number + 1)
    opened = []
    real = sqlite3.connect

    def connect(*arguments, **more):
        opened.append(str(arguments[0]))
        return real(*arguments, **more)

    monkeypatch.setattr(sqlite3, "connect", connect)
    request = {"hello": {"round": 0, "more": {"hello": True}}, "train": {"round": 2}, "replay": {"round": 1}}
    reply = client.ask(**request.get(what, {"round": 9}))
    monkeypatch.undo()
    assert reply.has_error() == (what == "exhausted")
    assert len(opened) <= most, opened
