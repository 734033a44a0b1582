"""What there is to judge by: a folder with a folder per study, of runs or of measured rows."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pausefl.errors import ConfigError
from pausefl.report.frames import RunData, read_run, run_folders
from pausefl.types import FloatArray

Pair = tuple[RunData, RunData]


_MAY_DIFFER = {
    "selection.policy", "selection.steps", "selection.kappa", "selection.paper_scale", "run.rounds",
    "run.checkpoint_every", "run.evaluate_every", "privacy.enabled",
}  # fmt: skip
"""In which settings two policies of a study may differ and still be compared."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Finished runs by study, policy and seed, the rows of measured studies, and which runs are not finished."""

    runs: Mapping[str, Mapping[str, Mapping[int, RunData]]]
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    unfinished: Sequence[str] = ()

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
    unfinished = []
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder; name one with a folder per study")
    if any(folder.glob("*/seed-*")):
        raise ConfigError(f"{folder} is one study, not a folder of studies; name the folder above it")
    for path in sorted(p for p in folder.iterdir() if p.is_dir()):
        if (path / "rows.csv").exists():
            rows[path.name] = read_rows(path / "rows.csv")
            continue
        for place in run_folders(path):
            if not (place / "summary.json").exists():
                unfinished.append(str(place.relative_to(folder)))
                continue
            run = read_run(place)
            seeds, seed = runs.setdefault(path.name, {}).setdefault(run.name, {}), int(run.config["run"]["seed"])
            if seed in seeds:
                raise ConfigError(f"{path} has two runs of {run.name} with seed {seed}; move one of them away")
            seeds[seed] = run
    if not runs and not rows:
        raise ConfigError(f"{folder} holds no finished study; name a folder with a folder per study, as in results/")
    for study, policies in runs.items():
        _require_alike(study, [run for seeds in policies.values() for run in seeds.values()])
    return Evidence(runs, rows, unfinished)


def _require_alike(study: str, runs: Sequence[RunData]) -> None:
    plain = [
        {f"{s}.{k}": v for s, values in run.config.items() for k, v in values.items() if f"{s}.{k}" not in _MAY_DIFFER}
        for run in runs
    ]
    for run, settings in zip(runs, plain, strict=True):
        for key in settings.keys() | plain[0].keys():
            if key != "run.seed" and settings.get(key) != plain[0].get(key):
                raise ConfigError(
                    f"{study}: {run.name} has {key} = {settings.get(key)}, but {runs[0].name} {plain[0].get(key)}; "
                    "only runs that differ in policy and seed can be compared"
                )


def accuracy_at(run: RunData, seconds: FloatArray) -> FloatArray:
    """Return the smoothed accuracy at these times of the virtual clock; NaN before the first score."""
    clock, scores = run.column("seconds"), run.smoothed_accuracy()
    index = np.searchsorted(clock, seconds, side="right") - 1
    return np.where(index < 0, np.nan, scores[np.maximum(index, 0)])


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a measured study, numbers as numbers."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or any(None in row or None in row.values() for row in rows):
        raise ConfigError(f"{path} is damaged or cut short; measure it again")
    return [{key: _number(text) for key, text in row.items()} for row in rows]


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
