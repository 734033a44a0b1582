"""Table I of the paper, measured: the time of one choice for growing K.

The paper counts one annealing run as O(K log K) (tailored) or O(K²) (vanilla) because it lists all neighbours; here a
step is O(log m) and the number of steps is set by the user, so both are timed at 100 steps per client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import ClassVar, TypeAlias

import numpy as np
from pydantic import Field

from pausefl.report.charts import Axes
from pausefl.report.report_files import Report, ReportSection, curve_figure
from pausefl.report.series import lines_by
from pausefl.selection import anneal, solve_brute, solve_exact
from pausefl.studies.study import Measurement, Progress, Row, Rows
from pausefl.types import FloatArray

Method: TypeAlias = Callable[[FloatArray, FloatArray, int], object]


class Complexity(Measurement):
    """Medians of ``repeats`` calls on each of ``seeds`` random problems with m = K/5, at most 1,000.

    Speed and score are independent, and for the exact solver also opposed, which is its worst case.
    """

    kind: ClassVar = "complexity"
    columns: ClassVar = {"method": str, "clients": float, "per_round": float, "seed": float, "seconds": float}

    brute: list[int] = Field(default=[10, 15, 20, 25], min_length=1)
    annealing: list[int] = Field(default=[100, 1000, 10_000, 100_000], min_length=1)
    exact: list[int] = Field(default=[1000, 10_000, 100_000, 1_000_000], min_length=1)
    steps_per_client: int = Field(default=100, ge=1)
    repeats: int = Field(default=3, ge=1)
    seeds: int = Field(default=5, ge=1)

    def rows(self, progress: Progress = lambda _: None) -> Iterator[Row]:
        """Yield a row per method, K and seed."""
        todo = [(name, method, size) for name, method, sizes in self._methods() for size in sizes]
        for done, (name, method, size) in enumerate(todo):
            m = min(max(1, size // 5), 1000)
            method(*_problem(size, self.seeds), m)  # compiled and warm
            for seed in range(self.seeds):
                yield {"method": name, "clients": size, "per_round": m, "seed": seed} | {
                    "seconds": self._median(method, _problem(size, seed), m)
                }
            progress((done + 1) / len(todo))

    @classmethod
    def report(cls, rows: Rows, title: str) -> Report:
        """Return a curve per method."""
        reading = "Both axes are logarithmic: a straight line of slope p means that time grows like K to the p."
        lines = lines_by(rows, "method", "clients", "seconds")
        axes = Axes("clients K", "seconds per choice", scale="log", x_scale="log")
        figures = [curve_figure("complexity", "Time of one choice", lines, axes)]
        return Report(title, list(lines), [ReportSection("time", "Time of one choice", reading, figures)])

    def _median(self, method: Method, problem: tuple[FloatArray, FloatArray], m: int) -> float:
        times = []
        for _ in range(self.repeats):
            begin = perf_counter()
            method(*problem, m)
            times.append(perf_counter() - begin)
        return float(np.median(times))

    def _methods(self) -> list[tuple[str, Method, list[int]]]:
        return [
            ("brute", solve_brute, self.brute),
            ("vanilla annealing", self._annealed("vanilla"), self.annealing),
            ("tailored annealing", self._annealed("tailored"), self.annealing),
            ("exact R1", solve_exact, self.exact),
            ("exact R2", _clustered, self.exact),
            ("exact R1, opposed", _opposed(solve_exact), self.exact),
            ("exact R2, opposed", _opposed(_clustered), self.exact),
        ]

    def _annealed(self, graph: str) -> Method:
        return lambda ucb, score, m: anneal(
            ucb, score, m, steps=self.steps_per_client * len(ucb), graph=graph,  # type: ignore[arg-type]
            start="random", rng=np.random.default_rng(0),
        )  # fmt: skip


def growth(clients: FloatArray, seconds: FloatArray) -> float:
    """Return the exponent p of the best fit seconds = c·K^p."""
    return float(np.polyfit(np.log(clients), np.log(seconds), 1)[0])


def _clustered(ucb: FloatArray, score: FloatArray, m: int) -> object:
    return solve_exact(ucb, score, m, clusters=np.arange(len(ucb)) % m, collision=1.0 / len(ucb))


def _opposed(method: Method) -> Method:
    """Let slower clients score higher, as in a long run: fast ones were used more.  Then no client outdoes another."""
    return lambda ucb, score, m: method(ucb, (1.0 - ucb) * 100.0 / m, m)


def _problem(size: int, seed: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng((size, seed))
    return rng.random(size), rng.random(size) / size
