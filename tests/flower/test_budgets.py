"""When budgets run out, by the clients' word or by their count."""

from __future__ import annotations

import pytest

import pausefl
from pausefl.errors import NotEnoughClientsError


def test_those_without_budget_leave_the_pool_and_the_run_ends_when_nobody_is_left(clients, start, tools):
    """The server believes in endless budgets; the clients have four releases each."""
    generous = tools.selector(schedule=pausefl.Geometric(40.0, 0.04))
    strategy = tools.wrapped(tools.inner(min_train_nodes=1, min_available_nodes=1), generous, fewer="smaller")
    result = strategy.start(tools.grid_of(clients), start, num_rounds=50)
    assert strategy.exhausted == {client.name for client in clients}
    assert [client.charges for client in clients] == [4] * 5
    asked = [member for played in strategy.history for member in played.members]
    assert all(asked.count(client.name) == 5 for client in clients)  # four releases and one refusal
    assert len(result.train_metrics_clientapp) == len(strategy.history) < 50


def test_a_client_at_the_end_of_the_servers_schedule_is_no_candidate(clients, start, tools):
    """The inner strategy wants two: one solvent node is too few, and nobody waits for a second."""
    for client in clients[1:]:
        for number in range(4):
            client.ask(run="earlier", round=number + 1)
    with pytest.raises(NotEnoughClientsError, match=r"candidates are 1 \(5 there, 4 without budget\)"):
        tools.wrapped(fewer="smaller").start(tools.grid_of(clients), start)


def test_the_clients_count_corrects_the_servers(clients, start, tools):
    for number in range(3):
        clients[0].ask(run="earlier", round=number + 1)
    strategy = tools.wrapped()
    strategy.start(tools.grid_of(clients), start, num_rounds=1)
    picked = int("client-0" in strategy.history[0].members)
    assert strategy._selector.cohort.releases[0] == 3 + picked
    assert strategy._selector.spent()[0] == pytest.approx(2.0 * (3 + picked))
