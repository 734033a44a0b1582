"""How far annealing stays from the optimum, against its number of steps, in states of a real run.

Methods: ``ours`` (restarts, temperature from the data), the ``tailored`` and the ``vanilla`` graph as one chain at our
temperature, and ``paper``: one tailored chain at the paper's C / kappa.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from pausefl.privacy import Geometric
from pausefl.report.charts import Axes
from pausefl.report.report_files import Report, ReportSection, curve_figure
from pausefl.report.series import lines_by
from pausefl.rng import stream
from pausefl.selection import PUBLISHED_KAPPA, anneal, solve_exact
from pausefl.selection.objective import Objective
from pausefl.selector import Selector
from pausefl.sim.latency import two_groups
from pausefl.studies.study import Measurement, Progress, Row, Rows

_TAU_MIN = 0.05


class Annealing(Measurement):
    """Gaps in the choices of ``rounds`` rounds, every ``every``-th, from random starts; R2 where clusters are given."""

    kind: ClassVar = "annealing"
    columns: ClassVar = {
        "reward": str, "method": str, "steps": float, "seed": float, "median_gap": float, "p90_gap": float,
        "optima": float,
    }  # fmt: skip

    clients: int = Field(default=300, ge=2)
    per_round: int = Field(default=15, ge=1)
    clusters: int = Field(default=20, ge=1)
    rho: float = Field(default=0.0005, ge=0)
    budget: float = Field(default=10.0, gt=0)
    rounds: int = Field(default=300, ge=1)
    every: int = Field(default=20, ge=1)
    steps: list[int] = Field(default=[30, 100, 300, 1000, 3000, 10_000, 30_000], min_length=1)
    kappa: float = Field(default=PUBLISHED_KAPPA, gt=0)
    alpha: float = Field(default=100.0, ge=0)
    gamma: float = Field(default=5.0, ge=0)
    seeds: int = Field(default=5, ge=1)

    @model_validator(mode="after")
    def _has_choices(self) -> Self:
        if self.per_round >= self.clients or self.rounds * self.per_round <= self.clients + self.every * self.per_round:
            raise ValueError("annealing.rounds is too small, or per_round too large, for a choice among known clients")
        return self

    def rows(self, progress: Progress = lambda _: None) -> Iterator[Row]:
        """Yield a row per reward, method, number of steps and seed: median and 90th percentile gap, optima found."""
        for done in range(2 * self.seeds):
            seed, reward = divmod(done, 2)
            selector = self._selector(seed, clustered=reward == 1)
            states = [_State(objective, seed) for objective in self._objectives(selector, seed)]
            for name, how in self._methods(selector).items():
                for steps in self.steps:
                    rng = stream(seed, f"annealing {name}", steps)
                    gaps = np.array([state.gap(steps, how, rng) for state in states])
                    yield {
                        "reward": f"R{reward + 1}", "method": name, "steps": steps, "seed": seed,
                        "median_gap": float(np.median(gaps)), "p90_gap": float(np.quantile(gaps, 0.9)),
                        "optima": float((gaps < 1e-9).mean()),
                    }  # fmt: skip
            progress((done + 1) / (2 * self.seeds))

    @classmethod
    def report(cls, rows: Rows, title: str) -> Report:
        """Return a chart per reward, with a curve per method."""
        reading = (
            "What the best set found is short of the optimum, in shares of what a random set is short, in the median "
            "state of a real run: 0 is the optimum, 1 no better than chance."
        )
        axes = Axes("steps", "gap", zero=True, x_scale="log")
        figures = []
        for reward in sorted({row["reward"] for row in rows}):
            lines = lines_by((row for row in rows if row["reward"] == reward), "method", "steps", "median_gap")
            figures.append(curve_figure(f"annealing-{reward}", f"Reward {reward}", lines, axes))
        methods = list(dict.fromkeys(row["method"] for row in rows))
        return Report(title, methods, [ReportSection("annealing", "Gap to the optimum", reading, figures)])

    def _selector(self, seed: int, clustered: bool) -> Selector:
        """Return a selector with the paper's weights and schedule."""
        labels = stream(seed, "clusters").integers(0, self.clusters, self.clients) if clustered else None
        return Selector(
            np.ones(self.clients), self.per_round, alpha=self.alpha, gamma=self.gamma, tau_min=_TAU_MIN, seed=seed,
            schedule=Geometric(self.budget, 0.04), clusters=labels, rho=self.rho if clustered else 0.0,
        )  # fmt: skip

    def _objectives(self, selector: Selector, seed: int) -> Iterator[Objective]:
        """Yield what the selector has to decide in a run with the paper's latencies."""
        network = two_groups(self.clients, _TAU_MIN)
        for number in range(self.rounds):
            problem = selector.problem()
            objective = problem.objective(problem.terms(), np.arange(self.clients))
            if np.isfinite(objective.ucb).all() and number % self.every == 0:
                yield objective
            chosen = selector.select().members
            latency = network.sample(stream(seed, "latency", number))
            selector.observe({k: float(latency[int(k)]) for k in chosen})

    def _methods(self, selector: Selector) -> dict[str, dict[str, Any]]:
        reach = selector.problem().reward.set_range(self.per_round)
        return {
            "ours": {},
            "tailored, one chain": {"restarts": False},
            "vanilla, one chain": {"restarts": False, "graph": "vanilla"},
            "paper's C": {"restarts": False, "kappa": self.kappa, "set_range": reach},
        }


class _State:
    """One choice: its optimum, and what a random set is worth."""

    def __init__(self, objective: Objective, seed: int) -> None:
        self.objective = objective
        self.shape: dict[str, Any] = {"clusters": objective.clusters, "collision": objective.collision}
        self.best = solve_exact(objective.ucb, objective.score, objective.m, **self.shape).value
        rng, count = stream(seed, "random sets"), len(objective.ucb)
        self.random = float(
            np.mean([objective.solution(rng.choice(count, objective.m, replace=False)).value for _ in range(200)])
        )

    def gap(self, steps: int, how: dict[str, Any], rng: np.random.Generator) -> float:
        """Return what is missing to the optimum, in shares of what a random set misses."""
        ucb, score, m = self.objective.ucb, self.objective.score, self.objective.m
        found = anneal(ucb, score, m, steps=steps, start="random", rng=rng, **self.shape, **how)
        return (self.best - found.value) / (self.best - self.random)
