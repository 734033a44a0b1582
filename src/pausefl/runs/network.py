"""The ``[network]`` section as a network, or as models of its latency and availability."""

from __future__ import annotations

import numpy as np

from pausefl.errors import InvalidValueError
from pausefl.rng import stream
from pausefl.runs.config import NetworkSection
from pausefl.sim.availability import Availability, AvailabilityTrace, Bernoulli, Diurnal, OnOff
from pausefl.sim.devices import device_latency
from pausefl.sim.disturbances import Drift, Jams, LateJoiners
from pausefl.sim.latency import FlooredNormal, LatencyModel, Quantile, Trace, two_groups
from pausefl.sim.network import Network
from pausefl.types import FloatArray, IntArray


def build_network(network: NetworkSection, latency: LatencyModel, clusters: IntArray | None, seed: int) -> Network:
    """Return the network on which rounds are played."""
    return Network(
        latency, seed, build_availability(network, seed), network.dropout, network.deadline, clusters,
        network.congestion,
        straggle=network.straggle,
        drift=None if network.drift_at is None
        else Drift(network.drift_at, network.drift_share, network.drift_factor),
        jams=Jams(network.jams, network.jam_factor, network.jam_rounds) if network.jams > 0 else None,
        late=LateJoiners(network.late, network.late_by) if network.late > 0 else None,
    )  # fmt: skip


def build_latency(network: NetworkSection, seed: int) -> LatencyModel:
    """Return how long clients take."""
    if network.latency == "two-groups":
        return two_groups(network.clients, network.tau_min)
    if network.latency == "trace":
        return Trace(_table(network.trace, "network.trace"))
    if network.latency == "devices":
        rng = stream(seed, "devices")
        return device_latency(network.clients, network.mean, network.spread, network.tau_min, rng)
    means = np.linspace(network.mean, network.slowest or network.mean, network.clients)
    if network.latency == "normal":
        return FlooredNormal(means, network.spread, network.tau_min)
    return Quantile(network.latency, means, network.spread, network.tau_min)


def build_availability(network: NetworkSection, seed: int) -> Availability | None:
    """Return who is there when a round begins; None: everybody, always."""
    if network.availability == "bernoulli":
        return Bernoulli(network.probability)
    if network.availability == "on-off":
        return OnOff(network.leave, network.back)
    if network.availability == "diurnal":
        zones = stream(seed, "time zones").random(network.clients)
        return Diurnal(network.probability, network.swing, network.period, zones)
    if network.availability == "trace":
        return AvailabilityTrace(_table(network.availability_trace, "network.availability_trace") > 0.5)
    return None


def _table(path: str | None, name: str) -> FloatArray:
    if path is None:
        raise InvalidValueError(f"{name} is missing, but a trace needs it; set it to the path of a CSV file")
    try:
        table: FloatArray = np.loadtxt(path, delimiter=",", ndmin=2)
    except (OSError, ValueError) as error:
        raise InvalidValueError(
            f"{name} is {path!r}, but cannot be read ({error}); write one row per round, with numbers only"
        ) from None
    return table
