"""A policy of your own beside PAUSE: the clients with the most privacy budget left, on the paper's network."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pausefl.rng import stream
from pausefl.selection import Candidates, Policy, Solution
from pausefl.selector import Selector
from pausefl.sim.latency import two_groups


class Thrifty(Policy):
    """The m clients with the highest score; with alpha = 0 that is the privacy budget left."""

    name: ClassVar[str] = "thrifty"

    def pick(self, candidates: Candidates) -> Solution:
        luck = candidates.tickets(np.arange(len(candidates)))
        order = np.lexsort((luck, -candidates.objective.score))
        return candidates.objective.solution(order[: candidates.objective.m])


def clock(policy: str | Policy, rounds: int = 200) -> tuple[float, float]:
    """Return the summed round latency and the largest leakage after some rounds."""
    network = two_groups(30)
    selector = Selector(np.ones(30), 5, policy, alpha=0.0 if isinstance(policy, Policy) else 100.0, tau_min=0.05)
    seconds = 0.0
    for number in range(rounds):
        latency = network.sample(stream(0, "latency", number))
        seen = {client: float(latency[int(client)]) for client in selector.select().members}
        selector.observe(seen)
        seconds += max(seen.values())
    return seconds, float(selector.spent().max())


if __name__ == "__main__":
    for policy in (Thrifty(), "pause", "random"):
        seconds, leakage = clock(policy)
        print(f"{getattr(policy, 'name', policy):8}  {seconds:6.1f} s  max leakage {leakage:.1f} of 40")
