"""How time grows with clients, members, rounds, rows of a ledger and nodes: fitted exponents, and a chart of them.

``CASES`` is a list to add to.  A case has a size that grows, and a function that prepares a job of that size, or that
returns its seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.clock_only import settings
from benchmarks.flower import round_seconds
from benchmarks.measure import Figure, minima, show
from benchmarks.privacy import open_and_reserve_seconds
from pausefl.report.charts import Axes
from pausefl.report.report_files import Report, ReportSection, curve_figure, write_images
from pausefl.runs.build import build
from pausefl.selection import solve_exact
from pausefl.selector import Selector
from pausefl.studies.measured.complexity import growth

CHART = Path("build/scaling.svg")
Job = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing that grows.

    Attributes:
        name: What is done.
        over: What grows, e.g. ``K``.
        sizes: How large it is, from small to large.
        prepare: Returns the job of a size; what it does itself is not measured.
        seconds: Returns the seconds of a size, for what is measured in a way of its own; then nothing is prepared.
        why: Why it grows faster than asked, where that is known and accepted; it is printed.
        at_most: The largest exponent that is asked for.  K log K has 1.1 here.  The last step alone may have 0.2 more,
            since the largest data no longer fit into a cache.
        clock: Processor time, unless the job waits or has processes of its own: ``time.perf_counter`` then.
    """

    name: str
    over: str
    sizes: Sequence[int]
    prepare: Callable[[int], Job] | None = None
    seconds: Callable[[int], float] | None = None
    why: str = ""
    at_most: float = 1.1
    repeats: int = 5
    clock: Callable[[], float] = time.process_time

    def measured(self) -> list[float]:
        """Return the seconds of each size."""
        if self.prepare is not None:
            return minima(*map(self.prepare, self.sizes), repeats=self.repeats, clock=self.clock)
        return [] if self.seconds is None else [self.seconds(size) for size in self.sizes]


def main(chart: Path = CHART) -> bool:
    """Measure all cases, print their exponents, and draw their times."""
    figures, lines = [], {}
    for case in CASES:
        seconds = np.array(case.measured())
        sizes, name = np.array(case.sizes, dtype=np.float64), f"{case.name}, {case.over}"
        whole, last = growth(sizes, seconds), growth(sizes[-2:], seconds[-2:])
        figures += [
            _exponent(case, f"{case.name}: like {case.over} to the", whole, case.at_most),
            _exponent(case, f"  from {case.over} = {case.sizes[-2]:,} to {case.sizes[-1]:,}", last, case.at_most + 0.2),
            Figure(
                f"  in ms, from {case.over} = {case.sizes[0]:,} to {case.sizes[-1]:,}",
                f"{1e3 * seconds[0]:.2f} to {1e3 * seconds[-1]:.1f}",
            ),
        ]
        if case.why:
            figures.append(Figure(f"  {case.why}", ""))
        lines[name] = [{"run": name, "x": x, "y": y} for x, y in zip(case.sizes, seconds.tolist(), strict=True)]
    met = show("How time grows", figures)
    axes = Axes("size (clients, members, rounds, rows or nodes)", "seconds", scale="log", x_scale="log")
    figure = curve_figure(chart.stem, "How time grows", lines, axes)
    report = Report("How time grows", list(lines), [ReportSection("scaling", "How time grows", "", [figure])])
    for path in write_images(report, chart.parent, formats=[chart.suffix.removeprefix(".")]):
        print(f"wrote {path}")
    return met


def _exponent(case: Case, name: str, found: float, at_most: float) -> Figure:
    return Figure(name, f"{found:.2f}", f"≤ {at_most:.1f}", found <= at_most or bool(case.why))


def _exact(clients: int, m: int | None = None, *, opposed: bool = False, clustered: bool = False) -> Job:
    rng = np.random.default_rng(clients)
    m = max(1, clients // 1000) if m is None else m
    ucb, noise = rng.random(clients), rng.random(clients)
    score = (1.0 - ucb + 0.01 * noise if opposed else noise) * 10.0 / m
    labels, collision = rng.integers(0, 5 * m, clients), 3.0 / m if clustered else 0.0
    return partial(solve_exact, ucb, score, m, clusters=labels if clustered else None, collision=collision)


def _round(clients: int) -> Job:
    rng = np.random.default_rng(clients)
    latency = 0.05 + rng.random(clients)
    selector = Selector(rng.integers(50, 500, clients), max(1, clients // 1000), tau_min=0.05)
    selector.cohort.observe(np.arange(clients), latency, floor=0.05)
    return lambda: selector.observe({k: float(latency[int(k)]) for k in selector.select()})


def _run(rounds: int) -> Job:
    def play() -> None:
        for _ in build(settings(100_000, 100)).play(rounds):
            pass

    return play


_CLIENTS = (1000, 10_000, 100_000, 1_000_000)
_MEMBERS = (10, 100, 1000, 10_000)

CASES = [
    Case(name="exact choice, m = K/1000", over="K", sizes=_CLIENTS, prepare=_exact),
    Case(name="exact choice with clusters", over="K", sizes=_CLIENTS, prepare=partial(_exact, clustered=True)),
    Case(name="exact choice, opposed", over="K", sizes=_CLIENTS, prepare=partial(_exact, opposed=True)),
    Case(
        name="exact choice, opposed, with clusters", over="K", sizes=_CLIENTS,
        prepare=partial(_exact, opposed=True, clustered=True),
    ),
    Case(name="exact choice of 100,000", over="m", sizes=_MEMBERS, prepare=partial(_exact, 100_000)),
    Case(
        name="exact choice of 100,000, opposed, with clusters", over="m", sizes=_MEMBERS,
        prepare=partial(_exact, 100_000, opposed=True, clustered=True),
    ),
    Case(name="select + observe", over="K", sizes=_CLIENTS, prepare=_round),
    Case(name="run without training, K = 100,000", over="rounds", sizes=(5, 10, 20, 40), prepare=_run, repeats=3),
    Case(
        name="ledger: open + reserve", over="rows", sizes=(100, 1000, 10_000, 100_000),
        seconds=open_and_reserve_seconds,
    ),
    Case(name="Flower: a round beside FedAvg", over="nodes", sizes=(300, 1000, 3000, 10_000), seconds=round_seconds),
]  # fmt: skip
"""What is measured; add a case for each thing that ought to grow no faster than in proportion."""
