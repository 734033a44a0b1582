"""How long a client took: the server's stopwatch, the client's word, or a model where the clock means nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

from pausefl.errors import require
from pausefl.rng import stream
from pausefl.selector.cohort import Cohort
from pausefl.sim.latency import LatencyModel
from pausefl.types import ClientId, Seconds

Latency: TypeAlias = Literal["round-trip", "reported"] | LatencyModel
"""``round-trip``: measured here, with Flower's own seconds of overhead.  ``reported``: the client's training time, by
its word, and at most the round trip; clients that report none are taken at their round trip.  A model: virtual seconds
per client and round, for the simulation engine, where clients wait for each other's processors."""

_LEAST: Seconds = 1e-9
"""What the selector takes for a latency at the least."""
_MOST: Seconds = 1e9
"""What is taken of a client's word at the most."""


def check_latency(latency: Latency, clients: int) -> None:
    """Refuse what is neither a name nor a model of as many clients."""
    if isinstance(latency, str):
        bound = "'round-trip', 'reported' or a latency model"
        require(latency in ("round-trip", "reported"), "latency", latency, bound, "choose one")
    else:
        found = len(latency) if hasattr(latency, "sample") else latency
        require(found == clients, "latency model", found, f"one of {clients} clients", "a column per client")


def latencies(
    latency: Latency, number: int, cohort: Cohort, seed: int,
    measured: Mapping[ClientId, Seconds], reported: Mapping[ClientId, Seconds], replayed: Collection[ClientId] = (),
) -> dict[ClientId, Seconds]:  # fmt: skip
    """Return the latency of every client that answered in round ``number``.

    One that ``replayed`` a kept reply did not train, so its round trip says nothing: it is taken at its mean, which
    stays as it is.  With no mean yet it is taken at what it reported, but not below what it would have had otherwise,
    nor below those that did train: nobody gets faster by the claim.
    """
    if not isinstance(latency, str):
        virtual = latency.sample(stream(seed, "flower latency", number))
        rows = cohort.rows(measured)
        return {client: float(virtual[row]) for client, row in zip(measured, rows.tolist(), strict=True)}
    taken = dict(measured)
    if latency == "reported":
        taken = {client: max(min(seconds, reported.get(client, seconds)), _LEAST) for client, seconds in taken.items()}
    again = [client for client in taken if client in replayed]
    slowest = max((seconds for client, seconds in taken.items() if client not in replayed), default=0.0)
    for client, rate in zip(again, cohort.rate[cohort.rows(again)].tolist(), strict=True):
        told = min(reported.get(client, 0.0), _MOST)
        taken[client] = 1.0 / rate if rate > 1.0 / _MOST else max(taken[client], told, slowest)
    return taken
