import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pausefl.errors import InvalidValueError, NotEnoughClientsError
from pausefl.selection import Objective, solve_brute, solve_exact
from pausefl.selection import exact as exact_module
from pausefl.selection.objective import no_tickets


def instance(rng: np.random.Generator, most: int = 12) -> tuple[np.ndarray, np.ndarray, int, dict]:
    """A small problem; a third of them full of ties, a third with unobserved clients, half with clusters."""
    count = int(rng.integers(1, most + 1))
    m = int(rng.integers(1, count + 1))
    ucb, score = rng.random(count), rng.normal(size=count)
    kind = rng.integers(0, 3)
    if kind == 1:
        ucb, score = np.round(4 * ucb) / 4, np.round(2 * score) / 2
    if kind == 2:
        ucb, score = np.round(ucb), np.round(score)
    if rng.random() < 1 / 3:
        ucb[rng.random(count) < rng.random()] = np.inf
    if rng.random() < 0.5:
        return ucb, score, m, {}
    labels = rng.integers(0, rng.integers(1, count + 1), count)
    return ucb, score, m, {"clusters": labels, "collision": float(rng.choice([0.0, 0.25, 1.0, 5.0]))}


@pytest.mark.parametrize("block", range(4))
def test_exact_equals_brute_force_on_2000_random_instances(block: int) -> None:
    rng = np.random.default_rng(block)
    for _ in range(500):
        ucb, score, m, extra = instance(rng)
        found = solve_exact(ucb, score, m, **extra, rng=rng)
        best = solve_brute(ucb, score, m, **extra)
        assert len(set(found.members.tolist())) == m
        assert found.rank[0] == best.rank[0]
        assert found.rank[1] == pytest.approx(best.rank[1], abs=1e-12)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_exact_equals_brute_force_on_adversarial_instances(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8))
    values = st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, 1e6, -1.0, -1e-9])
    ucb = np.array(data.draw(st.lists(values | st.just(np.inf), min_size=count, max_size=count)))
    score = np.array(data.draw(st.lists(values, min_size=count, max_size=count)))
    labels = np.array(data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)))
    collision = data.draw(st.sampled_from([0.0, 0.1, 1.0, 1e6]))
    m = data.draw(st.integers(1, count))
    found = solve_exact(ucb, score, m, clusters=labels, collision=collision)
    best = solve_brute(ucb, score, m, clusters=labels, collision=collision)
    assert found.rank[0] == best.rank[0]
    assert found.rank[1] == pytest.approx(best.rank[1], rel=1e-12, abs=1e-9)


def test_a_huge_penalty_means_as_few_collisions_as_possible() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        ucb, score, labels = rng.random(8), rng.random(8), rng.integers(0, 4, 8)
        found = solve_exact(ucb, score, 4, clusters=labels, collision=1e16)
        sane = solve_brute(ucb, score, 4, clusters=labels, collision=1e3)
        assert found.members.tolist() == sane.members.tolist()


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("weight", [1.0, 0.01, 1e-4])
@pytest.mark.parametrize("tied", [False, True])
def test_pruning_changes_nothing(clustered: bool, weight: float, tied: bool) -> None:
    # Far above the size at which nothing is pruned; the reference sorts everybody and sweeps.
    rng = np.random.default_rng(5)
    count, m = 20_000, 40
    ucb, score = rng.random(count), weight * rng.random(count)
    if tied:
        ucb, score = np.round(ucb, 2), np.round(score / weight, 2) * weight
    labels, collision = rng.integers(0, 60, count), 0.3 * weight if clustered else 0.0
    found = solve_exact(ucb, score, m, clusters=labels, collision=collision, rng=rng)
    objective = Objective(ucb, score, m, labels, collision)
    assert len(exact_module.narrowed(objective)) < 0.6 * count
    reference = objective.solution(plain_sweep(objective))
    assert found.value == pytest.approx(reference.value, rel=1e-12)


