"""States as they come up in a real run: the paper's weights, schedule and latencies."""

from collections.abc import Callable

import numpy as np
import pytest

from pausefl.privacy import Geometric
from pausefl.rng import stream
from pausefl.selection import Objective, Solution, solve_exact
from pausefl.selector import Selector
from pausefl.sim.latency import two_groups

States = list[tuple[Objective, Solution]]


@pytest.fixture(scope="session")
def realistic_states() -> Callable[..., States]:
    def make(
        clients: int, per_round: int, rounds: int, every: int, clusters: int | None = None, rho: float = 0.005
    ) -> States:
        network = two_groups(clients)
        labels = None if clusters is None else stream(7, "clusters").integers(0, clusters, clients)
        selector = Selector(
            np.ones(clients), per_round, alpha=100.0, beta=2.0, gamma=5.0, tau_min=0.05,
            schedule=Geometric(200.0, 0.04), clusters=labels, rho=rho if clusters else 0.0,
        )  # fmt: skip
        states = []
        for number in range(rounds):
            problem = selector.problem()
            objective = problem.objective(problem.terms(), np.arange(clients))
            if np.isfinite(objective.ucb).all() and number % every == 0:
                best = solve_exact(
                    objective.ucb, objective.score, per_round, clusters=labels, collision=objective.collision
                )
                states.append((objective, best))
            chosen = selector.select().members
            latency = network.sample(stream(0, "latency", number))
            selector.observe({k: float(latency[int(k)]) for k in chosen})
        return states

    return make
