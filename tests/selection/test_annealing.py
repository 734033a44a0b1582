from collections.abc import Callable
from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from pausefl.errors import InvalidValueError
from pausefl.selection import Objective, anneal, solve_brute
from pausefl.selection.annealing import Annealer, temperature_scale
from pausefl.selection.annealing_walk import count_neighbours, lowest_after, neighbour, prepare, replace


def gaps(states: list, rng: np.random.Generator, **how: object) -> np.ndarray:
    """(optimum - found) / (optimum - mean random set), a number per state."""
    found = []
    for objective, best in states:
        count, m = len(objective.ucb), objective.m
        baseline = np.mean([objective.solution(rng.choice(count, m, replace=False)).value for _ in range(200)])
        got = anneal(
            objective.ucb, objective.score, m, clusters=objective.clusters, collision=objective.collision, rng=rng,
            **how,
        )  # fmt: skip
        found.append((best.value - got.value) / (best.value - baseline))
    return np.array(found)


@pytest.mark.parametrize("clusters", [None, 6])
def test_small_network_from_a_random_start(realistic_states: Callable, clusters: int | None) -> None:
    gap = gaps(realistic_states(30, 5, 300, 2, clusters), np.random.default_rng(0), start="random", steps=500)
    assert (gap < 1e-9).mean() >= 0.5
    assert np.median(gap) <= 0.01


@pytest.mark.parametrize("clusters", [None, 20])
def test_large_network(realistic_states: Callable, clusters: int | None) -> None:
    states = realistic_states(300, 15, 240, 4, clusters)
    rng = np.random.default_rng(0)
    assert np.median(gaps(states, rng, start="random", steps=3000)) <= 0.20
    default = gaps(states, rng)
    assert np.median(default) <= 0.02
    assert np.quantile(default, 0.9) <= 0.10


def test_the_papers_temperature_is_a_random_walk_and_the_data_driven_one_is_not(realistic_states: Callable) -> None:
    states, rng = realistic_states(300, 15, 240, 8), np.random.default_rng(0)
    paper = gaps(states, rng, start="random", steps=3000, set_range=205.0, kappa=30.0, restarts=False)
    ours = gaps(states, rng, start="random", steps=3000, restarts=False)
    assert np.median(paper) > 0.3 > np.median(ours)


def all_neighbours(members: tuple[int, ...], count: int, tailored: bool) -> list[frozenset[int]]:
    heap = np.array(members, dtype=np.int64)
    outside, _, _ = prepare(heap, np.zeros(count, dtype=np.int64), count)
    sets = []
    for at in range(count_neighbours(heap, count, tailored)):
        slot, new = neighbour(heap, outside, tailored, at)
        changed = heap.copy()
        changed[slot] = new
        assert changed.min() == lowest_after(heap, slot, new)
        sets.append(frozenset(changed.tolist()))
    return sets


@pytest.mark.parametrize(("count", "m"), [(6, 3), (7, 2), (5, 1), (7, 4), (6, 5)])
def test_tailored_neighbours_are_the_papers_and_each_is_drawn_once(count: int, m: int) -> None:
    for members in combinations(range(count), m):
        here = frozenset(members)
        drawn = all_neighbours(members, count, tailored=True)
        wanted = {
            there
            for other in combinations(range(count), m)
            if len(here & (there := frozenset(other))) == m - 1 and (min(here) not in there or min(there) not in here)
        }
        assert len(drawn) == len(set(drawn))
        assert set(drawn) == wanted


@pytest.mark.parametrize(("count", "m"), [(6, 3), (7, 2), (5, 1)])
def test_vanilla_neighbours(count: int, m: int) -> None:
    for members in combinations(range(count), m):
        drawn = all_neighbours(members, count, tailored=False)
        assert len(set(drawn)) == len(drawn) == m * (count - m)


@pytest.mark.parametrize(("count", "m"), [(7, 3), (8, 2), (6, 1), (7, 5)])
def test_tailored_graph_is_undirected_and_connected(count: int, m: int) -> None:
    graph = nx.DiGraph()
    for members in combinations(range(count), m):
        graph.add_node(frozenset(members))
        graph.add_edges_from((frozenset(members), there) for there in all_neighbours(members, count, tailored=True))
    assert all(graph.has_edge(b, a) for a, b in graph.edges)
    assert nx.is_strongly_connected(graph)


