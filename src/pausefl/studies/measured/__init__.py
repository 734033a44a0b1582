"""Studies that end in a table: each measures one thing; its class tells the settings, the rows and the report."""

from __future__ import annotations

from pausefl.studies.measured.annealing import Annealing
from pausefl.studies.measured.auto_published import AutoPublished
from pausefl.studies.measured.budgets import Budgets
from pausefl.studies.measured.complexity import Complexity
from pausefl.studies.measured.field import FieldStudy
from pausefl.studies.measured.g_function import GFunction
from pausefl.studies.measured.regret import Regret
from pausefl.studies.measured.units import Units
from pausefl.studies.measured.weights import WeightSearch
from pausefl.studies.study import Measurement

KINDS: dict[str, type[Measurement]] = {
    kind.kind: kind
    for kind in (
        GFunction, Complexity, Regret, Annealing, Budgets, Units, FieldStudy, WeightSearch, AutoPublished,
    )
}  # fmt: skip
"""The registry: add a new measurement to it."""

__all__ = [
    "KINDS",
    "Annealing",
    "AutoPublished",
    "Budgets",
    "Complexity",
    "FieldStudy",
    "GFunction",
    "Measurement",
    "Regret",
    "Units",
    "WeightSearch",
]
