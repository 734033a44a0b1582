"""The selection problem alone, without training: a selector against a latency model, with its regret per round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pausefl.errors import require
from pausefl.regret import round_regret
from pausefl.rng import stream
from pausefl.selector import Selector
from pausefl.sim.latency import LatencyModel
from pausefl.types import IntArray, Seconds


@dataclass(frozen=True, slots=True, eq=False)
class BanditRound:
    """One round: who took part, how long it lasted, and what it lost against the genie."""

    members: IntArray
    seconds: Seconds
    expected_regret: float
    realised_regret: float


def play(selector: Selector, network: LatencyModel, rounds: int, seed: int, tau_min: Seconds) -> Iterator[BanditRound]:
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