def test_the_path_of_the_appendix_leads_from_any_set_to_any_other() -> None:
    # PAUSE, Alg. 4: clients are named by ucb rank; every step must be an edge of the tailored graph.
    rng = np.random.default_rng(0)
    for _ in range(200):
        count = int(rng.integers(2, 12))
        m = int(rng.integers(1, count))
        here = set(rng.choice(count, m, replace=False).tolist())
        goal = set(rng.choice(count, m, replace=False).tolist())
        for _step in range(2 * m + 1):
            if here == goal:
                break
            incoming = max(goal - here)
            leaving = min(here) if min(here) <= incoming else int(rng.choice(sorted(here - goal)))
            there = here - {leaving} | {incoming}
            assert frozenset(there) in all_neighbours(tuple(sorted(here)), count, tailored=True)
            here = there
        assert here == goal


def test_heap_survives_random_replacements() -> None:
    rng = np.random.default_rng(0)
    heap = np.arange(9)
    inside = set(range(9))
    for _ in range(2000):
        slot, new = int(rng.integers(9)), int(rng.integers(200))
        if new in inside:
            continue
        inside = inside - {int(heap[slot])} | {new}
        replace(heap, slot, new)
        assert set(heap.tolist()) == inside
        assert all(heap[(i - 1) // 2] <= heap[i] for i in range(1, 9))


@pytest.mark.parametrize("graph", ["tailored", "vanilla"])
@pytest.mark.parametrize("clustered", [False, True])
def test_long_annealing_by_the_papers_rules_reaches_the_optimum(graph: str, clustered: bool) -> None:
    # Theorem 3, on small instances, with its C, its cooling law and one chain.
    rng = np.random.default_rng(3)
    for _ in range(20):
        ucb, score, labels = rng.random(9), rng.random(9), rng.integers(0, 3, 9)
        extra = {"clusters": labels, "collision": 0.4} if clustered else {}
        best = solve_brute(ucb, score, 4, **extra)
        found = anneal(
            ucb, score, 4, **extra, steps=200_000, start="random", restarts=False, kappa=1.0, set_range=4.0,
            graph=graph, rng=rng,
        )  # fmt: skip
        assert found.value == pytest.approx(best.value, abs=1e-12)


def test_acceptance_of_worse_sets_follows_the_boltzmann_law() -> None:
    # Two sets, energies 0 and -1, constant scale: from the better one, step j leaves with probability
    # exp(-log(1+j)/scale).  Counted over many one-step walks; 5 standard errors, a false alarm in 2 million.
    ucb, score = np.zeros(2), np.array([0.0, -1.0])
    from pausefl.selection.annealing_walk import walk

    scale, moved, tries = 2.0, 0, 20_000
    random = np.random.default_rng(0).integers(1, 2**63, 2).astype(np.uint64)
    for _ in range(tries):
        heap = np.array([0])
        walk(ucb, score, np.zeros(2, np.int64), 0.0, heap, heap.copy(), -np.inf, 3, 1, scale, True, False, random)
        moved += int(heap[0])
    wanted = np.exp(-np.log(4.0) / scale)
    assert moved / tries == pytest.approx(wanted, abs=5 * np.sqrt(wanted * (1 - wanted) / tries))


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("graph", ["tailored", "vanilla"])
def test_walks_keep_their_books(clustered: bool, graph: str) -> None:
    # The value returned is recomputed from the members, so a chain that miscounts would return a worse set than it
    # believes; here the best of a hot chain must equal the best set it ever stood on.
    from pausefl.selection.annealing_walk import walk

    rng = np.random.default_rng(1)
    ucb, score, labels = np.sort(rng.random(12)), rng.random(12), rng.integers(0, 4, 12)
    collision = 0.3 if clustered else 0.0
    objective = Objective(ucb, score, 5, labels, collision)
    heap, random = np.arange(5), rng.integers(1, 2**63, 2).astype(np.uint64)
    best, energy, seen = heap.copy(), -np.inf, objective.solution(heap.copy()).value
    for j in range(3000):
        energy, _, _ = walk(
            ucb, score, labels, collision, heap, best, energy, j + 1, 1, 50.0, graph == "tailored", False, random
        )
        seen = max(seen, objective.solution(heap.copy()).value)
        assert len(set(heap.tolist())) == 5
    assert energy == pytest.approx(seen, abs=1e-9)
    assert objective.solution(best).value == pytest.approx(seen, abs=1e-9)


def test_the_start_counts_as_seen() -> None:
    ucb, score = np.arange(1.0, 7.0), np.zeros(6)
    assert anneal(ucb, score, 2, start=[4, 5], steps=0, rng=np.random.default_rng(0)).members.tolist() == [4, 5]


def test_time_limit() -> None:
    ticks = iter(np.arange(0.0, 100.0, 0.4))
    rng = np.random.default_rng(0)
    found = anneal(rng.random(50), rng.random(50), 5, seconds=2.0, rng=rng, clock=lambda: float(next(ticks)))
    assert len(found.members) == 5
    assert 1.9 < next(ticks) < 4.0


@pytest.mark.parametrize("graph", ["tailored", "vanilla"])
def test_any_function_of_a_set(graph: str) -> None:
    # A reward that no exact solver takes: the pairwise products of positions.
    rng = np.random.default_rng(0)
    place = rng.normal(size=10)

    def spread(members: np.ndarray) -> float:
        return float(-np.abs(place[members].sum()))

    for _ in range(5):
        ucb, score = rng.random(10), rng.random(10)
        best = solve_brute(ucb, score, 4, phi=spread)
        found = anneal(ucb, score, 4, phi=spread, steps=3000, graph=graph, rng=rng)
        assert found.value == pytest.approx(best.value)


def test_time_limit_with_a_slow_function() -> None:
    calls = 0

    def slow(_: np.ndarray) -> float:
        nonlocal calls
        calls += 1
        return 0.0

    anneal(
        np.ones(60), np.zeros(60), 10, phi=slow, seconds=1.0, rng=np.random.default_rng(0),
        clock=lambda: 0.01 * calls,
    )  # fmt: skip
    assert calls < 200


def test_small_problems_end_early() -> None:
    # Every threshold is tried once; with two clients there are two sets to look at.
    calls = 0

    def count(_: np.ndarray) -> float:
        nonlocal calls
        calls += 1
        return 0.0

    anneal(np.array([1.0, 2.0]), np.array([0.3, 0.1]), 1, phi=count, rng=np.random.default_rng(0))
    assert calls < 50


def test_unobserved_clients_come_first() -> None:
    ucb = np.r_[np.full(6, np.inf), np.ones(6)]
    score = np.arange(12.0)
    assert anneal(ucb, score, 3, rng=np.random.default_rng(0)).members.tolist() == [3, 4, 5]
    assert anneal(ucb, score, 8, rng=np.random.default_rng(0)).rank == pytest.approx(solve_brute(ucb, score, 8).rank)


def test_same_generator_same_answer() -> None:
    rng = np.random.default_rng(0)
    ucb, score = rng.random(60), rng.random(60)
    twice = [anneal(ucb, score, 7, steps=300, start="random", rng=np.random.default_rng(5)).members for _ in range(2)]
    assert twice[0].tolist() == twice[1].tolist()


def test_the_papers_scale() -> None:
    ucb = np.array([0.0, 1.0, 2.0, 5.0])
    how = Annealer(set_range=205.0, omega=0.5)
    assert temperature_scale(ucb, np.zeros(4), 2, 0.0, how) == pytest.approx(2.0 + 205.0 + 0.5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"steps": -1}, "steps is -1"),
        ({"seconds": 0.0}, "seconds"),
        ({"kappa": 0.0}, "kappa"),
        ({"scale": float("nan")}, "scale"),
        ({"graph": "round"}, "graph is 'round'"),
        ({"start": [0, 0]}, "start"),
        ({"start": [0, 9]}, "start"),
        ({"start": [0]}, "start"),
        ({"phi": lambda _: float("nan")}, "phi is nan"),
    ],
)
def test_bad_input_is_named(change: dict, words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        anneal(np.arange(4.0), np.ones(4), 2, rng=np.random.default_rng(0), **change)
