"""Selection: against one argsort of the same numbers, and against the memory bus."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Sequence
from functools import partial

import numpy as np

from benchmarks.measure import Figure, medians, show
from pausefl.privacy import FixedHorizon, Geometric, PowerLaw
from pausefl.selection import anneal, solve_exact
from pausefl.selection.annealing import Graph
from pausefl.selector import Selector
from pausefl.types import BudgetSchedule

REGIMES = ((1.0, "scores rule"), (0.01, "balanced"), (1e-4, "speed rules"))
"""How much scores weigh.  Opposed: whoever is slower has the better score, so that nobody can be left out by itself."""


def main() -> bool:
    return show("Selection", [*_million(), *_small(), *_annealing(), *_whole_round(), *_own_schedules()])


def _million() -> list[Figure]:
    rng = np.random.default_rng(0)
    count, m = 1_000_000, 1000
    ucb, labels = rng.random(count), rng.integers(0, 5000, count)
    independent, against = rng.random(count), 1.0 - ucb + 0.01 * rng.random(count)
    cases = [
        *((weight, independent, regime, 0.12, 0.2) for weight, regime in REGIMES),
        *((weight, against, f"opposed, {regime}", 1.0, 1.5) for weight, regime in REGIMES),
        # Nothing can be left out, since speed gains what scores lose: for information.
        (1.0 / m, against, "opposed, thresholds alike", math.inf, math.inf),
    ]
    figures = []
    for weight, unit, regime, plain_goal, clustered_goal in cases:
        score = weight * unit
        sort, plain, clustered, read = medians(
            lambda: np.argsort(ucb),
            partial(solve_exact, ucb, score, m),
            partial(solve_exact, ucb, score, m, clusters=labels, collision=0.3 * weight),
            partial(_read, ucb, score),
        )
        figures += [
            Figure(
                f"exact R1, K=1,000,000, m=1,000 ({regime}) / argsort",
                f"{plain / sort:.2f}",
                *_at_most(plain / sort, plain_goal),
            ),
            Figure(
                f"exact R2, the same ({regime}) / argsort",
                f"{clustered / sort:.2f}",
                *_at_most(clustered / sort, clustered_goal),
            ),
            Figure(
                "  R1 in ms, and as a multiple of reading the input once", f"{1e3 * plain:.1f} ms, {plain / read:.0f} x"
            ),
        ]
    return figures


def _at_most(ratio: float, goal: float) -> tuple[str, bool | None]:
    return ("", None) if math.isinf(goal) else (f"≤ {goal}", ratio <= goal)


def _read(*arrays: np.ndarray) -> None:
    for array in arrays:
        array.max()


def _small() -> list[Figure]:
    rng = np.random.default_rng(0)
    ucb, score, labels = rng.random(300), rng.random(300), rng.integers(0, 20, 300)
    plain, clustered = medians(
        lambda: solve_exact(ucb, score, 15),
        lambda: solve_exact(ucb, score, 15, clusters=labels, collision=0.3),
        repeats=501,
    )
    return [
        Figure("exact R1, K=300, m=15", f"{1e6 * plain:.0f} µs", "< 200 µs", plain < 200e-6),
        Figure("exact R2, K=300, m=15", f"{1e6 * clustered:.0f} µs", "< 200 µs", clustered < 200e-6),
    ]


def _annealing() -> list[Figure]:
    rng = np.random.default_rng(0)
    ucb, score, labels = rng.random(300), rng.random(300), rng.integers(0, 20, 300)
    steps = 1_000_000

    def run(graph: Graph, clustered: bool) -> None:
        anneal(
            ucb, score, 15, clusters=labels, collision=0.3 if clustered else 0.0, steps=steps, graph=graph,
            start="random", rng=np.random.default_rng(1),
        )  # fmt: skip

    graphs: tuple[Graph, ...] = ("tailored", "vanilla")
    names = [(graph, clustered) for graph in graphs for clustered in (False, True)]
    times = medians(*(partial(run, graph, clustered) for graph, clustered in names), repeats=3)
    (default,) = medians(lambda: anneal(ucb, score, 15, rng=np.random.default_rng(1)), repeats=21)
    return [
        *(
            Figure(f"anneal, {graph}, {'R2' if clustered else 'R1'}, K=300, m=15", f"{steps / t / 1e6:.1f} M steps/s",
                   "≥ 1 M", steps / t >= 1e6)
            for (graph, clustered), t in zip(names, times, strict=True)
        ),
        Figure("anneal with its defaults, K=300, m=15", f"{1e3 * default:.1f} ms", "≤ 50 ms", default <= 0.05),
    ]  # fmt: skip


def _whole_round() -> list[Figure]:
    rng = np.random.default_rng(0)
    count = 1_000_000
    latency = 0.05 + rng.random(count)
    tracemalloc.start()
    selector = Selector(rng.integers(50, 500, count), 1000, tau_min=0.05)
    selector.cohort.observe(np.arange(count), latency, floor=0.05)  # everybody known: the usual state

    def one_round() -> None:
        chosen = selector.select().members
        selector.observe({k: float(latency[int(k)]) for k in chosen})

    one_round()
    tracemalloc.reset_peak()
    one_round()
    peak = tracemalloc.get_traced_memory()[1]  # of a round, and with all that is known of the clients
    tracemalloc.stop()
    numbers = rng.random(count)
    sort, whole, explained = medians(lambda: np.argsort(numbers), one_round, lambda: selector.select().reasons.left_out)
    return [
        Figure("select + observe, K=1,000,000, m=1,000 / argsort", f"{whole / sort:.2f}", "≤ 0.5", whole <= 0.5 * sort),
        Figure("  in ms", f"{1e3 * whole:.0f} ms"),
        Figure("  peak memory per client", f"{peak / count:.0f} bytes", "≤ 80", peak <= 80 * count),
        Figure("select + who was left out / argsort", f"{explained / sort:.2f}", "≤ 2", explained <= 2 * sort),
    ]


def _own_schedules() -> list[Figure]:
    """A round of clients that have schedules of their own, against a round of clients that share one.

    Budgets that differ leave the choice as it is, so that only the looking up is measured.  Schedules of different
    kinds change the choice, and with it the work of the solver.
    """
    rng = np.random.default_rng(0)
    count = 1_000_000
    sizes, latency, numbers = rng.integers(50, 500, count), 0.05 + rng.random(count), rng.integers(0, 5, count).tolist()
    again = [np.flatnonzero(rng.random(count) < part) for part in (1.0, 0.5, 0.2)]
    kinds = (Geometric(40.0, 0.04), Geometric(8.0, 0.2), PowerLaw(10.0, 2.0), FixedHorizon(8.0, 4000),
             FixedHorizon(4.0, 9000))  # fmt: skip
    budgets = [Geometric(budget, 0.04) for budget in (40.0, 20.0, 10.0, 4.0, 1.0)]

    def made(schedules: Sequence[BudgetSchedule]) -> Selector:
        selector = Selector(sizes, 1000, tau_min=0.05, schedule={k: schedules[n] for k, n in enumerate(numbers)})
        for some in again:  # everybody is known, and counts differ
            selector.cohort.observe(some, latency[some], floor=0.05)
        return selector

    selectors = [made(each) for each in (kinds[:1] * 5, budgets, kinds, kinds)]
    selectors[-1].report(left=dict(enumerate(rng.random(count).tolist())))
    one, same, other, told = medians(*(partial(_one_round, each, latency) for each in selectors), repeats=21)
    return [
        Figure("select + observe, K=1,000,000, m=1,000: of 5 budgets / of one", f"{same / one:.2f}", "≤ 1.2",
               same <= 1.2 * one),
        Figure("  of 5 kinds of schedules / of one, which is another choice", f"{other / one:.2f}", "≤ 1.2",
               other <= 1.2 * one),
        Figure("  the same, where all clients have told what is left", f"{told / one:.2f}"),
    ]  # fmt: skip


def _one_round(selector: Selector, latency: np.ndarray) -> None:
    selector.observe({k: float(latency[int(k)]) for k in selector.select()})
