"""When budgets run out, by the clients' word or by their count."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

import pausefl
from pausefl.errors import NotEnoughClientsError
from pausefl.flower import Checkpoint
from pausefl.flower.protocol import Note
from pausefl.flower.testing import MemoryGrid
from pausefl.privacy import FixedHorizon, PrivUnit


def test_those_without_budget_leave_the_pool_and_the_run_ends_when_nobody_is_left(clients, start, tools):
    """The server believes in endless budgets; the clients have four releases each."""
    generous = tools.selector(schedule=pausefl.Geometric(40.0, 0.04))
    strategy = tools.wrapped(tools.inner(min_train_nodes=1, min_available_nodes=1), generous, fewer="smaller")
    result = strategy.start(tools.grid_of(clients), start, num_rounds=50)
    assert strategy.exhausted == {client.name for client in clients}
    assert [client.charges for client in clients] == [4] * 5
    asked = [member for played in strategy.history for member in played.members]
    assert all(asked.count(client.name) == 4 for client in clients)  # with the fourth they say that nothing is left
    assert len(result.train_metrics_clientapp) == len(strategy.history) < 50


def test_too_few_budgets_end_the_run_where_too_few_nodes_are_an_error(clients, start, tools, caplog, tmp_path):
    """Two of five have budget left, as they say when asked who they are; a round wants three."""
    for client in clients[2:]:
        for number in range(4):
            client.ask(run="earlier", round=number + 1)
    path = tmp_path / "run.state"
    strategy = tools.wrapped(chooser=tools.selector(per_round=3), checkpoint=path)
    result = strategy.start(tools.grid_of(clients), start, num_rounds=3)
    said = "2 of 5 clients have budget left, but a round needs 3, so the run ends after round 0 and returns its model"
    assert said in caplog.text
    assert np.array_equal(result.arrays["w"].numpy(), start["w"].numpy())
    assert strategy.history == ()
    assert Checkpoint.read(path).round == 0
    with pytest.raises(NotEnoughClientsError, match=r"candidates are 2 \(2 there, 0 without budget\)"):
        tools.wrapped(chooser=tools.selector(per_round=3)).start(tools.grid_of(clients[:2]), start)


def test_a_run_whose_budgets_run_out_keeps_everything_and_does_not_wait(clients, start, tools, caplog, tmp_path):
    """Four releases each, five clients, two per round: ten rounds, or fewer where one client is left over."""
    path = tmp_path / "run.state"
    strategy = tools.wrapped(checkpoint=path, wait=3600.0)
    result = strategy.start(tools.grid_of(clients), start, num_rounds=50)
    assert "the run ends after round" in caplog.text
    assert 8 <= len(strategy.history) <= 10
    assert sorted(result.train_metrics_clientapp) == [played.round for played in strategy.history]
    found = Checkpoint.read(path)
    assert found.round == len(found.history) == len(strategy.history)
    again = tools.wrapped(checkpoint=path, wait=3600.0)
    same = again.start(tools.grid_of(clients), start, num_rounds=50)  # over at once, and still no error
    assert again.history == strategy.history
    assert np.array_equal(same.arrays["w"].numpy(), result.arrays["w"].numpy())


def test_smaller_rounds_end_at_the_inner_strategys_minimum(clients, start, tools, caplog):
    """It wants two: one solvent client is too few, and nobody waits for a second."""
    for client in clients[1:]:
        for number in range(4):
            client.ask(run="earlier", round=number + 1)
    tools.wrapped(fewer="smaller").start(tools.grid_of(clients), start)
    assert "1 of 5 clients have budget left, but a round needs 2" in caplog.text


def test_the_clients_count_corrects_the_servers(clients, start, tools):
    for number in range(3):
        clients[0].ask(run="earlier", round=number + 1)
    strategy = tools.wrapped()
    strategy.start(tools.grid_of(clients), start, num_rounds=1)
    picked = int("client-0" in strategy.history[0].members)
    assert strategy._selector.cohort.releases[0] == 3 + picked
    assert strategy._selector.spent()[0] == pytest.approx(2.0 * (3 + picked))


def test_silence_is_not_the_end_of_a_budget(clients, start, tools):
    """Nobody answers for a while: picks count, for all the server knows, but the clients have their budget still."""
    deaf = [True]
    grid = MemoryGrid({n: lambda m: None if deaf[0] else tools.trained(m, None) for n in range(3)})
    strategy = tools.wrapped(chooser=pausefl.Selector([1.0] * 3, 2, schedule=FixedHorizon(8.0, 2)), names="node")

    def hear(number, _):
        deaf[0] = number < 6

    strategy.start(grid, start, num_rounds=20, timeout=0.01, evaluate_fn=hear)
    assert [len(played.seconds) for played in strategy.history] == [0] * 6 + [2]
    assert len(strategy.exhausted) == 2  # by their answers, as no client told a count; too few are left for a round


def test_clients_without_the_mod_end_by_their_answers(clients, start, tools):
    grid = MemoryGrid({n: lambda m: tools.trained(m, None) for n in range(4)})
    strategy = tools.wrapped(chooser=pausefl.Selector([1.0] * 4, 2, schedule=FixedHorizon(8.0, 3)), names="node")
    strategy.start(grid, start, num_rounds=20)
    assert strategy.exhausted == {0, 1, 2, 3}
    assert len(strategy.history) == 6


def test_limits_of_clients_that_have_schedules_of_their_own(tools) -> None:
    schedules = {0: FixedHorizon(8.0, 1), 1: FixedHorizon(8.0, 3), 2: FixedHorizon(8.0, 2)}
    chooser = pausefl.Selector([1.0] * 3, 3, schedule=schedules)
    strategy = tools.wrapped(chooser=chooser, names="node")
    learn = strategy._available.learn
    learn({0: 1, 1: 1})
    assert strategy.exhausted == {0}
    chooser.select(allow_fewer=True)
    chooser.observe({})
    chooser.select(allow_fewer=True)
    chooser.observe({})  # silent twice: 1 has made 3 by the server's guess, and 2 has made 2
    learn({}, answered=[2])
    assert strategy.exhausted == {0, 2}
    assert chooser.cohort.releases.tolist() == [1, 2, 2]  # whoever has not answered may be asked once more


def test_the_selector_goes_by_what_clients_say_of_their_budgets(clients, start, tools):
    """The server believes in a budget of 40 that fades; the clients have four equal releases, and say so."""
    selector = tools.selector(schedule=pausefl.Geometric(40.0, 0.04))
    strategy = tools.wrapped(tools.inner(), selector)
    strategy.start(tools.grid_of(clients), start, num_rounds=1)
    members = selector.cohort.rows(strategy.history[0].members)
    others = np.setdiff1d(np.arange(5), members)
    left = selector.problem().terms().privacy
    assert left[members] == pytest.approx(0.75)
    assert left[others] == pytest.approx(1.0)
    level = PrivUnit(l2=1.0).noise_level(15, FixedHorizon(8.0, 4).epsilon(2))
    assert selector.cohort.noise[members] == pytest.approx(level.noise)
    assert np.isnan(selector.cohort.noise[others]).all()


@pytest.mark.parametrize("word", [math.nan, math.inf, -0.1, 1.5, "much", True, [0.5]])
def test_senseless_words_about_a_budget_are_no_words(word):
    note = ConfigRecord({"name": "client-0", "releases": 1})
    note["left"] = note["next-noise"] = word
    message = Message(RecordDict({"pausefl": note}), 1, "train")
    found = Note.of(message)
    assert found is not None and found.left is None
    assert found.next_noise is None or word == 1.5
