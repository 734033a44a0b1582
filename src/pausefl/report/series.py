"""Runs as rows for charts: averaged over seeds, and few enough for any number of rounds and clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pausefl.runs.run_data import RunData
from pausefl.types import FloatArray

Row = dict[str, Any]
POINTS, BARS, MARKS = 90, 50, 7


def curve(runs: Sequence[RunData], x: str, y: str, points: int = POINTS) -> list[Row]:
    """Return mean, smallest and largest y over the seeds, at common values of x (``round`` or ``seconds``)."""
    lines = []
    for run in runs:
        values = run.series(y)
        good = ~np.isnan(values)
        if good.any():
            lines.append((run.column(x)[good], values[good]))
    if not lines:
        return []
    low, high = max(line[0][0] for line in lines), min(line[0][-1] for line in lines)
    at = np.linspace(low, max(low, high), points)
    at = np.unique(at.round()) if x == "round" else np.unique(at)
    return _rows(runs, at, [np.interp(at, *line) for line in lines])


def ranked(runs: Sequence[RunData], of: Callable[[RunData], FloatArray | None], points: int = POINTS) -> list[Row]:
    """Return a number per client from the smallest to the largest, against the share of clients (percent)."""
    found = [values for run in runs if (values := of(run)) is not None and len(values)]
    if not found:
        return []
    share = np.linspace(0.0, 1.0, min(points, max(2, *(len(values) for values in found), 2)))
    return _rows(runs, 100.0 * share, [np.quantile(values, share) for values in found])


def participation(runs: Sequence[RunData], by: Callable[[RunData], FloatArray | None], bars: int = BARS) -> list[Row]:
    """Return in how many rounds (percent) clients took part, from the smallest ``by`` to the largest."""
    tables = []
    for run in runs:
        values = by(run)
        if values is None or _nearly_equal(values):
            return []
        rate = 100.0 * run.picks() / len(run.records)
        groups = np.array_split(np.argsort(values, kind="stable"), min(bars, len(values)))
        tables.append([float(rate[group].mean()) for group in groups])
    count = min(len(table) for table in tables)
    table = np.array([row[:count] for row in tables])
    edges = np.linspace(0.0, 100.0, count + 1)
    level = float(np.mean([100.0 * run.picks().mean() / len(run.records) for run in runs]))
    return [
        {"run": runs[0].name, "x": a, "x2": b, "y": y, "level": level, **spread}
        for a, b, y, spread in zip(edges, edges[1:], table.mean(axis=0), _range(table), strict=False)
    ]


def latency_histogram(groups: Mapping[str, Sequence[RunData]], bars: int = BARS) -> list[Row]:
    """Return how the seconds of a round are distributed, in percent of the rounds of all seeds.

    The slowest hundredth of all rounds shares the last bar.
    """
    found = {name: _latencies(runs) for name, runs in groups.items()}
    every = np.concatenate([*found.values(), np.empty(0)])
    if not len(every):
        return []
    edges = np.linspace(0.0, max(float(np.quantile(every, 0.99)), 1e-9), bars + 1)
    rows: list[Row] = []
    for name, values in found.items():
        if len(values):
            share = 100.0 * np.histogram(np.minimum(values, edges[-1]), edges)[0] / len(values)
            middle = min(float(np.median(values)), float(edges[-1]))
            rows += [
                {"run": name, "x": a, "x2": b, "y": y, "level": middle}
                for a, b, y in zip(edges, edges[1:], share, strict=False)
            ]
    return rows


def lines_by(rows: Iterable[Mapping[str, Any]], group: str, x: str, y: str) -> dict[str, list[Row]]:
    """Return measured rows as a curve per value of the column ``group``: mean and range of y over the seeds."""
    found: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        found.setdefault(str(row[group]), {}).setdefault(float(row[x]), []).append(float(row[y]))
    return {
        name: [
            {"run": name, "x": at, "y": float(np.mean(ys)), "low": min(ys), "high": max(ys)}
            for at, ys in sorted(points.items())
        ]
        for name, points in found.items()
    }


def staggered(parts: Iterable[Sequence[Row]], marks: int = MARKS) -> list[Row]:
    """Join curves, and mark a few points of each, at different places, so that no marker hides another.

    ``mark`` is 2 for a marker, 1 for a point that only answers the pointer, and 0 for the rest.
    """
    joined = []
    curves = [part for part in parts if part]
    for number, part in enumerate(curves):
        step = max(1, len(part) // marks)
        first = number * step // len(curves)
        every = max(1, len(part) // 30)
        for place, row in enumerate(part):
            marked = place % step == first or len(part) == 1
            joined.append(row | {"mark": 2 if marked else int(place % every == 0)})
    return joined


def _rows(runs: Sequence[RunData], at: FloatArray, lines: Sequence[FloatArray]) -> list[Row]:
    table = np.array(lines)
    return [
        {"run": runs[0].name, "x": x, "y": y, **spread}
        for x, y, spread in zip(at.tolist(), table.mean(axis=0).tolist(), _range(table), strict=True)
    ]


def _range(table: FloatArray) -> list[dict[str, float]]:
    return [
        {"low": float(low), "high": float(high)} for low, high in zip(table.min(axis=0), table.max(axis=0), strict=True)
    ]


def _latencies(runs: Sequence[RunData]) -> FloatArray:
    """Return the seconds of every round that anybody took part in."""
    return np.array([r["latency"] for run in runs for r in run.records if r["members"]], dtype=np.float64)


def _nearly_equal(values: FloatArray) -> bool:
    """Whether these values are too similar to order clients by them."""
    return bool(values.max() <= 1.1 * values.min())
