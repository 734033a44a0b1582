"""Rows of the studies without training: a table of a known kind, numbers as numbers, or refused in one line."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pausefl.errors import ConfigError

FILE = "rows.csv"
KINDS = {
    "g-function": ("beta", "participation", "g"),
    "complexity": ("method", "clients", "seed", "seconds"),
    "regret": ("setting", "seed", "rounds", "regret", "at_half", "at_quarter", "bound"),
    "annealing": ("reward", "method", "steps", "seed", "median_gap"),
}
"""Which columns tell what was measured."""

_WORDS = {"method", "setting", "reward"}


@dataclass(frozen=True, slots=True)
class Table:
    """What a study measured."""

    kind: str
    rows: Sequence[Mapping[str, Any]]


def read_rows(path: Path) -> Table:
    """Return the rows of a measured study."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        if not rows or any(None in row or None in row.values() for row in rows):
            raise ConfigError(f"{path} is damaged or cut short; measure it again")
        kind = next((name for name, columns in KINDS.items() if rows[0].keys() >= set(columns)), None)
        if kind is None:
            raise ConfigError(f"{path} has none of the tables of {', '.join(KINDS)}; measure it with 'pausefl study'")
        return Table(kind, [{key: _value(key, text) for key, text in row.items()} for row in rows])
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path} is no table of numbers ({error}); measure it again") from None


def _value(column: str, text: str) -> float | str:
    if column in _WORDS:
        return text
    number = float(text)
    if math.isnan(number):
        raise ValueError(f"{column} is nan")
    return number
