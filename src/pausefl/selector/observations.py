"""What a caller tells of a round, checked: seconds and model updates of its members."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from pausefl.errors import InvalidValueError, is_finite, require
from pausefl.types import ClientId, FloatArray, Seconds


def observed_seconds(latencies: Mapping[ClientId, Seconds | None], members: Collection[ClientId]) -> FloatArray:
    """Return the members' latencies in order, NaN for no answer."""
    if not isinstance(latencies, Mapping):
        raise InvalidValueError(
            f"latencies is a {type(latencies).__name__}, but must be a mapping; pass {{client: seconds}}"
        )
    _check_members(latencies, members)
    return np.array([_seconds(client, latencies.get(client)) for client in members])


def observed_updates(updates: Mapping[ClientId, FloatArray], members: Collection[ClientId]) -> FloatArray:
    """Return the updates as rows, in the order in which they are given."""
    _check_members(updates, members)
    flat = [np.asarray(u, dtype=np.float64).ravel() for u in updates.values()]
    lengths = sorted({len(u) for u in flat})
    require(len(lengths) == 1, "update lengths", lengths, "the same for all members", "flatten whole models")
    stacked = np.stack(flat)
    require(bool(np.isfinite(stacked).all()), "updates", "NaN or infinite", "finite", "drop the broken update")
    return stacked


def _check_members(reported: Collection[ClientId], members: Collection[ClientId]) -> None:
    invited = set(members)
    for client in reported:
        if client not in invited:
            raise InvalidValueError(
                f"client id is {client!r}, but must be one of the {len(invited)} selected in this round; report those"
            )


def _seconds(client: ClientId, value: Seconds | None) -> float:
    if value is None:
        return math.nan
    require(
        is_finite(value) and value >= 1e-9,
        f"latency of client {client!r}",
        value,
        "a finite number of seconds above 0 (at least 1e-9)",
        "report None for no answer",
    )
    return float(value)
