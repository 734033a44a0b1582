"""Which seconds count."""

from __future__ import annotations

import time

import numpy as np
import pytest
from flwr.app import Message

from pausefl.errors import InvalidValueError
from pausefl.flower.protocol import Note
from pausefl.flower.server.replies import latencies
from pausefl.selector.cohort import Cohort
from pausefl.sim.latency import FlooredNormal


def test_reported_seconds_are_a_hint_within_the_round_trip(clients, start, tools):
    for client in clients:
        client.write(tools.SIMULATED.replace('["num-examples"]', '["seconds"]'))
    strategy = tools.wrapped(latency="reported", chooser=tools.selector(per_round=5))
    strategy.start(tools.grid_of(clients), start, num_rounds=1)
    measured = tools.wrapped(chooser=tools.selector(per_round=5))
    for client in clients:
        client.write(tools.OWNER)
    measured.start(tools.grid_of(clients), start, num_rounds=1)
    assert max(strategy.history[0].seconds.values()) < min(1.0, max(measured.history[0].seconds.values()))


def test_which_seconds_count():
    cohort = Cohort({"a": 1, "b": 1, "c": 1})
    measured, reported = {"a": 5.0, "c": 7.0}, {"a": 0.5, "c": 99.0}
    assert latencies("round-trip", 1, cohort, 0, measured, reported) == measured
    assert latencies("reported", 1, cohort, 0, measured, reported) == {"a": 0.5, "c": 7.0}
    assert latencies("reported", 1, cohort, 0, measured, {}) == measured
    assert latencies("reported", 1, cohort, 0, measured, {"a": 1e-12}) == {"a": 1e-9, "c": 7.0}
    model = FlooredNormal(np.array([0.1, 0.5, 0.9]), std=0.001, floor=0.05)
    virtual = latencies(model, 1, cohort, 0, measured, reported)
    assert virtual == pytest.approx({"a": 0.1, "c": 0.9}, abs=0.02)
    assert virtual == latencies(model, 1, cohort, 0, measured, {})


def test_one_that_replayed_is_taken_at_its_mean_then_at_its_word_then_at_the_stopwatch():
    cohort = Cohort({"a": 1, "b": 1, "c": 1, "d": 1})
    cohort.observe(cohort.rows(["a", "d"]), np.array([4.0, np.nan]))  # d never answered: nothing is known of its speed
    measured, reported = dict.fromkeys("abcd", 0.5), {"a": 7.0, "b": 3.0, "d": 2.0}
    for kind in ("round-trip", "reported"):
        taken = latencies(kind, 2, cohort, 0, measured, reported, set("abcd"))
        assert taken == {"a": 4.0, "b": 3.0, "c": 0.5, "d": 2.0}
    model = FlooredNormal(np.linspace(0.1, 0.9, 4), std=0.001, floor=0.05)
    args = (model, 2, cohort, 0, measured, reported)
    assert latencies(*args, set("abcd")) == latencies(*args)


@pytest.mark.parametrize("kind", ["round-trip", "reported"])
@pytest.mark.parametrize("told", [None, 1e-9, 0.2, 1e9])
def test_nobody_gets_faster_by_claiming_a_replay(kind, told):
    measured, reported = {"a": 0.5}, {} if told is None else {"a": told}
    new, known = Cohort({"a": 1}), Cohort({"a": 1})
    known.observe(known.rows(["a"]), np.array([4.0]))
    assert (
        latencies(kind, 1, new, 0, measured, reported, "a")["a"] >= latencies(kind, 1, new, 0, measured, reported)["a"]
    )
    before = known.rate.tolist()
    for number in range(2, 6):
        claimed = latencies(kind, number, known, 0, measured, reported, "a")
        known.observe(known.rows(["a"]), np.array([claimed["a"]]))
    assert known.rate.tolist() == before


def test_a_claim_of_replay_counts_only_in_the_round_that_an_earlier_server_died_in(clients, start, tools, tmp_path):
    """Elsewhere nobody can have answered before: who claims it is timed like everybody."""
    path = tmp_path / "run.state"

    def liar(message: Message) -> Message:
        reply = clients[0].answer(message)
        note = Note.of(reply)
        if reply.content.array_records and note is not None:
            reply.content["pausefl"] = Note(note.name, note.releases, 1e-9, replayed=True).record()
        return reply

    grid = tools.grid_of(clients[:2])
    grid.nodes[100] = liar
    strategy = tools.wrapped(chooser=tools.selector(2), checkpoint=path)
    strategy.start(grid, start, num_rounds=2)
    assert all(played.seconds["client-0"] > 1e-6 for played in strategy.history)
    rate = strategy._selector.cohort.rate[0]
    again = tools.wrapped(chooser=tools.selector(2), checkpoint=path)
    again.start(grid, start, num_rounds=4)
    third, fourth = (played.seconds["client-0"] for played in again.history[2:])
    assert third == pytest.approx(1.0 / rate)  # believed, and nothing gained
    assert fourth != pytest.approx(1.0 / rate, rel=1e-9)


def test_replies_from_the_store_do_not_pass_for_fast_training(clients, start, tools, tmp_path):
    """Round 3 was trained for before the crash; after it the same bytes come at once."""

    def slow(message, context):
        time.sleep(0.15)
        return tools.trained(message, context)

    for client in clients[:2]:
        client.app = slow
    path = tmp_path / "run.state"
    with pytest.raises(tools.CrashError):
        tools.wrapped(chooser=tools.selector(2), checkpoint=path).start(
            tools.crashing(tools.grid_of(clients[:2]), 3), start, num_rounds=3
        )
    seen = len(clients[0].seen)
    strategy = tools.wrapped(chooser=tools.selector(2), checkpoint=path)
    strategy.start(tools.grid_of(clients[:2]), start, num_rounds=3)
    assert len(clients[0].seen) == seen
    assert min(strategy.history[2].seconds.values()) > 0.14


def test_a_first_reply_sent_again_is_no_faster_than_those_that_trained():
    cohort = Cohort({"a": 1, "b": 1, "c": 1})
    assert latencies("round-trip", 1, cohort, 0, {"a": 0.1, "b": 30.0, "c": 20.0}, {}, {"a"})["a"] == 30.0


def test_no_word_of_a_client_makes_a_latency_that_cannot_be_kept():
    cohort = Cohort({"a": 1})
    for _ in range(3):
        taken = latencies("round-trip", 1, cohort, 0, {"a": 0.1}, {"a": 1.7e308}, {"a"})
        cohort.observe(cohort.rows(["a"]), np.array([taken["a"]]))
        cohort.observe(cohort.rows(["a"]), np.array([np.nan]))
        assert taken["a"] <= 1e10


def test_a_client_that_joins_needs_a_column_of_the_latency_model(clients, start, tools):
    chooser = tools.selector(per_round=2)
    strategy = tools.wrapped(chooser=chooser, latency=FlooredNormal(np.full(5, 0.1), std=0.001, floor=0.05))

    def join(number, _):
        if number == 1:
            chooser.join({"client-9": 3.0})

    with pytest.raises(InvalidValueError, match="latency model is 5, but must be one of 6 clients"):
        strategy.start(tools.grid_of(clients), start, num_rounds=3, evaluate_fn=join)
    assert len(strategy.history) == 1
