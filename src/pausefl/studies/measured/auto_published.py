"""The published MNIST setting with other seeds: when the mean curve gets to a target, and what has leaked by then.

This measure was fixed before any of the seeds was played.  The accuracy of a run is the mean of its last ten rounds, as
in the published figure.  The mean curve is the mean over all seeds at the same second of the virtual clock, up to where
the shortest run ends.  Leakage is that of the client that leaked most, also as a mean over seeds.  Intervals come from
drawing seeds with replacement; a draw whose mean curve never gets there counts as never.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
from pydantic import Field, Strict

from pausefl.report.charts import Axes
from pausefl.report.report_files import Report, ReportSection, Table, curve_figure
from pausefl.report.series import curve
from pausefl.runs.build import build
from pausefl.runs.config import Config, make_config
from pausefl.runs.run_data import RunData
from pausefl.studies.study import Measurement, Progress, Row, Rows
from pausefl.types import BoolArray, FloatArray

Entry: TypeAlias = Annotated[tuple[str, str], Strict(False)]
"""A policy, and the schedule that its clients spend their budgets by; TOML has lists for it."""

_SETTING: dict[str, Any] = {
    "network": {"clients": 30}, "selection": {"per_round": 5, "steps": 500},
    "privacy": {"budget": 200.0, "width": 0.003}, "learning": {"model": "mlp"},
}  # fmt: skip
"""As in the study ``published-mnist``; a test compares."""

_DRAWS = 2000
_NEVER = "never"
_MIDDLE = (0.025, 0.975)


class AutoPublished(Measurement):
    """Runs of each of ``entries`` in the published setting, with ``seeds`` seeds from ``first_seed`` on."""

    kind: ClassVar = "auto-published"
    resumable: ClassVar = True
    columns: ClassVar = {
        "policy": str, "schedule": str, "target": float, "seed": float, "round": float, "seconds": float,
        "accuracy": float, "leakage": float,
    }  # fmt: skip

    entries: list[Entry] = Field(default=[("pause-auto", "fixed-horizon")], min_length=1)
    target: float = Field(default=80.0, gt=0, lt=100)
    first_seed: int = Field(default=0, ge=0)
    seeds: int = Field(default=10, ge=1)
    data: str = "mnist"
    train_size: int = Field(default=2000, ge=1)
    rounds: int = Field(default=300, ge=1)

    def rows(self, progress: Progress = lambda _: None, known: Sequence[Row] = ()) -> Iterator[Row]:
        """Yield a row per entry, seed and round, but for those that are known."""
        cells = list(product(self.entries, range(self.first_seed, self.first_seed + self.seeds)))
        for done, ((policy, schedule), seed) in enumerate(cells):
            there = len(known) - done * self.rounds
            if there < self.rounds:
                yield from self._played(policy, schedule, seed)[max(there, 0) :]
            progress((done + 1) / len(cells))

    def _played(self, policy: str, schedule: str, seed: int) -> list[Row]:
        simulation = build(self.config(policy, schedule, seed))
        try:
            records = list(simulation.play(self.rounds, pause_every=self.rounds))
        finally:
            simulation.close()
        told = {"policy": policy, "schedule": schedule, "target": self.target, "seed": seed}
        return [
            told | {"round": record["round"]} | {name: round(record[of], 4) for name, of in _NUMBERS.items()}
            for record in records
        ]

    def config(self, policy: str, schedule: str, seed: int) -> Config:
        """Return one run."""
        part = {name: dict(values) for name, values in _SETTING.items()}
        part["selection"]["policy"], part["privacy"]["schedule"] = policy, schedule
        return make_config({
            **part, "data": {"name": self.data, "train_size": self.train_size},
            "run": {"rounds": self.rounds, "seed": seed},
        })  # fmt: skip

    @classmethod
    def report(cls, rows: Rows, title: str) -> Report:
        """Return when each entry got to the target, at which leakage, and both curves."""
        entries, target = by_entry(rows), rows[0]["target"]
        charts = (
            ("accuracy", "Accuracy against time", Axes("seconds", "accuracy (%)", limit=target, limit_name="target")),
            ("leakage", "Largest leakage against time", Axes("seconds", "epsilon")),
        )
        figures = [
            curve_figure(
                f"{cls.kind}-{y}", name, {one: curve(runs, "seconds", y) for one, runs in entries.items()}, axes
            )
            for y, name, axes in charts
        ]
        reading = (
            f"When the mean accuracy over all seeds gets to {target:g} %, and the mean of the largest leakage at that "
            "moment. In brackets: the middle 95 % of draws of as many seeds, with replacement."
        )
        head = ["policy, schedule", f"seconds to {target:g} %", "largest leakage then", "seeds that get there alone"]
        lines = _lines(entries, target)
        facts = [
            f"{name}: {target:g} % after {seconds} s, at leakage {leaked}" if seconds != _NEVER else f"{name}: never"
            for name, seconds, leaked, _ in lines
        ]
        section = ReportSection("published", "Time and leakage", reading, figures, table=Table(head, lines))
        return Report(title, list(entries), [section], facts)


_NUMBERS = {"seconds": "seconds", "accuracy": "accuracy", "leakage": "max_leakage"}
"""The numbers of a row, and what the records of a run call them."""


def by_entry(rows: Rows) -> dict[str, list[RunData]]:
    """Return the runs of each entry, by policy and schedule."""
    found: dict[str, dict[float, list[Mapping[str, Any]]]] = {}
    for row in rows:
        found.setdefault(f"{row['policy']}, {row['schedule']}", {}).setdefault(row["seed"], []).append(row)
    return {name: [RunData(name, None, seed, None) for seed in seeds.values()] for name, seeds in found.items()}


@dataclass(frozen=True, slots=True)
class Reached:
    """When a mean curve got to the target, and the mean of the largest leakage then; infinite and NaN if never."""

    seconds: float
    leakage: float


def reached(runs: Sequence[RunData], target: float, draws: int = 0) -> list[Reached]:
    """Return when the mean accuracy at equal seconds gets to the target, and what has leaked by then.

    What follows the first are draws of as many runs, with replacement.
    """
    clock = np.unique(np.concatenate([run.column("seconds") for run in runs]))
    accuracy, leakage = (np.array([_at(run, name, clock) for run in runs]) for name in ("accuracy", "leakage"))
    rng, count = np.random.default_rng(0), len(runs)
    some = [np.arange(count), *(rng.integers(count, size=count) for _ in range(draws))]
    return [_first(clock, accuracy[which].mean(axis=0) >= target, leakage[which]) for which in some]


def _first(clock: FloatArray, there: BoolArray, leakage: FloatArray) -> Reached:
    place = int(there.argmax())
    return Reached(float(clock[place]), float(leakage[:, place].mean())) if there.any() else Reached(np.inf, np.nan)


def _at(run: RunData, name: str, clock: FloatArray) -> FloatArray:
    """Return the newest number at these seconds; NaN before the first round has ended, and after the last one."""
    ends = run.column("seconds")
    place = np.searchsorted(ends, clock, side="right") - 1
    return np.where((place < 0) | (clock > ends[-1]), np.nan, run.series(name)[np.maximum(place, 0)])


def _lines(entries: Mapping[str, Sequence[RunData]], target: float) -> list[list[str]]:
    """Return a line of words per entry."""
    lines = []
    for name, runs in entries.items():
        found, *drawn = reached(runs, target, _DRAWS if len(runs) > 1 else 0)
        seconds = _with_interval(found.seconds, [one.seconds for one in drawn])
        # What a draw that never got there would have leaked is not known: only the interval of the seconds has it.
        leakage = _with_interval(found.leakage, [one.leakage for one in drawn if np.isfinite(one.seconds)])
        alone = sum(run.time_to(target) is not None for run in runs)
        lines.append([name, seconds, leakage, f"{alone} of {len(runs)}"])
    return lines


def _with_interval(value: float, drawn: Sequence[float]) -> str:
    if not np.isfinite(value):
        return _NEVER
    if not drawn:
        return f"{value:.1f}"
    ends = np.quantile(drawn, _MIDDLE, method="inverted_cdf")  # there is no mean of a number and never
    low, high = (_NEVER if np.isinf(end) else f"{end:.1f}" for end in ends)
    return f"{value:.1f} ({low} to {high})"
