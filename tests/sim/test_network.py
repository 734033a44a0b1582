"""The network with all that may go wrong: a function of (seed, round), resumable, and charged as it should be."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pausefl.errors import InvalidValueError
from pausefl.privacy import Geometric
from pausefl.rng import stream
from pausefl.selector import Selector
from pausefl.sim.availability import Bernoulli, Diurnal, OnOff
from pausefl.sim.devices import device_latency
from pausefl.sim.disturbances import Drift, Jams, LateJoiners
from pausefl.sim.engine import Simulation
from pausefl.sim.latency import Trace, two_groups
from pausefl.sim.network import Network

CLIENTS = 12


def rough(seed: int = 0, **given_: Any) -> Network:
    """Everything at once."""
    parts = {
        "availability": Diurnal(0.7, 0.3, 6, stream(seed, "time zones").random(CLIENTS)),
        "dropout": 0.1, "straggle": 0.2, "deadline": 1.5, "clusters": np.arange(CLIENTS) % 3, "congestion": 0.05,
        "drift": Drift(5, 0.25, 20.0), "jams": Jams(0.2, 4.0, 3), "late": LateJoiners(0.3, 8),
    }  # fmt: skip
    return Network(device_latency(CLIENTS, 0.5, 0.4, 0.05, stream(seed, "devices")), seed, **{**parts, **given_})


def simulated(network: Network) -> Simulation:
    return Simulation(Selector(np.ones(CLIENTS), 4, tau_min=0.05, schedule=Geometric(10.0, 0.1)), network)


@given(seed=st.integers(0, 100), number=st.integers(0, 60), members=st.permutations(range(CLIENTS)))
def test_a_round_is_a_function_of_seed_and_round(seed: int, number: int, members: list[int]) -> None:
    """Neither what was asked before nor the order of the members matters."""
    network, asked = rough(seed), np.arange(CLIENTS)
    for other in range(3):
        network.play(asked, other)
    one, two = network.play(asked, number), rough(seed).play(np.array(members), number)
    assert np.array_equal(one.latency[members], two.latency, equal_nan=True)
    assert np.array_equal(one.arrived[members], two.arrived)
    assert one.seconds == two.seconds
    before = np.arange(CLIENTS) % 2 == 0
    assert np.array_equal(network.online(before, number), rough(seed).online(before, number))


@pytest.mark.parametrize("changed", [{}, {"availability": OnOff(leave=0.3, back=0.4)}])
@pytest.mark.parametrize("stop", [1, 4, 9, 17])
def test_resumed_equals_uninterrupted(stop: int, changed: dict[str, Any]) -> None:
    straight, before, after = (simulated(rough(**changed)) for _ in range(3))
    wanted = [straight.step() for _ in range(24)]
    played = [before.step() for _ in range(stop)]
    after.restore(*before.state())
    assert played + [after.step() for _ in range(24 - stop)] == wanted


def test_silent_members_are_charged_waited_for_and_not_heard() -> None:
    network = Network(Trace(np.full((1, 6), 0.3)), 1, straggle=0.3, deadline=2.0, dropout=0.2)
    selector = Selector(np.ones(6), 6, "all", tau_min=0.05, schedule=Geometric(10.0, 0.1))
    sim = Simulation(selector, network)
    picks, lost = np.zeros(6, dtype=int), 0
    for number in range(1, 30):
        gone = stream(1, "dropout", number).random(6) < 0.2
        silent = ~gone & (stream(1, "straggle", number).random(6) < 0.3)
        record = sim.step()
        members = np.array(record["members"], dtype=int)  # who was silent may have to wait before it is asked again
        outcome = network.play(members, number)
        assert np.isnan(outcome.latency).tolist() == (gone | silent)[members].tolist()
        assert outcome.arrived.tolist() == (~gone & ~silent)[members].tolist()
        assert record["arrived"] == outcome.arrived.sum()
        assert record["latency"] == (2.0 if silent[members].any() else 0.0 if gone[members].all() else 0.3)
        picks[members] += 1
        lost += silent[members].sum()
        assert sim.selector.cohort.picks.tolist() == picks.tolist()  # one release each, heard of or not
    assert lost > 3


def test_silence_without_a_deadline_is_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"straggle is 0\.1, but must be 0 without a deadline"):
        Network(two_groups(6), 1, straggle=0.1)
    with pytest.raises(InvalidValueError, match=r"straggle is 1\.0, but must be from 0 to below 1"):
        Network(two_groups(6), 1, straggle=1.0, deadline=1.0)
    with pytest.raises(InvalidValueError, match="clusters is None"):
        Network(two_groups(6), 1, jams=Jams(0.1, 2.0, 3))


def test_drift_and_jams_lengthen_latencies_by_their_factors() -> None:
    bare = Network(two_groups(CLIENTS), 3)
    network = Network(
        two_groups(CLIENTS), 3, clusters=np.arange(CLIENTS) % 3, drift=Drift(5, 0.25, 20.0), jams=Jams(0.2, 4.0, 3)
    )
    everybody = np.arange(CLIENTS)
    seen = set()
    for number in range(1, 30):
        slow = network.slowdown(number)
        seen |= set(slow.tolist())
        assert np.allclose(network.play(everybody, number).latency, slow * bare.play(everybody, number).latency)
    assert seen == {1.0, 4.0, 20.0, 80.0}
    assert np.array_equal(network.latency.expected(), bare.latency.expected())  # that of the beginning


def test_the_current_expectations_follow_from_the_slowdown() -> None:
    network, number = Network(two_groups(4), 0, drift=Drift(10, 0.5, 20.0)), 10
    scale = network.slowdown(number)
    sampled = [two_groups(4).sample(stream(s, "x")) * scale for s in range(20_000)]
    error = np.std(sampled, axis=0) / np.sqrt(20_000)
    assert (np.abs(np.mean(sampled, axis=0) - network.latency.expected() * scale) < 5 * error).all()
    speeds = 0.05 / np.array(sampled)
    error = speeds.std(axis=0) / np.sqrt(20_000)
    assert (np.abs(speeds.mean(axis=0) - network.latency.mean_speed(0.05) / scale) < 5 * error).all()


@pytest.mark.parametrize("availability", [None, Bernoulli(0.6), OnOff(leave=0.3, back=0.4)])
def test_late_joiners_are_away_and_then_as_everybody_else(availability: Any) -> None:
    """Who joins in round n begins as others began in round 1; who was there all the time notices nothing."""
    late = LateJoiners(0.5, 6)
    network = Network(two_groups(CLIENTS), 4, availability, late=late)
    plain = Network(two_groups(CLIENTS), 4, availability)
    delays = late.delays(CLIENTS, 4)
    there = usual = np.ones(CLIENTS, dtype=bool)
    for number in range(1, 20):
        first = plain.online(np.ones(CLIENTS, dtype=bool), number)  # a round 1 with this round's luck
        there, usual = network.online(there, number), plain.online(usual, number)
        assert not there[delays >= number].any()
        assert np.array_equal(there[delays == number - 1], first[delays == number - 1])
        assert np.array_equal(there[delays == 0], usual[delays == 0])
    assert there[delays > 0].any()


def test_late_joiners_are_not_picked_before_they_join() -> None:
    late = LateJoiners(0.5, 6)
    sim, delays = simulated(Network(two_groups(CLIENTS), 4, late=late)), late.delays(CLIENTS, 4)
    picked = [sim.step()["members"] for _ in range(20)]
    for number, members in enumerate(picked, start=1):
        assert (delays[members] < number).all()
    assert set(np.concatenate(picked).tolist()) == set(range(CLIENTS))
