"""Timing that survives a noisy machine: what is compared takes turns, and the median counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


def medians(*jobs: Callable[[], object], repeats: int = 9) -> list[float]:
    """Return the median seconds of each job, run in turns after one warm-up."""
    return [statistics.median(times) for times in _turns(jobs, repeats)]


def minima(
    *jobs: Callable[[], object], repeats: int = 9, clock: Callable[[], float] = time.process_time
) -> list[float]:
    """Return the fewest seconds of each job, run in turns after one warm-up: for jobs of very different lengths.

    By default it is processor time: other work on a machine lengthens what is long more than what is short.
    """
    return [min(times) for times in _turns(jobs, repeats, clock)]


def _turns(
    jobs: Sequence[Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> list[list[float]]:
    for job in jobs:
        job()
    taken: list[list[float]] = [[] for _ in jobs]
    for _ in range(repeats):
        for job, times in zip(jobs, taken, strict=True):
            start = clock()
            job()
            times.append(clock() - start)
    return taken


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure, with what was asked of it (None: for information)."""

    name: str
    value: str
    wanted: str = ""
    met: bool | None = None


def show(title: str, figures: list[Figure]) -> bool:
    """Print the figures; return whether all that were asked for are met."""
    table = Table(title=title, title_justify="left")
    table.add_column("figure")
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("asked", no_wrap=True)
    table.add_column("")
    for figure in figures:
        verdict = "" if figure.met is None else "ok" if figure.met else "MISSED"
        table.add_row(figure.name, figure.value, figure.wanted, verdict)
    Console(width=100).print(table)
    return all(figure.met is None or figure.met for figure in figures)
