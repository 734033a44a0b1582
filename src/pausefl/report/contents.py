"""What a report is made of: sections with charts and tables, whatever was run or measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pausefl.report.charts import Axes, curve_chart
from pausefl.report.series import Row, staggered

NOTHING = "\N{EN DASH}"
"""What a cell says that has no number."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with the name of its files; ``draw`` takes width, title and (curves only) legend."""

    name: str
    title: str
    draw: Callable[..., Any]
    fluid: bool
    """Whether the page may ask for the width of its container, and for a chart without a legend."""


@dataclass(frozen=True, slots=True)
class Table:
    """A row per policy, which begins with its name."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    reading: str = ""


@dataclass(frozen=True, slots=True)
class ReportSection:
    """Charts that are read in the same way, and a table below them."""

    name: str
    title: str
    reading: str
    figures: Sequence[Figure] = ()
    columns: int = 2
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A page: what was run, what its leakage covers, and sections; ``names`` are the entries of the legend."""

    title: str
    names: Sequence[str]
    sections: Sequence[ReportSection]
    facts: Sequence[str] = ()
    guarantees: Sequence[tuple[str, str]] = ()
    """Whom a guarantee covers, and what it says."""

    def figures(self) -> dict[str, Figure]:
        """Return all charts by their names."""
        return {figure.name: figure for section in self.sections for figure in section.figures}


def curve_figure(name: str, title: str, lines: Mapping[str, Sequence[Row]], axes: Axes) -> Figure:
    """Return a chart with a curve per entry of ``lines``; an entry without rows keeps its place in the legend."""
    return Figure(name, title, partial(curve_chart, staggered(lines.values()), list(lines), axes), fluid=True)
