"""Studies without training: each measures one thing and returns rows, from which its chart and its claims are made."""

from __future__ import annotations

from pausefl.studies.measured.annealing import Annealing
from pausefl.studies.measured.base import Measurement
from pausefl.studies.measured.complexity import Complexity
from pausefl.studies.measured.g_function import GFunction
from pausefl.studies.measured.regret import Regret

KINDS: dict[str, type[Measurement]] = {
    "g-function": GFunction,
    "complexity": Complexity,
    "regret": Regret,
    "annealing": Annealing,
}

__all__ = ["KINDS", "Annealing", "Complexity", "GFunction", "Measurement", "Regret"]
