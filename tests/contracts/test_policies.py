"""One law suite over every policy; a policy of your own can be added to POLICIES and held to the same."""

from collections.abc import Callable

import numpy as np
import pytest

from pausefl.errors import NotEnoughClientsError
from pausefl.selection import (
    All,
    Annealer,
    Brute,
    ClusteredBySimilarity,
    ClusteredBySize,
    Fastest,
    Pause,
    Policy,
    Random,
    SaPause,
    SaPauseAsPublished,
)  # fmt: skip
from pausefl.selector import Selector

IDS = [f"client-{k}" for k in range(12)]
SECONDS = {name: 0.1 + 0.05 * (k % 7) for k, name in enumerate(IDS)}
SIZES = {name: 50.0 + 10.0 * ((5 * k) % 12) for k, name in enumerate(IDS)}

POLICIES: dict[str, Callable[[], Policy]] = {
    "pause": Pause,
    "sa-pause": lambda: SaPause(Annealer(steps=2000)),
    "sa-pause-as-published": lambda: SaPauseAsPublished(steps=500),
    "brute": Brute,
    "random": Random,
    "all": All,
    "fastest": lambda: Fastest(SECONDS),
    "clustered": ClusteredBySize,
    "clustered-similarity": ClusteredBySimilarity,
    "clustered-similarity, l2": lambda: ClusteredBySimilarity(metric="l2"),
}


@pytest.fixture(params=POLICIES, ids=lambda name: name.replace(", ", "-"))
def policy(request: pytest.FixtureRequest) -> Callable[[], Policy]:
    return POLICIES[request.param]


def selector(policy: Policy, sizes: dict | None = None, per_round: int = 4, **more: object) -> Selector:
    return Selector(sizes or SIZES, per_round, policy, tau_min=0.05, **more)


def play(sel: Selector, rounds: int, available: list[str] | None = None) -> list[tuple]:
    history = []
    for _ in range(rounds):
        members = sel.select(available).members
        update = {k: np.array([np.sin(hash_free(k)), np.cos(hash_free(k)), 1.0]) for k in members}
        sel.observe({k: SECONDS[k] for k in members}, updates=update)
        history.append(members)
    return history


def hash_free(name: str) -> float:
    return float(sum(name.encode()))


def check_size(policy: Policy, chosen: int, per_round: int, available: int) -> None:
    if policy.size == "all":
        assert chosen == available
    elif policy.size == "at most m":
        assert 1 <= chosen <= per_round
    else:
        assert chosen == per_round


def test_size_and_no_duplicates(policy: Callable[[], Policy]) -> None:
    kind = policy()
    for members in play(selector(kind), 15):
        assert len(set(members)) == len(members)
        check_size(kind, len(members), 4, 12)


def test_weights_are_set_only_by_draws_with_replacement(policy: Callable[[], Policy]) -> None:
    kind = policy()
    chosen = selector(kind).select()
    if kind.size == "at most m":
        assert chosen.weights is not None
        assert set(chosen.weights) == set(chosen.members)
        assert sum(chosen.weights.values()) == pytest.approx(1.0)
    else:
        assert chosen.weights is None


def test_only_available_clients(policy: Callable[[], Policy]) -> None:
    kind = policy()
    sel = selector(kind)
    play(sel, 3)
    some = IDS[2:8]
    for members in play(sel, 6, some):
        assert set(members) <= set(some)
        check_size(kind, len(members), 4, 6)


def test_mask_and_ids_mean_the_same(policy: Callable[[], Policy]) -> None:
    mask = np.zeros(12, dtype=bool)
    mask[2:8] = True
    assert selector(policy()).select(mask).members == selector(policy()).select(IDS[2:8]).members


def test_too_few_available_is_an_error_and_changes_nothing(policy: Callable[[], Policy]) -> None:
    kind = policy()
    if kind.size == "all":
        assert selector(kind).select(IDS[:2]).members == tuple(IDS[:2])
        return
    sel = selector(kind)
    with pytest.raises(NotEnoughClientsError, match=r"per_round is 4, but only 3"):
        sel.select(IDS[:3])
    assert sel.select().members == selector(policy()).select().members


def test_same_seed_same_choice(policy: Callable[[], Policy]) -> None:
    assert play(selector(policy(), seed=3), 12) == play(selector(policy(), seed=3), 12)


def test_asking_again_gives_the_same_choice(policy: Callable[[], Policy]) -> None:
    sel = selector(policy())
    play(sel, 4)
    assert sel.select() == sel.select()


@pytest.mark.parametrize("tied", [False, True])
def test_permuting_the_clients_permutes_the_choice(policy: Callable[[], Policy], tied: bool) -> None:
    sizes = dict.fromkeys(IDS, 100.0) if tied else SIZES
    order = [IDS[k] for k in np.random.default_rng(1).permutation(12)]
    straight = play(selector(policy(), sizes), 10)
    shuffled = play(selector(policy(), {k: sizes[k] for k in order}), 10)
    assert [set(members) for members in shuffled] == [set(members) for members in straight]


def test_everybody(policy: Callable[[], Policy]) -> None:
    kind = policy()
    for members in play(selector(kind, per_round=12), 3):
        assert len(members) == 12 or kind.size == "at most m"


def test_one_member(policy: Callable[[], Policy]) -> None:
    kind = policy()
    for members in play(selector(kind, per_round=1), 14):
        check_size(kind, len(members), 1, 12)


def test_everything_unobserved_and_tied(policy: Callable[[], Policy]) -> None:
    kind = policy()
    chosen = selector(kind, dict.fromkeys(IDS, 1.0)).select()
    check_size(kind, len(chosen.members), 4, 12)


def test_random_streams_of_rounds_differ(policy: Callable[[], Policy]) -> None:
    kind = policy()
    if kind.name in ("all", "fastest"):
        return
    assert len({tuple(sorted(members)) for members in play(selector(kind), 12)}) > 3


def test_saved_and_loaded_equals_uninterrupted(policy: Callable[[], Policy], tmp_path: object) -> None:
    straight = play(selector(policy(), seed=5), 12)
    sel = selector(policy(), seed=5)
    first = play(sel, 5)
    sel.save(tmp_path / "state")
    second = Selector.load(tmp_path / "state", policy=policy())
    assert first + play(second, 7) == straight
