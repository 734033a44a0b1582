"""Finished studies, read from a folder that has one folder per study: their runs, or their measured rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pausefl.errors import ConfigError
from pausefl.runs.comparable import require_one_study
from pausefl.runs.data import RunData
from pausefl.runs.folder import METRICS, read_run, run_folders
from pausefl.studies.measured import Measurement
from pausefl.studies.measured.base import Rows
from pausefl.studies.measured.rows_file import FILE, MeasuredRows, read_rows

Pair = tuple[RunData, RunData]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Finished runs by study, policy and seed, the tables of measured studies, and which runs are not finished."""

    runs: Mapping[str, Mapping[str, Mapping[int, RunData]]]
    tables: Mapping[str, MeasuredRows]
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

    def rows(self, kind: type[Measurement]) -> Iterator[tuple[str, Rows]]:
        """Yield the studies that measured this, with their rows."""
        for study, table in self.tables.items():
            if table.kind is kind:
                yield study, table.rows


def gather(folder: Path) -> Evidence:
    """Read a folder of studies."""
    runs: dict[str, dict[str, dict[int, RunData]]] = {}
    tables: dict[str, MeasuredRows] = {}
    unfinished = []
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder; name one with a folder per study")
    if any(next(folder.glob(inside), None) for inside in ("*/seed-*", "seed-*", FILE, *METRICS)):
        raise ConfigError(f"{folder} is one study, or a part of one; name the folder of studies above it")
    for path in sorted(p for p in folder.iterdir() if p.is_dir()):
        if (path / FILE).exists():
            tables[path.name] = read_rows(path / FILE)
            continue
        for place in run_folders(path):
            if not (place / "summary.json").exists():
                unfinished.append(str(place.relative_to(folder)))
                continue
            run = read_run(place)
            seeds, seed = runs.setdefault(path.name, {}).setdefault(run.name, {}), run.settings.run.seed
            if seed in seeds:
                raise ConfigError(f"{path} has two runs of {run.name} with seed {seed}; move one of them away")
            seeds[seed] = run
    if not runs and not tables:
        raise ConfigError(f"{folder} holds no finished study; name a folder with a folder per study, as in results/")
    for study, policies in runs.items():
        require_one_study(study, [run for seeds in policies.values() for run in seeds.values()])
    return Evidence(runs, tables, unfinished)
