"""Finished studies, read from a folder that has one folder per study; and how two runs stand at the same moment."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from pausefl.errors import ConfigError
from pausefl.runs.config import ONE_POLICY, ONE_STUDY, differences
from pausefl.runs.read_folder import METRICS, read_run, run_folders
from pausefl.runs.run_data import SMOOTH, RunData
from pausefl.studies.measured import Measurement
from pausefl.studies.measured.study import FILE, MeasuredRows, read_rows
from pausefl.studies.study import Rows
from pausefl.types import FloatArray, IntArray

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

    def without(self, studies: Collection[str]) -> Evidence:
        """Return the runs of all other studies."""
        return replace(self, runs={name: found for name, found in self.runs.items() if name not in studies})

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
        raise ConfigError(f"{folder} is not a folder; pass one that holds a folder per study")
    if any(next(folder.glob(inside), None) for inside in ("*/seed-*", "seed-*", FILE, *METRICS)):
        raise ConfigError(f"{folder} is one study, or a part of one; pass the folder above it, which holds all studies")
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
        raise ConfigError(
            f"{folder} holds no finished study; pass a folder that holds a folder per study, such as results/"
        )
    for study, policies in runs.items():
        _require_one_study(study, [run for seeds in policies.values() for run in seeds.values()])
    return Evidence(runs, tables, unfinished)


def _require_one_study(study: str, runs: Sequence[RunData]) -> None:
    """Refuse runs that cannot be compared: policies of other studies, or seeds of one with other settings or code."""
    first: dict[str, RunData] = {}
    for run in runs:
        same = first.setdefault(run.name, run)
        if run.code != same.code:
            raise ConfigError(
                f"{study}: {run.name} was played with different code in {same.folder} and {run.folder}; play one again"
            )
        for other, allowed in ((same, ONE_POLICY), (runs[0], ONE_STUDY)):
            for key, (here, there) in differences(run.settings, other.settings, allowed).items():
                raise ConfigError(
                    f"{study}: {run.name} has {key} = {here}, but {other.name} {there}; only runs that differ in "
                    "policy and seed can be compared"
                )


Axis: TypeAlias = Literal["round", "seconds"]


def common_end(pairs: Sequence[Pair], axis: Axis) -> float:
    """Return where the shortest of all these runs ends: every pair is judged at the same place."""
    return float(min(run.column(axis)[-1] for pair in pairs for run in pair))


def window(pairs: Sequence[Pair]) -> float:
    """Return the seconds that ten rounds of the first policy take: accuracy is averaged over so long in both.

    Ten rounds of each would look further back in the policy with the longer rounds, while both still learn.
    """
    return SMOOTH * float(np.mean([run.column("seconds")[-1] / len(run.records) for run, _ in pairs]))


def accuracy_at(run: RunData, at: FloatArray, width: float) -> FloatArray:
    """Return the mean score of the last ``width`` seconds, or the newest if it is older; NaN before the first."""
    scores = run.column("accuracy")
    scored = ~np.isnan(scores)
    clock, sums = run.column("seconds")[scored], np.concatenate([[0.0], np.cumsum(scores[scored])])
    end = np.searchsorted(clock, at, side="right")
    start = np.minimum(np.searchsorted(clock, at - width, side="right"), np.maximum(end - 1, 0))
    return np.where(end == 0, np.nan, (sums[end] - sums[start]) / np.maximum(end - start, 1))


def leads_of(pair: Pair, end: float, width: float) -> FloatArray:
    """Return by how many points the first is ahead, along the common time; empty if there is no common score."""
    at = np.linspace(0.0, end, 201)[1:]
    difference = accuracy_at(pair[0], at, width) - accuracy_at(pair[1], at, width)
    both: FloatArray = difference[~np.isnan(difference)]
    return both


def final_scores(pairs: Sequence[Pair]) -> list[tuple[float, float]]:
    """Return the mean scores of the last ten rounds of both; a pair without a score is left out."""
    scores = [(one.final_accuracy(), two.final_accuracy()) for one, two in pairs]
    return [(one, two) for one, two in scores if one is not None and two is not None]


def leakage_at(run: RunData, axis: Axis, at: FloatArray) -> FloatArray:
    """Return the largest spent epsilon at these places; 0 before the first round has ended."""
    place = np.searchsorted(run.column(axis), at, side="right") - 1
    return np.where(place < 0, 0.0, run.column("max_leakage")[np.maximum(place, 0)])


def still_exploring(pairs: Sequence[Pair], axis: Axis, end: float) -> bool:
    """Whether the first policy has, in some seed, taken fewer clients again by this moment than one round has members.

    As long as clients are there that were never tried, it takes those.  Clients may come and go, so their number alone
    does not tell how long that lasts.
    """
    return any(
        _taken_again(run)[: np.searchsorted(run.column(axis), end, side="right")].sum()
        < run.settings.selection.per_round
        for run, _ in pairs
    )


def _taken_again(run: RunData) -> IntArray:
    """Return how many members of each round had been tried before; 0 where everybody who was there had to be taken."""
    tried: set[Any] = set(range(run.clients)) if run.settings.network.rehearsal else set()
    again = []
    for record in run.records:
        members = record["members"]
        again.append(len(tried.intersection(members)) if len(members) >= run.settings.selection.per_round else 0)
        tried.update(members)
    return np.array(again, dtype=np.int64)
