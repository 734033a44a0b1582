"""The generalization reward against how often a client took part, for several exponents.

Reference: PAUSE, figure of the generalization reward, with equal data shares 1/K.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from pydantic import Field

from pausefl.report.charts import Axes
from pausefl.report.report_files import Report, ReportSection, curve_figure
from pausefl.report.series import lines_by
from pausefl.rewards.reward import underuse
from pausefl.studies.study import Measurement, Progress, Row, Rows


class GFunction(Measurement):
    """g_k for shares of 1/K, at every possible T_k after ``rounds`` rounds."""

    kind: ClassVar = "g-function"
    columns: ClassVar = {"beta": float, "participation": float, "g": float}

    clients: int = Field(default=30, ge=1)
    per_round: int = Field(default=5, ge=1)
    rounds: int = Field(default=200, ge=1)
    exponents: list[float] = Field(default=[1.5, 2.0, 3.0, 5.0], min_length=1)

    def rows(self, progress: Progress = lambda _: None) -> Iterator[Row]:
        """Yield a row per exponent and number of picks."""
        picks = np.arange(self.rounds + 1)
        shares = np.full(len(picks), 1.0 / self.clients)
        for number, beta in enumerate(self.exponents, 1):
            values = underuse(shares, picks, self.rounds, self.per_round, beta)
            for taken, value in zip(picks, values, strict=True):
                yield {"beta": beta, "participation": float(taken / self.rounds), "g": float(value)}
            progress(number / len(self.exponents))

    @classmethod
    def report(cls, rows: Rows, title: str) -> Report:
        """Return a curve per exponent."""
        reading = (
            "A client whose data was used less than its share earns a reward, one that was used more pays. A larger "
            "beta is milder near the share."
        )
        named = ({**row, "beta": f"beta = {row['beta']:g}"} for row in rows)
        lines = lines_by(named, "beta", "participation", "g")
        axes = Axes("T / t, share of rounds with this client", "g")
        figures = [curve_figure("g-function", "g against participation", lines, axes)]
        return Report(title, list(lines), [ReportSection("g", "Generalization reward", reading, figures)])
