"""The ``[network]`` section as models of latency and availability: for runs, and for those who read them."""

from __future__ import annotations

import numpy as np

from pausefl.errors import InvalidValueError
from pausefl.runs.config import NetworkSection
from pausefl.sim.latency import FlooredNormal, LatencyModel, Quantile, Trace, two_groups
from pausefl.sim.network import Availability, AvailabilityTrace, Bernoulli, OnOff
from pausefl.types import FloatArray


def build_latency(network: NetworkSection) -> LatencyModel:
    """Return how long clients take."""
    if network.latency == "two-groups":
        return two_groups(network.clients, network.tau_min)
    if network.latency == "trace":
        return Trace(_table(network.trace, "network.trace"))
    means = np.linspace(network.mean, network.slowest or network.mean, network.clients)
    if network.latency == "normal":
        return FlooredNormal(means, network.spread, network.tau_min)
    return Quantile(network.latency, means, network.spread, network.tau_min)


def build_availability(network: NetworkSection) -> Availability | None:
    """Return who is there when a round begins; None: everybody, always."""
    if network.availability == "bernoulli":
        return Bernoulli(network.probability)
    if network.availability == "on-off":
        return OnOff(network.leave, network.back)
    if network.availability == "trace":
        return AvailabilityTrace(_table(network.availability_trace, "network.availability_trace") > 0.5)
    return None


def _table(path: str | None, name: str) -> FloatArray:
    if path is None:
        raise InvalidValueError(f"{name} is missing, but a trace is asked for; name a CSV file")
    try:
        table: FloatArray = np.loadtxt(path, delimiter=",", ndmin=2)
    except (OSError, ValueError) as error:
        raise InvalidValueError(
            f"{name} is {path!r}, but cannot be read ({error}); a row per round, numbers only"
        ) from None
    return table
