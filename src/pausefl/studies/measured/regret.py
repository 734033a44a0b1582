"""The bandit alone: how far its choices are from the best ones, which a genie knows, and the bound on that.

Reference: PAUSE, eq. (Genie's policy), eq. (regret definition), Lemma 1 and Theorem 1.

Deviation: delta is the smallest difference between the mean speeds mu (the paper defines it on the latencies and uses
it on mu); the constant is 2·pi²/3 (the proof's last line has 4·pi²/3); the range of Phi_g is taken from the data shares
and includes the cluster penalty.  The bound is loose: millions at n = 300.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import Field

from pausefl.errors import require
from pausefl.report.charts import Axes
from pausefl.report.policy_looks import BOUND
from pausefl.report.report_files import Report, ReportSection, curve_figure
from pausefl.report.series import lines_by
from pausefl.rng import stream
from pausefl.selection import Fastest
from pausefl.selection.exact import exact
from pausefl.selection.objective import Objective, no_tickets
from pausefl.selector import Selector
from pausefl.selector.decision import Problem
from pausefl.sim.latency import LatencyModel, two_groups
from pausefl.studies.study import Measurement, Progress, Row, Rows
from pausefl.system.toml_sections import Section
from pausefl.types import FloatArray, IntArray, Seconds


@dataclass(frozen=True, slots=True)
class RoundRegret:
    """One round's loss: in expectation (never negative), and as it came out with this round's latencies."""

    expected: float
    realised: float


def round_regret(problem: Problem, chosen: IntArray, mean_speed: FloatArray, speed: FloatArray) -> RoundRegret:
    """Compare the rows chosen in this round with the genie's; ``speed`` is tau_min / latency as drawn for everyone."""
    known = _known(problem, mean_speed)
    best, ours = known.solution(exact(known, no_tickets)), known.solution(chosen)
    drawn = float(speed[best.members].min()) - float(speed[chosen].min())
    return RoundRegret(best.value - ours.value, drawn + best.rest - ours.rest)


def regret_bound(rounds: FloatArray, problem: Problem, mean_speed: FloatArray) -> FloatArray:
    """Return Theorem 1's bound after each number of rounds; infinite where two clients are equally fast."""
    gaps = np.diff(np.sort(mean_speed))
    delta = float(gaps.min()) if len(gaps) else math.inf
    if delta == 0.0:
        return np.full(len(rounds), np.inf)
    m, clients = problem.per_round, len(mean_speed)
    growth = 4.0 * (m + 1) * np.log(rounds) / delta**2 + 1.0 + 2.0 * math.pi**2 / 3.0
    return clients * (largest_gap(problem, mean_speed) + delta) * growth


def largest_gap(problem: Problem, mean_speed: FloatArray) -> float:
    """Return Lemma 1's bound on what one round can lose."""
    reward, m = problem.reward, problem.per_round
    biggest = m * float(problem.cohort.shares.max())
    crowding = reward.rho * (m - 1) if problem.clusters is not None else 0.0
    generalization = max(1.0, float(biggest**reward.beta)) + 1.0 + crowding
    return float(np.ptp(mean_speed)) + reward.alpha * generalization + reward.gamma


@dataclass(frozen=True, slots=True, eq=False)
class BanditRound:
    """One round: who took part, how long it lasted, and what it lost against the genie."""

    members: IntArray
    seconds: Seconds
    expected_regret: float
    realised_regret: float


def play_bandit(
    selector: Selector, network: LatencyModel, rounds: int, seed: int, tau_min: Seconds
) -> Iterator[BanditRound]:
    """Play rounds one after the other; the latencies of a round depend on (seed, round) only, not on the policy."""
    require(
        len(network) == len(selector.cohort),
        "clients",
        len(network),
        str(len(selector.cohort)),
        "pass as many clients as the selector has",
    )
    size = selector.policy.size
    require(
        size == "exactly m",
        "policy size",
        size,
        "exactly m",
        "use such a policy, because the genie's sets have m members",
    )
    mean_speed = network.mean_speed(tau_min)
    for _ in range(rounds):
        problem = selector.problem()
        chosen = selector.select().members
        members = selector.cohort.rows(chosen)
        latency = network.sample(stream(seed, "latency", problem.number))
        lost = round_regret(problem, members, mean_speed, tau_min / latency)
        selector.observe(dict(zip(chosen, latency[members].tolist(), strict=True)))
        yield BanditRound(members, float(latency[members].max()), lost.expected, lost.realised)


def _known(problem: Problem, mean_speed: FloatArray) -> Objective:
    require(problem.phi is None, "phi", "set", "None", "leave phi out, because regret needs the exact optimum")
    return Objective(mean_speed, problem.terms().score, problem.per_round, problem.clusters, problem.reward.collision)


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
