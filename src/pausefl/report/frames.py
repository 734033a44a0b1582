"""Runs as rows for charts: read from their folders, smoothed as in the paper, averaged over seeds."""

from __future__ import annotations

import json
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pausefl.errors import ConfigError
from pausefl.types import FloatArray

SMOOTH = 10
"""Rounds over which accuracy is averaged, as in the paper's figures."""


@dataclass(frozen=True, slots=True)
class RunData:
    """One finished or unfinished run."""

    name: str
    config: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any] | None

    def column(self, name: str) -> FloatArray:
        """Return a number per round; NaN where a round has none."""
        return np.array([np.nan if r.get(name) is None else r[name] for r in self.records], dtype=np.float64)

    def smoothed_accuracy(self) -> FloatArray:
        """Return, per round, the mean of the scores of the last ten rounds (or the last score, if it is older)."""
        scores, out, last = self.column("accuracy"), [], np.nan
        for end in range(1, len(scores) + 1):
            window = scores[max(0, end - SMOOTH) : end]
            window = window[~np.isnan(window)]
            last = float(window.mean()) if len(window) else last
            out.append(last)
        return np.array(out)

    def final_accuracy(self) -> float | None:
        """Return the mean of the last ten scored rounds."""
        return _last(self.smoothed_accuracy())

    def best_accuracy(self) -> float | None:
        """Return the best single score."""
        scores = self.column("accuracy")
        return None if np.isnan(scores).all() else float(np.nanmax(scores))

    def time_to(self, target: float | None) -> float | None:
        """Return the clock when the smoothed accuracy first reached the target."""
        reached = np.flatnonzero(self.smoothed_accuracy() >= (np.inf if target is None else target))
        return float(self.column("seconds")[reached[0]]) if len(reached) else None


def _last(values: FloatArray) -> float | None:
    return None if not len(values) or np.isnan(values[-1]) else float(values[-1])


def read_runs(folders: Iterable[Path]) -> list[RunData]:
    """Return the runs in these folders; a folder of seeds counts as all of them."""
    found = []
    for folder in folders:
        inside = (
            [folder] if (folder / "metrics.jsonl").exists() else sorted(p.parent for p in folder.rglob("metrics.jsonl"))
        )
        if not inside:
            raise ConfigError(f"{folder} holds no run (no metrics.jsonl); name a folder that 'pausefl run' wrote")
        found += [read_run(path) for path in inside]
    return found


def by_name(runs: Iterable[RunData]) -> dict[str, list[RunData]]:
    """Group the seeds of a run; runs of one policy that differ in more than the seed get names that say in what."""
    groups: dict[str, list[RunData]] = defaultdict(list)
    for run in runs:
        groups[_settings(run)].append(run)
    named: dict[str, list[RunData]] = {}
    policies = Counter(group[0].name for group in groups.values())
    for group in groups.values():
        name = group[0].name
        if policies[name] > 1:
            others = [other[0] for other in groups.values() if other[0].name == name]
            name = f"{name} ({', '.join(_differences(group[0], others)) or len(named)})"
        named[name] = [replace(run, name=name) for run in group]
    return named


def _settings(run: RunData) -> str:
    plain = {section: dict(values) for section, values in run.config.items()}
    plain["run"].pop("seed", None)
    return json.dumps(plain, sort_keys=True)


def _differences(run: RunData, others: Sequence[RunData]) -> list[str]:
    """Return the settings in which runs of one policy differ, as this run has them."""
    return [
        f"{key}={value}"
        for section, values in run.config.items()
        for key, value in values.items()
        if key != "seed" and any(other.config[section].get(key) != value for other in others)
    ]


def curve(runs: Sequence[RunData], x: str, y: str, points: int = 150) -> list[dict[str, Any]]:
    """Return mean, smallest and largest y over the seeds, at common values of x (``round`` or ``seconds``)."""
    lines = []
    for run in runs:
        values = run.smoothed_accuracy() if y == "accuracy" else run.column(y)
        good = ~np.isnan(values)
        if good.any():
            lines.append((run.column(x)[good], values[good]))
    if not lines:
        return []
    low, high = max(line[0][0] for line in lines), min(line[0][-1] for line in lines)
    at = np.linspace(low, high, points) if x == "seconds" else np.unique(np.linspace(low, high, points).round())
    table = np.array([np.interp(at, *line) for line in lines])
    return [
        {"run": runs[0].name, x: float(a), "mean": float(m), "low": float(lo), "high": float(hi)}
        for a, m, lo, hi in zip(at, table.mean(axis=0), table.min(axis=0), table.max(axis=0), strict=True)
    ]


def picks(runs: Sequence[RunData]) -> list[dict[str, Any]]:
    """Return how often each client took part, averaged over the seeds."""
    clients = int(runs[0].config["network"]["clients"])
    counts = np.zeros(clients)
    for run in runs:
        for record in run.records:
            counts[[int(k) for k in record["members"]]] += 1
    return [{"run": runs[0].name, "client": k, "picks": float(c / len(runs))} for k, c in enumerate(counts)]


def read_run(folder: Path) -> RunData:
    """Return one run, finished or not; a last line that a kill cut short is left out."""
    metrics = folder / "metrics.jsonl"
    if not metrics.exists():
        raise ConfigError(f"{folder} holds no run (no metrics.jsonl); name a folder that 'pausefl run' wrote")
    text = metrics.read_text(encoding="utf-8")
    records = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines() if line]
    if not records:
        raise ConfigError(f"{folder} holds a run without a single round yet; wait for it")
    config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    summary = folder / "summary.json"
    name = config["selection"]["policy"] + ("" if config["privacy"]["enabled"] else " (no privacy)")
    return RunData(name, config, records, json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else None)