def plain_sweep(objective: Objective) -> np.ndarray:
    """The optimum without any narrowing: everybody is sorted, swept, and filled from."""
    threshold, _ = exact_module._best_threshold(objective, None)
    return exact_module._fill(objective, np.flatnonzero(objective.ucb >= threshold), no_tickets)


def opposed(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Speed against score: whoever is slower has more to give, so that nobody is outdone by faster ones."""
    ucb = rng.random(count)
    noise = rng.choice([0.0, 1e-4, 0.01, 0.3])
    score = rng.choice([1.0, 0.1, 0.01, 1.0 / count]) * (1.0 - ucb + noise * rng.random(count))
    if rng.random() < 0.3:
        ucb, score = np.round(ucb, 2), np.round(score, 2)
    if rng.random() < 0.2:
        ucb[rng.integers(0, count, rng.integers(1, 4))] = np.inf
    return ucb, score


@pytest.mark.parametrize("block", range(4))
def test_exact_equals_brute_force_on_2000_opposed_instances(block: int) -> None:
    rng = np.random.default_rng(100 + block)
    for _ in range(500):
        count = int(rng.integers(2, 12))
        m = int(rng.integers(1, count + 1))
        ucb, score = opposed(rng, count)
        extra = {"clusters": rng.integers(0, 4, count), "collision": float(rng.choice([0.0, 0.05, 1.0]))}
        found, best = solve_exact(ucb, score, m, **extra, rng=rng), solve_brute(ucb, score, m, **extra)
        assert found.rank[0] == best.rank[0]
        assert found.rank[1] == pytest.approx(best.rank[1], abs=1e-12)


@pytest.mark.parametrize("block", range(4))
def test_narrowing_changes_no_choice_of_opposed_clients(block: int) -> None:
    rng = np.random.default_rng(200 + block)
    for _ in range(40):
        count = int(rng.integers(exact_module.SMALL + 1, 3 * exact_module.SMALL))
        m = int(rng.integers(1, rng.choice([3, 60, count // 8, count])))
        ucb, score = opposed(rng, count)
        labels = rng.integers(0, rng.choice([1, 5, 300, count]), count)
        objective = Objective(ucb, score, m, labels, float(rng.choice([0.0, 0.001, 0.05, 10.0])))
        chosen = exact_module.exact(objective, no_tickets)
        if np.isinf(ucb).sum() < m:
            assert sorted(chosen) == sorted(plain_sweep(objective))


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("rounded", [False, True])
def test_permuting_many_opposed_clients_permutes_the_choice(clustered: bool, rounded: bool) -> None:
    rng = np.random.default_rng(7)
    count = 30_000
    ucb = rng.random(count)
    score = 0.01 * (1.0 - ucb + 0.05 * rng.random(count))
    if rounded:
        ucb, score = np.round(ucb, 2), np.round(score, 4)
    labels, tickets = rng.integers(0, 40, count), rng.permutation(count).astype(np.uint64)
    collision = 0.002 if clustered else 0.0
    wanted = np.sort(exact_module.exact(Objective(ucb, score, 50, labels, collision), lambda at: tickets[at]))
    for _ in range(5):
        p = rng.permutation(count)
        permuted = Objective(ucb[p], score[p], 50, labels[p], collision)
        chosen = exact_module.exact(permuted, lambda at, p=p: tickets[p][at])
        assert np.array_equal(np.sort(p[chosen]), wanted)


@pytest.mark.parametrize("taken", [0.0, 0.02, 0.2, 0.6])
@pytest.mark.parametrize("grades", [None, 5])
def test_pruning_changes_nothing_where_the_fastest_have_poor_scores(taken: float, grades: int | None) -> None:
    """As after rounds that took the good ones: those left in front are outrun by nobody, and outrun nobody."""
    rng = np.random.default_rng(3)
    count, m = 20_000, 40
    ucb, score = rng.random(count), rng.random(count)
    score = score if grades is None else np.floor(score * grades) / grades
    score[(ucb > 1.0 - taken) & (score > 0.3)] -= 0.5
    for weight in (1.0, 0.01):
        everybody = Objective(ucb, weight * score, m)
        assert sorted(exact_module.exact(everybody, no_tickets)) == sorted(plain_sweep(everybody))


def test_unobserved_clients_come_first_and_ties_are_broken_uniformly() -> None:
    # 20 of 40 clients unobserved with equal score: each should be among the 5 picked with probability 1/4.
    ucb = np.r_[np.full(20, np.inf), np.ones(20)]
    rng = np.random.default_rng(0)
    counts = np.zeros(40)
    for _ in range(4000):
        counts[solve_exact(ucb, np.zeros(40), 5, rng=rng).members] += 1
    assert counts[20:].sum() == 0
    # Chi-square with 19 degrees of freedom; the bound is exceeded by chance once in 10,000.
    spread = ((counts[:20] - 1000) ** 2 / 1000).sum()
    assert spread < 50.8


def test_best_scoring_unobserved_clients_win() -> None:
    ucb = np.array([np.inf, np.inf, np.inf, 9.0])
    assert solve_exact(ucb, np.array([1.0, 3.0, 2.0, 100.0]), 2).members.tolist() == [1, 2]


def test_fewer_unobserved_than_places_compete_by_score() -> None:
    # One unobserved client with a bad score: its infinite ucb never binds the minimum and buys it nothing.
    ucb, score = np.array([np.inf, 1.0, 1.0]), np.array([-5.0, 0.0, 0.0])
    assert solve_exact(ucb, score, 2).members.tolist() == [1, 2]
    assert solve_exact(ucb, np.array([5.0, 0.0, 1.0]), 2).members.tolist() == [0, 2]


def test_the_last_block_of_the_papers_algorithm_would_lose_a_member() -> None:
    # The slowest client has the best score; the paper's last block counts it twice and returns m-1 members.
    found = solve_exact(np.array([3.0, 2.0, 1.0]), np.array([0.0, 0.0, 10.0]), 2)
    assert found.members.tolist() == [0, 2]


def test_one_member() -> None:
    assert solve_exact(np.array([1.0, 2.0]), np.array([5.0, 0.0]), 1).members.tolist() == [0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"m": 0}, "m is 0"),
        ({"score": np.array([1.0, np.nan, 0.0])}, "score"),
        ({"score": np.array([1.0, 0.0])}, "score length"),
        ({"ucb": np.array([1.0, np.nan, 0.0])}, "ucb"),
        ({"ucb": np.array([1.0, -np.inf, 0.0])}, "ucb"),
        ({"clusters": np.array([0, 1]), "collision": 1.0}, "clusters length"),
        ({"clusters": np.array([0.5, 1.0, 2.0]), "collision": 1.0}, "clusters type"),
        ({"clusters": np.array([0, 1, 1]), "collision": -1.0}, "collision is -1"),
        ({"clusters": np.array([0, 1, 1]), "collision": np.nan}, "collision"),
    ],
)
def test_bad_input_is_named(change: dict, words: str) -> None:
    arguments = {"ucb": np.ones(3), "score": np.ones(3), "m": 2} | change
    with pytest.raises(InvalidValueError, match=words) as refused:
        solve_exact(**arguments)
    assert "\n" not in str(refused.value)


def test_too_many_wanted() -> None:
    with pytest.raises(NotEnoughClientsError, match=r"m is 4, but only 3 .* lower m"):
        solve_exact(np.ones(3), np.ones(3), 4)


def test_brute_force_refuses_what_would_take_for_ever() -> None:
    with pytest.raises(InvalidValueError, match="use solve_exact"):
        solve_brute(np.ones(300), np.ones(300), 15)
