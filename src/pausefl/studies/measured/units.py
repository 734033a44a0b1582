"""What each unit of privacy buys: the same task under promises about one record, a whole update, or one coordinate.

A promise about the whole update holds for each single record, too, and so does d times the epsilon of one coordinate.
So all of them can be compared by one number: the epsilon that holds for one record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field, Strict

from pausefl.privacy import suggest
from pausefl.report.charts import Axes
from pausefl.report.report_files import Report, ReportSection, curve_figure
from pausefl.report.series import lines_by
from pausefl.runs.build import build
from pausefl.runs.config import Config, make_config
from pausefl.studies.measured.budgets import played
from pausefl.studies.study import Measurement, Progress, Row, Rows

Unit: TypeAlias = Literal["record", "update", "coordinate", "none"]
Setting: TypeAlias = Annotated[tuple[Unit, str, int, int, float, int, float], Strict(False)]
"""Unit, data, clients, clients per round, budget, releases of each client, and step; TOML has lists for it.

Without releases, as many as ``suggest`` plans, with its step.
"""

UNITS: dict[str, dict[str, Any]] = {
    "record": {"mechanism": "gaussian", "unit": "record", "schedule": "fixed-horizon", "delta": 1e-5},
    "update": {"mechanism": "privunit", "unit": "update", "schedule": "fixed-horizon"},
    "coordinate": {"mechanism": "laplace", "unit": "coordinate", "schedule": "fixed-horizon", "width": 0.02},
    "none": {"enabled": False},
}
"""How each unit is kept; ``none`` is training without noise."""

_NAMES = {
    "record": "one record (record)", "update": "all data of a client (update)",
    "coordinate": "one number of an update (coordinate)",
}  # fmt: skip


class Units(Measurement):
    """Runs of ``settings``, each with ``seeds`` seeds; PAUSE picks the clients, and every budget is spent."""

    kind: ClassVar = "units"
    columns: ClassVar = {
        "unit": str, "data": str, "clients": float, "per_round": float, "budget": float, "delta": float,
        "releases": float, "rounds": float, "dimension": float, "for_one_record": float, "seed": float,
        "accuracy": float,
    }  # fmt: skip

    settings: list[Setting] = Field(default=[("record", "digits", 3, 3, 4.0, 12, 4.0)], min_length=1)
    features: str = "hog-centred"
    seeds: int = Field(default=5, ge=1)

    def rows(self, progress: Progress = lambda _: None) -> Iterator[Row]:
        """Yield a row per setting and seed."""
        for done, (unit, data, clients, per_round, budget, releases, step) in enumerate(self.settings):
            dimension = _dimension(self._config(unit, data, clients, per_round, budget, 1, 1.0, 0))
            if not releases:
                plan = suggest(clients, per_round, dimension, budget)
                releases, step = plan.releases, plan.step
            for seed in range(self.seeds):
                config = self._config(unit, data, clients, per_round, budget, releases, step, seed)
                yield {
                    "unit": unit, "data": data, "clients": clients, "per_round": per_round, "budget": budget,
                    "delta": config.privacy.delta if unit == "record" else 0.0, "releases": releases,
                    "rounds": config.run.rounds, "dimension": dimension,
                    "for_one_record": budget * dimension if unit == "coordinate" else budget,
                    "seed": seed, "accuracy": played(config)[0],
                }  # fmt: skip
            progress((done + 1) / len(self.settings))

    def _config(
        self, unit: Unit, data: str, clients: int, per_round: int, budget: float, releases: int, step: float, seed: int
    ) -> Config:  # fmt: skip
        rounds = max(1, clients * releases // per_round)
        # Under the record unit a release is one gradient; else it is the way that some steps of training go.
        local: dict[str, Any] = {"lr": step} if unit in ("record", "none") else {"lr": 0.1, "epochs": 8}
        return make_config({
            "data": {"name": data}, "network": {"clients": clients}, "selection": {"per_round": per_round},
            "privacy": {"budget": budget, "releases": releases, **UNITS[unit]},
            "learning": {
                "features": self.features, "model": "softmax", "optimizer": "sgd", "batch": 0,
                "optimizer_state": "fresh", **local,
            },
            "server": {"step": 1.0 if unit in ("record", "none") else step, "average": 0.9},
            "run": {"rounds": rounds, "seed": seed, "evaluate_every": rounds},
        })  # fmt: skip

    @classmethod
    def report(cls, rows: Rows, title: str) -> Report:
        """Return the accuracy against what the promise means for one record, a curve per unit and task."""
        shown = [row for row in rows if row["unit"] != "none"]
        points = [
            {
                "promise": f"{_NAMES[row['unit']]}, {row['data']}, {row['clients']:.0f} clients",
                "for_one_record": row["for_one_record"], "accuracy": row["accuracy"],
            }
            for row in shown
        ]  # fmt: skip
        reading = (
            "Each curve is one promise. To the left it is stronger: whoever sees all that a client ever sends can be "
            "at most e^epsilon times surer about any one record than before. Left of 1 that is little; right of 10 it "
            "is no protection. A promise about one record costs least accuracy. One about all data of a client "
            "protects far more and needs many clients. One about single numbers of an update says next to nothing "
            "about a record."
        )
        axes = Axes("epsilon that holds for one record, for life", "accuracy (%)", x_scale="log")
        lines = lines_by(points, "promise", "for_one_record", "accuracy")
        figures = [curve_figure("units", "Accuracy against what is promised about one record", lines, axes)]
        return Report(title, list(lines), [ReportSection("units", "What each unit buys", reading, figures)])


def _dimension(config: Config) -> int:
    simulation = build(config)
    try:
        return len(simulation.model)
    finally:
        simulation.close()
