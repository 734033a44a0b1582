"""Reports of the studies without training, drawn from their rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pausefl.report.charts.base import load_altair, save_chart
from pausefl.report.charts.curves import Axes, curve_chart
from pausefl.report.figures import Figure, Section
from pausefl.report.page.shell import page
from pausefl.report.series import staggered
from pausefl.report.style import BOUND

Rows: TypeAlias = Sequence[Mapping[str, Any]]


def write_measured(kind: str, rows: Rows, path: Path, title: str) -> Path:
    """Write the report of a measurement as one HTML file that needs no network."""
    load_altair()
    section, names = _KINDS[kind](rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(title, names, [section]), encoding="utf-8")
    return path


def write_measured_images(kind: str, rows: Rows, folder: Path, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write the same charts as files."""
    load_altair()
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for figure in _KINDS[kind](rows)[0].figures:
        for ending in formats:
            written.append(folder / f"{figure.name}.{ending}")
            save_chart(figure.draw(width=520, title=figure.title), written[-1])
    return written


def _g_function(rows: Rows) -> tuple[Section, list[str]]:
    reading = (
        "A client whose data was used less than its share earns a reward, one that was used more pays. A larger beta "
        "is milder near the share."
    )
    lines = _lines(({**row, "beta": f"beta = {row['beta']:g}"} for row in rows), "participation", "g", "beta")
    axes = Axes("T / t, share of rounds with this client", "g")
    return Section(
        "g", "Generalization reward", reading, [_figure("g-function", "g against participation", lines, axes)]
    ), list(lines)


def _complexity(rows: Rows) -> tuple[Section, list[str]]:
    reading = "Both axes are logarithmic: a straight line of slope p means that time grows like K to the p."
    lines = _lines(rows, "clients", "seconds", "method")
    axes = Axes("clients K", "seconds per choice", scale="log", x_scale="log")
    return Section(
        "time", "Time of one choice", reading, [_figure("complexity", "Time of one choice", lines, axes)]
    ), list(lines)


def _regret(rows: Rows) -> tuple[Section, list[str]]:
    reading = (
        "Left: rounds are logarithmic, so logarithmic regret is a straight line. Right: both axes are logarithmic; the "
        "upper lines are Theorem 1's bound, which holds by a very wide margin."
    )
    measured = _lines(rows, "rounds", "regret", "setting")
    limits = [{**row, "setting": f"{BOUND}{row['setting']}"} for row in rows if math.isfinite(row["bound"])]
    bound = _lines(limits, "rounds", "bound", "setting")
    above = {name: [row for row in line if row["low"] > 0] for name, line in measured.items()}
    figures = [
        _figure("regret", "Cumulative regret", measured, Axes("rounds n", "regret", x_scale="log")),
        _figure(
            "regret-bound", "Regret and its bound", above | bound,
            Axes("rounds n", "regret", scale="log", x_scale="log"),
        ),
    ]  # fmt: skip
    return Section("regret", "Regret against the genie", reading, figures), [*measured, *bound]


def _annealing(rows: Rows) -> tuple[Section, list[str]]:
    reading = (
        "What the best set found is short of the optimum, in shares of what a random set is short, in the median "
        "state of a real run: 0 is the optimum, 1 no better than chance."
    )
    figures, names = [], []
    for reward in sorted({row["reward"] for row in rows}):
        lines = _lines((row for row in rows if row["reward"] == reward), "steps", "median_gap", "method")
        axes = Axes("steps", "gap", zero=True, x_scale="log")
        figures.append(_figure(f"annealing-{reward}", f"Reward {reward}", lines, axes))
        names = list(lines)
    return Section("annealing", "Gap to the optimum", reading, figures), names


_KINDS: dict[str, Callable[[Rows], tuple[Section, list[str]]]] = {
    "g-function": _g_function,
    "complexity": _complexity,
    "regret": _regret,
    "annealing": _annealing,
}


def _lines(rows: Iterable[Mapping[str, Any]], x: str, y: str, group: str) -> dict[str, list[dict[str, Any]]]:
    """Return, per group, mean and range of y over the seeds at each x."""
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


def _figure(name: str, title: str, lines: Mapping[str, list[dict[str, Any]]], axes: Axes) -> Figure:
    rows = staggered([line for line in lines.values() if line])
    return Figure(name, title, partial(curve_chart, rows, list(lines), axes), fluid=True)
