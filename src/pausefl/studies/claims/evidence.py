"""What there is to judge by: a folder with a folder per study, of runs or of measured rows."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pausefl.errors import ConfigError
from pausefl.report.frames import RunData, read_runs
from pausefl.types import FloatArray

Pair = tuple[RunData, RunData]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Runs by study, policy and seed, and the rows of measured studies."""

    runs: Mapping[str, Mapping[str, Mapping[int, RunData]]]
    rows: Mapping[str, Sequence[Mapping[str, Any]]]

    def pairs(self, ours: str, other: str) -> Iterator[tuple[str, list[Pair]]]:
        """Yield per study the runs of two policies with the same seed: same data, same start, same latencies."""
        for study, policies in self.runs.items():
            both = [
                (run, policies[other][seed])
                for seed, run in policies.get(ours, {}).items()
                if seed in policies.get(other, {})
            ]
            if both:
                yield study, both


def gather(folder: Path) -> Evidence:
    """Read a folder of studies."""
    runs: dict[str, dict[str, dict[int, RunData]]] = {}
    rows: dict[str, list[dict[str, Any]]] = {}
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder; name one with a folder per study")
    for path in sorted(p for p in folder.iterdir() if p.is_dir()):
        if (path / "rows.csv").exists():
            rows[path.name] = _read_rows(path / "rows.csv")
            continue
        try:
            found = read_runs([path])
        except ConfigError:
            continue  # a folder of something else
        for run in found:
            runs.setdefault(path.name, {}).setdefault(run.name, {})[int(run.config["run"]["seed"])] = run
    if not runs and not rows:
        raise ConfigError(f"{folder} holds no study; name a folder with a folder per study, as in results/")
    return Evidence(runs, rows)


def accuracy_at(run: RunData, seconds: FloatArray) -> FloatArray:
    """Return the smoothed accuracy at these times of the virtual clock; NaN before the first score."""
    clock, scores = run.column("seconds"), run.smoothed_accuracy()
    index = np.searchsorted(clock, seconds, side="right") - 1
    return np.where(index < 0, np.nan, scores[np.maximum(index, 0)])


def _read_rows(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [{key: _number(text) for key, text in row.items()} for row in csv.DictReader(file)]


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
