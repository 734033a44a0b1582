"""Evaluation on the nodes: those who refuse are counted in one line, and are not asked again."""

from __future__ import annotations

import pytest
from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

import pausefl
from pausefl.flower.protocol import Refusal
from pausefl.flower.testing import MemoryGrid
from pausefl.privacy import FixedHorizon


def evaluations(grid) -> list[int]:
    return [one.metadata.dst_node_id for one in grid.sent if one.metadata.message_type == "evaluate"]


def test_refusals_are_one_warning_and_nobody_is_asked_twice(clients, start, tools, caplog):
    grid = tools.grid_of(clients)
    strategy = tools.wrapped(FedAvg())
    result = strategy.start(grid, start, num_rounds=6)
    assert len(strategy.history) == 6
    assert caplog.text.count("refuse evaluation") == 1
    assert "5 nodes refuse evaluation: the data owner does not allow messages of this kind; they are not" in caplog.text
    assert sorted(evaluations(grid)) == [100, 101, 102, 103, 104]
    assert not result.evaluate_metrics_clientapp


def test_those_who_allow_it_are_asked_in_each_round(clients, start, tools, caplog):
    for client in clients[:3]:
        client.write(tools.SIMULATED + 'messages = ["evaluate"]\n')
    grid = tools.grid_of(clients)
    result = tools.wrapped(FedAvg()).start(grid, start, num_rounds=3)
    assert "2 nodes refuse evaluation" in caplog.text and caplog.text.count("evaluation:") == 1
    assert sorted(evaluations(grid)) == [100, 100, 100, 101, 101, 101, 102, 102, 102, 103, 104]
    assert sorted(result.evaluate_metrics_clientapp) == [1, 2, 3]


def test_a_node_that_refuses_for_now_is_asked_again(clients, start, tools, caplog):
    def unready(message: Message) -> Message:
        return Message(Refusal("unready").error(), reply_to=message)

    grid = tools.grid_of(clients[:2])
    honest = dict(grid.nodes)
    for node, answer in honest.items():
        grid.nodes[node] = lambda message, answer=answer: (
            unready(message) if message.metadata.message_type == "evaluate" else answer(message)
        )
    chooser = tools.selector(2, schedule=FixedHorizon(8.0, 4))
    tools.wrapped(FedAvg(), chooser).start(grid, start, num_rounds=2)
    assert caplog.text.count("2 nodes refuse evaluation: the owner's file or ledger cannot be used") == 2
    assert len(evaluations(grid)) == 4


def test_a_second_run_of_a_strategy_asks_again(clients, start, tools):
    grid = tools.grid_of(clients)
    strategy = tools.wrapped(FedAvg())
    strategy.start(grid, start, num_rounds=1)
    strategy.start(grid, start, num_rounds=1)
    assert len(evaluations(grid)) == 10


def test_too_few_nodes_are_told_as_before(clients, start, tools, caplog):
    strategy = tools.wrapped(FedAvg(min_evaluate_nodes=9))
    strategy.start(tools.grid_of(clients), start, num_rounds=1)
    assert "because 5 nodes are there and it needs 9" in caplog.text


@pytest.mark.parametrize("claimed", [1e308, 2.0**60, -3.0, 0.0])
def test_nobody_outweighs_all_others_by_a_claim_that_no_training_may_make(start, tools, claimed):
    """A client that claims more than 2^53 examples counts once, as one that claims none."""

    def node(weight: float, accuracy: float):
        def answer(message: Message) -> Message:
            values = MetricRecord({"num-examples": weight, "accuracy": accuracy})
            if message.metadata.message_type == "evaluate":
                return Message(RecordDict({"metrics": values}), reply_to=message)
            return tools.trained(message, None)

        return answer

    grid = MemoryGrid({0: node(claimed, 1.0), 1: node(1.0, 0.5)})
    strategy = tools.wrapped(FedAvg(), pausefl.Selector([1.0, 1.0], 2), names="node")
    result = strategy.start(grid, start, num_rounds=1)
    assert result.evaluate_metrics_clientapp[1]["accuracy"] == 0.75


def test_a_process_that_plays_many_clients_logs_the_same_refusal_once(clients, start, tools, caplog, monkeypatch):
    monkeypatch.setattr("pausefl.flower.client._told", set())
    for client in clients:
        client.write(tools.SIMULATED)
    tools.wrapped(FedAvg()).start(tools.grid_of(clients), start, num_rounds=2)
    loud = [one for one in caplog.records if one.levelname == "WARNING" and "not allow 'evaluate'" in one.getMessage()]
    assert len(loud) == 1


def test_a_client_of_a_deployment_logs_every_refusal(client, caplog):
    for _ in range(3):
        client.ask(kind="evaluate")
    loud = [one for one in caplog.records if one.levelname == "WARNING" and "not allow 'evaluate'" in one.getMessage()]
    assert len(loud) == 3
