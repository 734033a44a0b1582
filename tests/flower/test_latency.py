"""Which seconds count."""

from __future__ import annotations

import numpy as np
import pytest

from pausefl.cohort import Cohort
from pausefl.flower.latency import latencies
from pausefl.sim.latency import FlooredNormal


def test_reported_seconds_are_a_hint_within_the_round_trip(clients, start, tools):
    for client in clients:
        client.write(tools.OWNER.replace('["num-examples"]', '["seconds"]'))
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
