"""Whether a run that was read is whole: configuration, rounds and summary have what everybody asks of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

_SETTINGS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "data": {"name": str},
    "network": {"clients": int, "latency": str, "tau_min": (int, float), "mean": (int, float)},
    "selection": {"policy": str, "per_round": int},
    "privacy": {
        "enabled": bool, "budget": (int, float), "schedule": str, "decay": (int, float), "exponent": (int, float),
        "releases": int,
    },
    "learning": {"enabled": bool},
    "run": {"seed": int, "rounds": int},
}  # fmt: skip
_NUMBERS = ("seconds", "max_leakage", "median_leakage", "p90_leakage", "accuracy", "loss", "latency")


def check_settings(config: Mapping[str, Any]) -> None:
    """Raise ValueError unless the settings that reports read are there."""
    for section, keys in _SETTINGS.items():
        values = config.get(section)
        for key, kind in keys.items():
            if not isinstance(values, Mapping) or not isinstance(values.get(key), kind):
                raise ValueError(f"config.toml lacks {section}.{key}, or has it in another form")
    for section, values in config.items():
        if not isinstance(values, Mapping):
            raise ValueError(f"config.toml has {section} outside a section")
    if config["network"]["clients"] < 1:
        raise ValueError("config.toml has no clients")


def check_records(records: Sequence[Any], clients: int, bounded: bool) -> None:
    """Raise ValueError unless there is a record per round, in order; ``bounded``: each must say what has leaked."""
    seconds = 0.0
    for number, record in enumerate(records, 1):
        if not isinstance(record, Mapping) or record.get("round") != number:
            raise ValueError(f"line {number} of the metrics is not round {number}")
        found = {name: record.get(name) for name in _NUMBERS}
        if any(value is not None and not _is_number(value) for value in found.values()):
            raise ValueError(f"round {number} has something else where a number belongs")
        if found["seconds"] is None or found["seconds"] < seconds:
            raise ValueError(f"round {number} lacks its seconds, or the clock goes back")
        if bounded and found["max_leakage"] is None:
            raise ValueError(f"round {number} does not say what has leaked")
        if not _are_clients(record.get("members"), clients) or not isinstance(record.get("terms") or {}, Mapping):
            raise ValueError(f"round {number} lacks its members, or has others than the {clients} clients")
        seconds = found["seconds"]


def check_summary(summary: Any, rounds: int) -> None:
    """Raise ValueError unless the summary is one of so many rounds; None is an unfinished run."""
    if summary is None:
        return
    if not isinstance(summary, Mapping) or summary.get("rounds") != rounds:
        raise ValueError(f"summary.json does not count the {rounds} rounds of the metrics")
    per_client, spread = summary.get("clients") or {}, summary.get("client_accuracy") or {}
    if not isinstance(summary.get("guarantee"), str) or not isinstance(per_client, Mapping):
        raise ValueError("summary.json lacks its guarantee or its clients")
    if not isinstance(spread, Mapping) or not all(isinstance(values, list) for values in per_client.values()):
        raise ValueError("summary.json has something else where its clients belong")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _are_clients(members: Any, clients: int) -> bool:
    return isinstance(members, list) and all(isinstance(k, int) and 0 <= k < clients for k in members)
