"""Table I of the paper, measured: time per call for growing K, with the fitted growth in K.

The paper counts one annealing run as O(K log K) (tailored) or O(K²) (vanilla) because it lists all neighbours; here a
step is O(log m) and the number of steps is set by the user, so both are timed at 100 steps per client.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from benchmarks.measure import Figure, medians, show
from pausefl.selection import anneal, solve_brute, solve_exact
from pausefl.selection.annealing import Graph


def main() -> bool:
    figures = []
    for name, sizes, job in (
        ("brute", (10, 15, 20, 25), _brute),
        ("vanilla annealing, 100 steps per client", (100, 1000, 10_000, 100_000), _annealed("vanilla")),
        ("tailored annealing, 100 steps per client", (100, 1000, 10_000, 100_000), _annealed("tailored")),
        ("exact R1", (1000, 10_000, 100_000, 1_000_000), _exact(False)),
        ("exact R2", (1000, 10_000, 100_000, 1_000_000), _exact(True)),
    ):
        times = [_time(job, size) for size in sizes]
        growth = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        figures += [Figure(f"{name}, K={size:,}", _in_words(t)) for size, t in zip(sizes, times, strict=True)]
        figures.append(Figure(f"  {name}: time grows like K to the", f"{growth:.2f}"))
    return show("Table I, measured (m = K/5, at most 1,000)", figures)


def _time(job: Callable[[np.ndarray, np.ndarray, int], object], count: int) -> float:
    rng = np.random.default_rng(count)
    ucb, score = rng.random(count), rng.random(count) / count
    (seconds,) = medians(lambda: job(ucb, score, min(max(1, count // 5), 1000)), repeats=3)
    return seconds


def _brute(ucb: np.ndarray, score: np.ndarray, m: int) -> object:
    return solve_brute(ucb, score, m)


def _annealed(graph: Graph) -> Callable[[np.ndarray, np.ndarray, int], object]:
    return lambda ucb, score, m: anneal(
        ucb,
        score,
        m,
        steps=100 * len(ucb),
        graph=graph,
        start="random",
        rng=np.random.default_rng(0),
    )


def _exact(clustered: bool) -> Callable[[np.ndarray, np.ndarray, int], object]:
    def job(ucb: np.ndarray, score: np.ndarray, m: int) -> object:
        labels = np.arange(len(ucb)) % max(1, m) if clustered else None
        return solve_exact(ucb, score, m, clusters=labels, collision=1.0 / len(ucb) if clustered else 0.0)

    return job


def _in_words(seconds: float) -> str:
    scale, unit = next(((s, u) for s, u in ((1.0, "s"), (1e-3, "ms")) if seconds >= s), (1e-6, "µs"))
    digits = max(0, 2 - int(math.log10(max(1.0, seconds / scale))))
    return f"{seconds / scale:.{digits}f} {unit}"
