"""The bandit alone, against the genie and against the bound of Theorem 1."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from pydantic import Field

from pausefl.report.charts import Axes
from pausefl.report.contents import Report, ReportSection, curve_figure
from pausefl.report.series import lines_by
from pausefl.report.style import BOUND
from pausefl.selection import Fastest
from pausefl.selector import Selector
from pausefl.sim.latency import two_groups
from pausefl.sim.regret import play_bandit, regret_bound
from pausefl.studies.study import Measurement, Progress, Row, Rows
from pausefl.system.toml_sections import Section

_TAU_MIN = 0.05


class Setting(Section):
    """One game: who plays, against how many clients, for how long."""

    name: str = "paper's weights"
    policy: str = "pause"
    clients: int = Field(default=30, ge=1)
    per_round: int = Field(default=5, ge=1)
    rounds: int = Field(default=3000, ge=2)
    alpha: float = Field(default=100.0, ge=0)
    gamma: float = Field(default=5.0, ge=0)


class Regret(Measurement):
    """Cumulative regret in the paper's network, at about twelve values of n; ``share`` of the rounds are played."""

    kind: ClassVar = "regret"
    columns: ClassVar = {
        "setting": str, "seed": float, "rounds": float, "regret": float, "at_half": float, "at_quarter": float,
        "realised": float, "bound": float,
    }  # fmt: skip

    settings: list[Setting] = Field(default=[Setting()], min_length=1)
    seeds: int = Field(default=5, ge=1)
    share: float = Field(default=1.0, gt=0, le=1)

    def rows(self, progress: Progress = lambda _: None) -> Iterator[Row]:
        """Yield a row per setting, seed and n, with the regret after n, n/2 and n/4 rounds."""
        games = [(setting, seed) for setting in self.settings for seed in range(self.seeds)]
        for done, (setting, seed) in enumerate(games):
            rounds = max(2, round(setting.rounds * self.share))
            yield from _play(setting, seed, rounds, lambda part, done=done: progress((done + part) / len(games)))  # type: ignore[misc]
        progress(1.0)

    @classmethod
    def report(cls, rows: Rows, title: str) -> Report:
        """Return a curve per setting, alone and beside its bound."""
        reading = (
            "Left: rounds are logarithmic, so logarithmic regret is a straight line. Right: both axes are logarithmic; "
            "the upper lines are Theorem 1's bound, which holds by a very wide margin."
        )
        measured = lines_by(rows, "setting", "rounds", "regret")
        limits = ({**row, "setting": f"{BOUND}{row['setting']}"} for row in rows if math.isfinite(row["bound"]))
        bound = lines_by(limits, "setting", "rounds", "bound")
        above = {name: [row for row in line if row["low"] > 0] for name, line in measured.items()}  # for a logarithm
        logarithmic = Axes("rounds n", "regret", scale="log", x_scale="log")
        figures = [
            curve_figure("regret", "Cumulative regret", measured, Axes("rounds n", "regret", x_scale="log")),
            curve_figure("regret-bound", "Regret and its bound", above | bound, logarithmic),
        ]
        return Report(
            title, [*measured, *bound], [ReportSection("regret", "Regret against the genie", reading, figures)]
        )


def _play(setting: Setting, seed: int, rounds: int, progress: Progress) -> Iterator[Row]:
    network = two_groups(setting.clients, _TAU_MIN)
    selector = Selector(
        np.ones(setting.clients), setting.per_round,
        Fastest(network.expected()) if setting.policy == "fastest" else setting.policy,
        alpha=setting.alpha, gamma=setting.gamma, tau_min=_TAU_MIN, seed=seed,
    )  # fmt: skip
    marks = np.unique(np.geomspace(min(10, rounds), rounds, 12).astype(np.int64))
    bounds = regret_bound(marks.astype(np.float64), selector.problem(), network.mean_speed(_TAU_MIN))
    lost = np.zeros((2, rounds))
    for t, played in enumerate(play_bandit(selector, network, rounds, seed, _TAU_MIN)):
        lost[:, t] = played.expected_regret, played.realised_regret
        if t % 500 == 0:
            progress(t / rounds)
    expected, realised = lost.cumsum(axis=1)
    for n, bound in zip(marks, bounds, strict=True):
        half, quarter = (float(expected[max(1, n // part) - 1]) for part in (2, 4))
        yield {
            "setting": setting.name, "seed": seed, "rounds": int(n), "regret": float(expected[n - 1]),
            "at_half": half, "at_quarter": quarter, "realised": float(realised[n - 1]), "bound": float(bound),
        }  # fmt: skip
