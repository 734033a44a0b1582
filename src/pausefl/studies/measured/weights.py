"""Weights by hand against weights that set themselves: how fast PAUSE gets to a target for each alpha, gamma and zeta.

First a coarse grid is searched, then a finer one around its best point, both with seeds from 100.  What was found is
played with seeds from 0, beside the paper's weights and ``pause-auto``.  So the tuned weights have seen none of the
runs by which they are judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, ClassVar, TypeAlias

import numpy as np
from pydantic import Field

from pausefl.report.charts import Axes
from pausefl.report.report_files import Figure, Report, ReportSection, Table, curve_figure
from pausefl.report.seed_statistics import t_half_width
from pausefl.report.series import lines_by
from pausefl.report.time_to_target import EXPLAINED
from pausefl.studies.measured.field import by_setting, log_ratios, seconds_to_target
from pausefl.studies.measured.tasks import Setting, outcome, played, target
from pausefl.studies.study import Measurement, Progress, Row, Rows

Weights: TypeAlias = tuple[float, float, float]
"""alpha, gamma and zeta."""

PUBLISHED: Weights = (100.0, 5.0, 1.0)
_KEYS = ("alpha", "gamma", "zeta")
_SEARCH_SEED = 100
_AUTO = "pause-auto"


class WeightSearch(Measurement):
    """Searches weights for PAUSE in each of ``settings``, and plays what it found beside ``pause-auto``.

    ``alphas``, ``gammas`` and ``zetas`` make the coarse grid.  The finer one goes up and down by ``finer``.
    ``search_seeds`` runs judge each point, ``seeds`` runs each of those compared in the end.  ``scale`` shrinks the
    number of rounds for a trial.
    """

    kind: ClassVar = "weights"
    resumable: ClassVar = True
    columns: ClassVar = {
        "data": str, "split": str, "network": str, "unit": str, "step": str, "alpha": float, "gamma": float,
        "zeta": float, "seed": float, "target": float, "seconds": float, "all_seconds": float, "accuracy": float,
        "leakage": float,
    }  # fmt: skip

    settings: list[Setting] = Field(
        default=[
            ("fashion-mnist", "labels", "stable", "update"), ("fashion-mnist", "iid", "rough", "record"),
            ("mnist", "labels", "devices", "update"), ("mnist", "iid", "large", "update"),
        ],
        min_length=1,
    )  # fmt: skip
    alphas: list[float] = Field(default=[1.0, 10.0, 100.0, 1000.0], min_length=1)
    gammas: list[float] = Field(default=[0.5, 5.0, 50.0], min_length=1)
    zetas: list[float] = Field(default=[1.0, 10.0, 100.0, 1000.0], min_length=1)
    finer: float = Field(default=3.0, ge=1)
    search_seeds: int = Field(default=3, ge=1)
    seeds: int = Field(default=20, ge=1)
    scale: float = Field(default=1.0, gt=0, le=1)

    def rows(self, progress: Progress = lambda _: None, known: Sequence[Row] = ()) -> Iterator[Row]:
        """Yield the rows of each setting: the grid, the finer grid, and the comparison."""
        before = list(known)
        for done, setting in enumerate(self.settings):
            rows: list[Row] = []
            for step in ("grid", "finer", "judged"):
                for name, weights, seed in self._cells(step, rows):
                    row = before.pop(0) if before else None
                    if row is None:
                        row = self._row(setting, name, weights, seed)
                        yield row
                    rows.append(row)
            progress((done + 1) / len(self.settings))

    def _cells(self, step: str, rows: Sequence[Row]) -> list[tuple[str, Weights, int]]:
        """Return what is played in a step: how it is called, its weights, and its seed."""
        search = range(_SEARCH_SEED, _SEARCH_SEED + self.search_seeds)
        grid = list(product(self.alphas, self.gammas, self.zetas))
        if step == "grid":
            points = [("grid", weights) for weights in grid]
            return [(name, weights, seed) for (name, weights), seed in product([*points, (_AUTO, _NONE)], search)]
        found = best(rows)
        if step == "finer":
            alphas, gammas, zetas = ([key / self.finer, key, key * self.finer] for key in found)
            around = product(alphas, gammas, zetas)
            return [("finer", near, seed) for near, seed in product(around, search) if near not in grid]
        judged = (("tuned", found), ("published", PUBLISHED), (_AUTO, _NONE))
        return [(name, weights, seed) for (name, weights), seed in product(judged, range(self.seeds))]

    def _row(self, setting: Setting, name: str, weights: Weights, seed: int) -> Row:
        goal = target(setting, self.scale)
        auto = name == _AUTO
        set_by_hand = {} if auto else dict(zip(_KEYS, weights, strict=True))
        run, _ = played(setting, _AUTO if auto else "pause", seed, self.scale, **set_by_hand)
        data, split, network, unit = setting
        return {
            "data": data, "split": split, "network": network, "unit": unit, "step": name,
            **dict(zip(_KEYS, weights, strict=True)), "seed": seed, "target": goal, **outcome(run, goal),
        }  # fmt: skip

    @classmethod
    def seeds_played(cls, rows: Rows) -> str:
        """Count the seeds of the comparison, and those of the search apart from them."""
        seeds = {row["seed"] for row in rows}
        search = {seed for seed in seeds if seed >= _SEARCH_SEED}
        return f"{len(seeds - search)} seeds, and {len(search)} others for the search"

    @classmethod
    def report(cls, rows: Rows, title: str) -> Report:
        """Return what each weight does, beside ``pause-auto``, and who was faster in the end."""
        settings = by_setting(rows)
        reading = (
            "Each curve is one task. It shows the seconds to the target for the values of one weight, with the best "
            "values of the two others. 1 is the time that pause-auto needs with the same seeds. Lower is better. The "
            "best of several values is also the luckiest, so the curves lie a little too low."
        )
        sections = [
            ReportSection(f"weight-{key}", f"What {key} does", reading, [_figure(key, settings)]) for key in _KEYS
        ]
        told = "The weights were searched with seeds from 100. This table is about seeds from 0, the same for all."
        sections.insert(0, ReportSection("judged", "Who is faster", told, table=_table(settings)))
        return Report(title, list(settings), sections)


_NONE: Weights = (0.0, 0.0, 0.0)
"""In rows of ``pause-auto``, which has no weights."""


def best(rows: Rows) -> Weights:
    """Return the weights of the search that get to the target first."""
    points: dict[Weights, list[Any]] = {}
    for row in rows:
        if row["step"] in ("grid", "finer"):
            points.setdefault((row["alpha"], row["gamma"], row["zeta"]), []).append(row)
    return min(points, key=lambda point: _order(points[point]))


def judged(rows: Rows, name: str) -> list[Any]:
    """Return the rows of the comparison in one setting, of ``tuned``, ``published`` or ``pause-auto``."""
    return [row for row in rows if row["step"] == name and row["seed"] < _SEARCH_SEED]


def _order(rows: Rows) -> tuple[float, float]:
    """Return a key of one point of the search; the best is the smallest, and all seeds count, since they are few."""
    reached = _mean(rows)
    return -sum(np.isfinite(row["seconds"]) for row in rows) / len(rows), reached


def _mean(rows: Rows) -> float:
    return float(np.mean([row["seconds"] for row in rows]))


def _figure(key: str, settings: dict[str, list[Any]]) -> Figure:
    points = []
    for name, rows in settings.items():
        search = [row for row in rows if row["seed"] >= _SEARCH_SEED]
        auto = _mean([row for row in search if row["step"] == _AUTO])
        times: dict[float, dict[Weights, list[Any]]] = {}
        for row in search:
            if row["step"] == "grid":
                weights = row["alpha"], row["gamma"], row["zeta"]
                times.setdefault(row[key], {}).setdefault(weights, []).append(row)
        lowest = {value: min(map(_mean, found.values())) for value, found in sorted(times.items())}
        points += [
            {"task": _short(name), key: value, "ratio": seconds / auto}
            for value, seconds in lowest.items()
            if np.isfinite(seconds)
        ]
    lines: dict[str, list[Any]] = {_short(name): [] for name in settings} | lines_by(points, "task", key, "ratio")
    axes = Axes(key, "seconds to the target, pause-auto = 1", x_scale="log", limit=1.0, limit_name="pause-auto")
    return curve_figure(f"weight-{key}", f"Seconds to the target against {key}", lines, axes)


def _short(name: str) -> str:
    return name.rpartition(", ")[0]


def _table(settings: dict[str, list[Any]]) -> Table:
    """Return who was faster; the ratio is a geometric mean over seeds, with its 95 % interval."""
    head = ["task", "target (%)", "tuned alpha / gamma / zeta", "tuned", "published weights", _AUTO, f"{_AUTO} / tuned"]
    body = []
    for name, rows in settings.items():
        weights = " / ".join(f"{weight:.3g}" for weight in best(rows))
        tuned, published, auto = (judged(rows, step) for step in ("tuned", "published", _AUTO))
        longest = max(row["all_seconds"] for row in rows)
        times = [str(seconds_to_target(some)) for some in (tuned, published, auto)]
        ratios = log_ratios(auto, tuned, longest)
        mean, half_width = float(np.mean(ratios)), t_half_width(ratios)
        low, middle, high = np.exp([mean - half_width, mean, mean + half_width])
        body.append([name, f"{rows[0]['target']:.1f}", weights, *times, f"{middle:.2f} ({low:.2f} to {high:.2f})"])
    return Table(head, body, f"Seconds to the target. {EXPLAINED}")
