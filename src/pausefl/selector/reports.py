"""What clients report of themselves, checked: their releases, what is left of the budget, the noise, and signals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pausefl.errors import InvalidValueError, is_finite, require, shown
from pausefl.selection.policy_contract import SIGNALS
from pausefl.types import ClientId, FloatArray, IntArray


def reported_releases(releases: Mapping[ClientId, int] | None) -> tuple[list[ClientId], IntArray]:
    """Return who tells how many releases it has made, and how many."""
    told = _mapping(releases, "releases")
    for client, count in told.items():
        whole = isinstance(count, (int, np.integer)) and not isinstance(count, bool)
        if not whole or not 0 <= count < 2**53:
            require(
                False,
                f"releases of client {shown(client)}",
                count,
                "a whole number from 0, below 2^53",
                "count all releases that it made",
            )
    return list(told), np.fromiter(told.values(), dtype=np.int64, count=len(told))


def reported_left(left: Mapping[ClientId, float | None] | None) -> tuple[list[ClientId], FloatArray]:
    """Return who tells which fraction of its budget is left, and that fraction; NaN: unknown."""
    return _numbers(left, "left", "fraction left of client", 1.0, "a number from 0 to 1")


def reported_noise(noise: Mapping[ClientId, float | None] | None) -> tuple[list[ClientId], FloatArray]:
    """Return who tells the level of noise of its next release, and that level; NaN: unknown."""
    return _numbers(noise, "noise", "noise of client", math.inf, "a finite number from 0")


def reported_signals(
    signals: Mapping[str, Mapping[ClientId, float | None]],
) -> dict[str, tuple[list[ClientId], FloatArray]]:
    """Return, for each signal, who told it and what; NaN: taken back."""
    given = _mapping(signals, "signals")
    for name in given:
        require(name in SIGNALS, "signal", name, f"one of {', '.join(SIGNALS)}", "use one of these names")
    return {
        str(name): _numbers(told, str(name), f"{name} of client", math.inf, "a finite number", least=-math.inf)
        for name, told in given.items()
    }


def _numbers(
    given: Mapping[ClientId, float | None] | None, name: str, whose: str, most: float, bound: str, least: float = 0.0
) -> tuple[list[ClientId], FloatArray]:
    told = _mapping(given, name)
    values = np.full(len(told), np.nan)
    for place, (client, value) in enumerate(told.items()):
        if value is None or (isinstance(value, (float, np.floating)) and math.isnan(value)):
            continue
        if not is_finite(value) or not least <= value <= most:
            require(False, f"{whose} {shown(client)}", value, bound, "pass None if it is unknown")
        values[place] = value
    return list(told), values


def _mapping(given: Mapping[Any, Any] | None, name: str) -> Mapping[Any, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise InvalidValueError(f"{name} is a {type(given).__name__}, but must be a mapping; pass {{client: number}}")
    return {} if given is None else given
