"""Curves of others, from CSV files: drawn beside our own, but never averaged with them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pausefl.errors import ConfigError
from pausefl.report.policy_looks import REFERENCE
from pausefl.runs.run_data import RunData
from pausefl.system.printable_text import printable

COLUMNS = {
    "round": ("round",),
    "seconds": ("seconds", "time_s"),
    "accuracy": ("accuracy", "val_acc"),
    "max_leakage": ("max_leakage", "max_privacy_leakage"),
}
"""Our names of the columns, and what else they may be called."""


def read_references(paths: Sequence[Path]) -> dict[str, list[RunData]]:
    """Return a curve per file, named after it; round and seconds must be there, accuracy and leakage may be."""
    found = {}
    for path in paths:
        name = f"{printable(path.stem)}{REFERENCE}"
        if name in found:
            raise ConfigError(f"two references are called {path.stem}; rename one of the files")
        found[name] = [RunData(name, None, _records(path), None)]
    return found


def _records(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        given = {
            ours: next((n for n in names if n in (rows[0] if rows else {})), None) for ours, names in COLUMNS.items()
        }
        if given["round"] is None or given["seconds"] is None:
            raise ConfigError(
                f"{path} lacks a column round or seconds; write these headings, and below them a line per round"
            )
        return [
            {ours: float(row[name]) for ours, name in given.items() if name is not None and row[name]} for row in rows
        ]
    except (OSError, UnicodeDecodeError, ValueError, TypeError, csv.Error) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"{path} cannot be read as a reference curve ({error}); write it as CSV with numbers"
        ) from None
