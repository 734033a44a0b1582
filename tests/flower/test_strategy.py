"""The wrapper with real mods, ledgers and inner strategies, on a grid in memory."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedProx,
    Strategy,
)

from pausefl.errors import InvalidValueError, NotEnoughClientsError, OutOfOrderError
from pausefl.flower import PauseStrategy
from pausefl.flower.testing import MemoryGrid
from pausefl.selection import TiFL
from pausefl.selector import Selector
from pausefl.sim.latency import FlooredNormal


def inner(**more) -> FedAvg:
    return FedAvg(fraction_evaluate=0.0, **more)


def test_the_selector_decides_and_the_ledgers_hold_what_the_server_got(clients, start, tools):
    grid, strategy = tools.grid_of(clients), tools.wrapped()
    result = strategy.start(grid, start, num_rounds=5)
    asked = [sorted(int(str(m)[-1]) for m in played.members) for played in strategy.history]
    assert tools.trained_by(grid) == asked
    assert set().union(*asked[:3]) == set(range(5))  # unknown clients come first
    for client in clients:
        picks = sum(client.number in members for members in asked)
        assert client.charges == picks
        row = strategy._selector.cohort.releases[client.number]
        assert row == picks
    assert sorted(result.train_metrics_clientapp) == [1, 2, 3, 4, 5]
    assert {"pausefl-generalization", "pausefl-privacy", "pausefl-answered"} <= set(result.train_metrics_clientapp[5])
    assert not np.array_equal(result.arrays["w"].numpy(), start["w"].numpy())


def test_the_choice_is_the_selectors_own(clients, start, tools):
    """The same selector alone, told the same latencies, picks the same members."""
    latency = FlooredNormal(np.linspace(0.1, 1.0, 5), std=0.05, floor=0.05)
    strategy, alone = tools.wrapped(latency=latency), tools.selector()
    strategy.start(tools.grid_of(clients), start, num_rounds=6)
    for played in strategy.history:
        chosen = alone.select()
        assert chosen.members == played.members
        alone.observe({client: played.seconds[str(client)] for client in chosen.members})
        spent = alone.spent()[alone.cohort.rows(chosen.members)].tolist()
        assert dict(played.spent) == dict(zip(map(str, chosen.members), spent, strict=True))


@pytest.mark.parametrize(
    "inside",
    [
        inner(), FedProx(fraction_evaluate=0.0, proximal_mu=0.1), FedAdam(fraction_evaluate=0.0),
        FedAvgM(fraction_evaluate=0.0, server_momentum=0.9),
        DifferentialPrivacyServerSideFixedClipping(inner(), 0.1, 1.0, 2),
    ],
    ids=lambda inside: type(inside).__name__,
)  # fmt: skip
def test_other_strategies_work_unmodified(clients, start, inside, tools):
    for client in clients:
        client.app = lambda message, context: tools.as_float32(tools.trained(message, context))
    strategy = tools.wrapped(inside)
    result = strategy.start(tools.grid_of(clients), start, num_rounds=3)
    assert sorted(result.train_metrics_clientapp) == [1, 2, 3]
    assert [dict(played.refused) for played in strategy.history] == [{}, {}, {}]
    assert {array.numpy().dtype for array in result.arrays.values()} == {np.dtype(np.float32)}
    assert not np.array_equal(result.arrays["w"].numpy(), start["w"].numpy())
    assert all(np.isfinite(array.numpy()).all() for array in result.arrays.values())


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        (inner(min_train_nodes=3), "min_train_nodes of the inner strategy is 3"),
        (inner(min_available_nodes=5), "min_available_nodes of the inner strategy is 5"),
        (inner(fraction_train=0.5), "fraction_train of the inner strategy is 0.5"),
        (DifferentialPrivacyServerSideFixedClipping(inner(min_train_nodes=3), 0.1, 1.0, 2), "min_train_nodes"),
        ("FedAvg", "must be a Flower strategy"),
    ],
)
def test_an_inner_strategy_that_would_wait_for_ever_is_refused_up_front(inside, said, tools):
    with pytest.raises(InvalidValueError, match=said):
        tools.wrapped(inside)


@pytest.mark.parametrize(
    "more", [{"fewer": "none"}, {"wait": -1}, {"latency": "guess"}, {"latency": FlooredNormal(np.ones(3), 0.1, 0.1)},
             {"epsilon": 0.0}, {"clip": float("nan")}, {"names": "face"}, {"poll": 0}],
)  # fmt: skip
def test_bad_options_are_refused(more, start, tools):
    with pytest.raises(InvalidValueError):
        tools.wrapped(**more).start(MemoryGrid({}), start)


def test_a_selector_is_needed(tools):
    with pytest.raises(InvalidValueError, match="selector is a str"):
        PauseStrategy(tools.inner(), "selector")


@pytest.mark.parametrize(("policy", "signal"), [("oort", "loss"), ("tifl", "accuracy")])
def test_a_policy_that_feeds_on_signals_is_refused_since_clients_tell_none(policy, signal, tools):
    with pytest.raises(InvalidValueError, match=f"policy is '{policy}', which needs the {signal}"):
        PauseStrategy(tools.inner(), Selector([1] * 5, 2, policy))
    assert PauseStrategy(tools.inner(), Selector([1] * 5, 2, TiFL(adaptive=False)))


def test_too_few_nodes_are_an_error_or_a_smaller_round(clients, start, tools):
    with pytest.raises(NotEnoughClientsError, match="candidates are 1"):
        tools.wrapped().start(tools.grid_of(clients[:1]), start)
    small = tools.wrapped(tools.inner(min_train_nodes=1, min_available_nodes=1), fewer="smaller")
    small.start(tools.grid_of(clients[:1]), start, num_rounds=2)
    assert [played.members for played in small.history] == [("client-0",)] * 2
    with pytest.raises(NotEnoughClientsError, match="round 1 needs 2"):  # FedAvg's own minimum
        tools.wrapped(fewer="smaller").start(tools.grid_of(clients[:1]), start)
    with pytest.raises(NotEnoughClientsError, match="candidates are 0"):
        tools.wrapped().start(MemoryGrid({}), start)


def test_a_second_start_is_no_repetition_of_the_first(clients, start, tools):
    strategy = tools.wrapped(chooser=tools.selector(per_round=5), inside=tools.inner())
    for _ in range(2):
        strategy.start(tools.grid_of(clients), start, num_rounds=1)
    assert [client.charges for client in clients] == [2] * 5
    assert [played.round for played in strategy.history] == [1, 1]


def test_a_stricter_wish_reaches_the_client(clients, start, tools):
    grid = tools.grid_of(clients)
    tools.wrapped(clip=0.25).start(grid, start, num_rounds=1)
    asked = [record for m in grid.sent if not (record := m.content.config_records["pausefl"])["hello"]]
    assert asked and {record["clip"] for record in asked} == {0.25}
    used = {charge.mechanism for client in clients if client.charges for charge in client.ledger.charges(client.name)}
    assert len(used) == 1 and "l2=1.0" in used.pop()  # the noise is the owner's


def test_requests_expire_with_their_round(clients, start, tools):
    grid = tools.grid_of(clients)
    tools.wrapped().start(grid, start, num_rounds=1, timeout=600)
    assert {m.metadata.ttl for m in grid.sent if not m.content.config_records["pausefl"]["hello"]} == {600}


def test_evaluation_is_left_out_rather_than_waited_for(clients, start, tools):
    inside = FedAvg(min_evaluate_nodes=9, min_available_nodes=2)
    result = tools.wrapped(inside).start(tools.grid_of(clients), start, num_rounds=1)
    assert result.evaluate_metrics_clientapp == {}


def test_evaluation_goes_to_those_that_are_there(clients, start, tools):
    for client in clients:
        client.write(tools.SIMULATED + 'messages = ["evaluate"]\n')
    grid = tools.grid_of(clients)
    seen: list[int] = []
    result = tools.wrapped(FedAvg()).start(
        grid, start, num_rounds=1, evaluate_fn=lambda number, arrays: seen.append(number) or MetricRecord({"x": 1.0})
    )
    assert 1 in result.evaluate_metrics_clientapp
    assert seen == [0, 1]
    assert sum(message.metadata.message_type == "evaluate" for message in grid.sent) == 5


def test_nobody_that_the_selector_does_not_know_is_asked_to_evaluate(clients, start, tools):
    for client in clients:
        client.write(tools.SIMULATED + 'messages = ["evaluate"]\n')
    grid = tools.grid_of(clients)
    tools.wrapped(FedAvg(), tools.selector(3)).start(grid, start, num_rounds=1)
    asked = [m.metadata.dst_node_id for m in grid.sent if m.metadata.message_type == "evaluate"]
    assert sorted(asked) == [100, 101, 102]


def test_an_inner_strategy_that_asks_others_is_stopped(clients, start, tools):
    class Wilful(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            return [Message(RecordDict({"arrays": arrays}), 104, "train")]

    with pytest.raises(OutOfOrderError, match="asks 1 nodes, but 2 were chosen"):
        tools.wrapped(Wilful(fraction_evaluate=0.0)).start(tools.grid_of(clients), start)


def test_it_keeps_the_time_itself(clients, start, tools):
    outer = DifferentialPrivacyServerSideFixedClipping(tools.wrapped(), 0.1, 1.0, 2)
    with pytest.raises(OutOfOrderError, match="put other strategies inside"):
        outer.start(tools.grid_of(clients), start)
    with pytest.raises(OutOfOrderError, match="no open round"):
        tools.wrapped().aggregate_train(1, [])
    assert isinstance(outer, Strategy)


@pytest.mark.parametrize("policy", ["clustered", "clustered-similarity"])
def test_policies_with_weights_of_their_own_and_those_that_compare_updates(clients, start, tools, policy):
    strategy = tools.wrapped(
        tools.inner(min_train_nodes=1, min_available_nodes=1), tools.selector(policy=policy), fewer="smaller"
    )
    result = strategy.start(tools.grid_of(clients), start, num_rounds=1)
    assert 1 in result.train_metrics_clientapp


def test_the_summary_says_who_was_picked_and_why(clients, start, caplog, tools):
    strategy = tools.wrapped()
    strategy.start(tools.grid_of(clients), start, num_rounds=1)
    strategy.summary()
    members = ", ".join(str(member) for member in strategy.history[0].members)
    assert f"round 1: picked {members} (speed unbounded, generalization" in caplog.text
    assert "budget is spent: nobody's" in caplog.text


def test_evaluations_with_unlike_metrics_are_averaged_and_expire(clients, start, tools):
    for client in clients:
        allow = '["num-examples", "loss"]' if client.number else "[]"
        client.write(tools.SIMULATED.replace('["num-examples"]', allow) + 'messages = ["evaluate"]\n')
    grid = tools.grid_of(clients)
    result = tools.wrapped(FedAvg()).start(grid, start, num_rounds=1, timeout=600)
    assert 1 in result.evaluate_metrics_clientapp
    assert {m.metadata.ttl for m in grid.sent if m.metadata.message_type == "evaluate"} == {600}


def test_clients_may_join_and_leave_between_rounds(clients, start, tools):
    chooser = tools.selector(3, per_round=3)
    strategy = tools.wrapped(chooser=chooser, fewer="smaller")

    def change(number, arrays):
        if number == 1:
            chooser.join({"client-3": 5.0})
            chooser.leave(["client-0"])

    strategy.start(tools.grid_of(clients[:4]), start, num_rounds=2, evaluate_fn=change)
    assert [set(played.members) for played in strategy.history] == [
        {"client-0", "client-1", "client-2"},
        {"client-1", "client-2", "client-3"},
    ]
