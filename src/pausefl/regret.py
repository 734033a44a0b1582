"""How far a choice is from what a genie who knows the latencies would choose, and the bound on it.

Reference: PAUSE, eq. (Genie's policy), eq. (regret definition), Lemma 1 and Theorem 1.

Deviation: delta is the smallest difference between the mean speeds mu (the paper defines it on the latencies and uses
it on mu); the constant is 2·pi²/3 (the proof's last line has 4·pi²/3); the range of Phi_g is taken from the data shares
and includes the cluster penalty.  The bound is loose: millions at n = 300.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pausefl.errors import require
from pausefl.problem import Problem
from pausefl.selection.base import Objective, Solution, no_tickets
from pausefl.selection.exact import exact
from pausefl.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class RoundRegret:
    """One round's loss: in expectation (never negative), and as it came out with this round's latencies."""

    expected: float
    realised: float


def genie(problem: Problem, mean_speed: FloatArray) -> Solution:
    """Return the choice of one who knows the mean speeds and shares the history of the clients."""
    return exact(_known(problem, mean_speed), no_tickets)


def round_regret(problem: Problem, chosen: IntArray, mean_speed: FloatArray, speed: FloatArray) -> RoundRegret:
    """Compare the rows chosen in this round with the genie's; ``speed`` is tau_min / latency as drawn for everyone."""
    known = _known(problem, mean_speed)
    best, ours = exact(known, no_tickets), known.solution(chosen)
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


def _known(problem: Problem, mean_speed: FloatArray) -> Objective:
    require(problem.phi is None, "phi", "set", "None", "regret is measured against the exact optimum")
    return Objective(mean_speed, problem.terms().score, problem.per_round, problem.clusters, problem.reward.collision)
