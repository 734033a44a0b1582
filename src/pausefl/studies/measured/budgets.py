"""What a lifetime budget for the whole update buys: accuracy by plan, and whether the plan's verdict is right.

Each setting is trained by its plan, and once without noise.  The verdict says that 80 % of the accuracy without noise
can be reached, or cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
from pydantic import Field, Strict

from pausefl.privacy import suggest
from pausefl.report.charts import Axes
from pausefl.report.report_files import Report, ReportSection, curve_figure
from pausefl.report.series import lines_by
from pausefl.runs.build import build
from pausefl.runs.config import Config, make_config
from pausefl.studies.study import Measurement, Progress, Row, Rows

Setting: TypeAlias = Annotated[tuple[str, str, int, int, float], Strict(False)]
"""Data, features, clients, clients per round, and budget; TOML has lists for it."""

REACHED = 0.8
"""The share of the accuracy without noise that counts as learned."""

_LEARNING: dict[str, Any] = {
    "model": "softmax", "optimizer": "sgd", "lr": 0.1, "batch": 0, "epochs": 8, "optimizer_state": "fresh",
}  # fmt: skip


class Budgets(Measurement):
    """Runs of ``settings``, each with ``seeds`` seeds, by the plan of ``suggest``; PAUSE picks the clients."""

    kind: ClassVar = "budgets"
    columns: ClassVar = {
        "data": str, "features": str, "clients": float, "per_round": float, "budget": float, "dimension": float,
        "releases": float, "rounds": float, "noise_to_signal": float, "bearable": float, "seed": float,
        "accuracy": float, "without_noise": float,
    }  # fmt: skip

    settings: list[Setting] = Field(default=[("digits", "hog", 30, 5, 40.0)], min_length=1)
    without_noise_rounds: int = Field(default=100, ge=1)
    seeds: int = Field(default=5, ge=1)

    def rows(self, progress: Progress = lambda _: None) -> Iterator[Row]:
        """Yield a row per setting and seed."""
        bare: dict[tuple[Any, ...], tuple[float, int, int]] = {}
        for done, (data, features, clients, per_round, budget) in enumerate(self.settings):
            task = (data, features, clients, per_round)
            if task not in bare:
                bare[task] = played(self._without_noise(*task))
            best, dimension, examples = bare[task]
            plan = suggest(clients, per_round, dimension, budget, examples=examples, accuracy=best)
            known = {
                "data": data, "features": features, "clients": clients, "per_round": per_round, "budget": budget,
                "dimension": dimension, "releases": plan.releases, "rounds": plan.rounds,
                "noise_to_signal": plan.noise_to_signal, "bearable": plan.bearable, "without_noise": best,
            }  # fmt: skip
            for seed in range(self.seeds):
                privacy = {"budget": budget, "releases": plan.releases}
                run = {"rounds": plan.rounds, "seed": seed, "evaluate_every": plan.rounds}
                accuracy = played(_config(task, privacy, {"step": plan.step, "average": 0.9}, run))[0]
                yield known | {"seed": seed, "accuracy": accuracy}
            progress((done + 1) / len(self.settings))

    def _without_noise(self, *task: Any) -> Config:
        rounds = self.without_noise_rounds
        return _config(task, {"enabled": False}, {}, {"rounds": rounds, "evaluate_every": rounds})

    @classmethod
    def report(cls, rows: Rows, title: str) -> Report:
        """Return the share of the accuracy that is left, against how much more noise there is than can be borne."""
        points = [
            {
                "task": f"{row['data']}, {row['features']}",
                "strain": row["noise_to_signal"] / row["bearable"],
                "share": 100.0 * row["accuracy"] / row["without_noise"],
            }
            for row in rows
        ]
        reading = (
            "To the left of 1 the plan says that a model can learn: then at least 80 % of its accuracy without noise "
            f"should be left.  The plan is right in {sum(verdicts(rows))} of {len(verdicts(rows))} settings."
        )
        axes = Axes(
            "noise to signal, over what can be borne", "share of accuracy left (%)", x_scale="log",
            limit=100.0 * REACHED, limit_name="learned:",
        )  # fmt: skip
        lines = lines_by(points, "task", "strain", "share")
        figures = [curve_figure("budgets", "What noise leaves of the accuracy", lines, axes)]
        return Report(
            title, list(lines), [ReportSection("share", "What noise leaves of the accuracy", reading, figures)]
        )


def verdicts(rows: Rows) -> list[bool]:
    """Return for each setting whether the plan's verdict was right, by the mean over its seeds."""
    found = []
    for seeds in by_setting(rows).values():
        share = float(np.mean([row["accuracy"] / row["without_noise"] for row in seeds]))
        found.append((share >= REACHED) is (seeds[0]["noise_to_signal"] <= seeds[0]["bearable"]))
    return found


def by_setting(rows: Rows) -> dict[str, list[Mapping[str, Any]]]:
    """Return the rows of each setting, by its name."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        who = f"{row['clients']:.0f} clients, {row['per_round']:.0f} per round"
        name = f"{row['data']} ({row['features']}), {who}, budget {row['budget']:g}"
        found.setdefault(name, []).append(row)
    return found


def _config(task: tuple[Any, ...], privacy: dict[str, Any], server: dict[str, Any], run: dict[str, Any]) -> Config:
    data, features, clients, per_round = task
    fixed = {"mechanism": "privunit", "unit": "update", "schedule": "fixed-horizon"}
    return make_config({
        "data": {"name": data}, "network": {"clients": clients}, "selection": {"per_round": per_round},
        "privacy": fixed | privacy, "learning": {"features": features, **_LEARNING}, "server": server, "run": run,
    })  # fmt: skip


def played(config: Config) -> tuple[float, int, int]:
    """Return the accuracy at the end, the model's dimension, and how many examples a client has."""
    simulation = build(config)
    try:
        *_, last = simulation.play(config.run.rounds, pause_every=config.run.rounds)
        return last["accuracy"], len(simulation.model), int(np.median(simulation.selector.cohort.sizes))
    finally:
        simulation.close()
