"""How far a choice is from what a genie who knows the latencies would choose, and the bound on it.

Reference: PAUSE, eq. (Genie's policy), eq. (regret definition), Lemma 1 and Theorem 1.

Deviation: delta is the smallest difference between the mean speeds mu (the paper defines it on the latencies and uses
it on mu); the constant is 2·pi²/3 (the proof's last line has 4·pi²/3); the range of Phi_g is taken from the data shares
and includes the cluster penalty.  The bound is loose: millions at n = 300.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pausefl.errors import require
from pausefl.rng import stream
from pausefl.selection.exact import exact
from pausefl.selection.objective import Objective, no_tickets
from pausefl.selector import Selector
from pausefl.selector.decision import Problem
from pausefl.sim.latency import LatencyModel
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
    require(len(network) == len(selector.cohort), "clients", len(network), str(len(selector.cohort)), "match the two")
    size = selector.policy.size
    require(size == "exactly m", "policy size", size, "exactly m", "regret compares sets of the genie's size")
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
    require(problem.phi is None, "phi", "set", "None", "regret is measured against the exact optimum")
    return Objective(mean_speed, problem.terms().score, problem.per_round, problem.clusters, problem.reward.collision)
