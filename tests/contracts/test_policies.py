"""One law suite over every policy; a policy of your own can be added to POLICIES and held to the same."""

from collections.abc import Callable, Iterable
from copy import deepcopy

import numpy as np
import pytest

from pausefl.errors import NotEnoughClientsError
from pausefl.selection import POLICIES as REGISTERED
from pausefl.selection import (
    ActiveFL,
    All,
    Annealer,
    BanditScheduling,
    Brute,
    ClusteredBySimilarity,
    ClusteredBySize,
    CPowD,
    CsUcb,
    CsUcbQ,
    Fastest,
    FedCS,
    Oort,
    Pause,
    PauseAuto,
    Policy,
    PowD,
    Random,
    RbcsF,
    Refl,
    RPowD,
    SaPause,
    SaPauseAsPublished,
    TiFL,
)  # fmt: skip
from pausefl.selector import Selector

IDS = [f"client-{k}" for k in range(12)]
SECONDS = {name: 0.1 + 0.05 * (k % 7) for k, name in enumerate(IDS)}
SIZES = {name: 50.0 + 10.0 * ((5 * k) % 12) for k, name in enumerate(IDS)}

POLICIES: dict[str, Callable[[], Policy]] = {
    "pause": Pause,
    "pause-auto": PauseAuto,
    "sa-pause": lambda: SaPause(Annealer(steps=2000)),
    "sa-pause-as-published": lambda: SaPauseAsPublished(steps=500),
    "brute": Brute,
    "random": Random,
    "all": All,
    "fastest": lambda: Fastest(SECONDS),
    "clustered": ClusteredBySize,
    "clustered-similarity": ClusteredBySimilarity,
    "clustered-similarity, l2": lambda: ClusteredBySimilarity(metric="l2"),
    "oort": Oort,
    "oort, quick": lambda: Oort(exploration=0.5, pacer_step=2, cut_off=0.1),
    "pow-d": PowD,
    "pow-d, everybody": lambda: PowD(d=100),
    "cpow-d": CPowD,
    "rpow-d": RPowD,
    "afl": ActiveFL,
    "afl, mostly uniform": lambda: ActiveFL(uniform=0.7),
    "tifl": TiFL,
    "tifl, quick": lambda: TiFL(tiers=3, interval=2, credits=3),
    "tifl, static": lambda: TiFL(adaptive=False),
    "cs-ucb": CsUcb,
    "cs-ucb-q": CsUcbQ,
    "rbcs-f": RbcsF,
    "bsfl": BanditScheduling,
    "refl": Refl,
    "fedcs": FedCS,
    "fedcs, strict": lambda: FedCS(deadline=0.2, pool=6),
}
WITH_REPLACEMENT = {"clustered", "clustered-similarity"}


@pytest.fixture(params=POLICIES, ids=lambda name: name.replace(", ", "-"))
def policy(request: pytest.FixtureRequest) -> Callable[[], Policy]:
    return POLICIES[request.param]


def selector(policy: Policy, sizes: dict | None = None, per_round: int = 4, **more: object) -> Selector:
    return Selector(sizes or SIZES, per_round, policy, tau_min=0.05, **more)


def play(sel: Selector, rounds: int, available: list[str] | None = None) -> list[tuple]:
    history = []
    for _ in range(rounds):
        sel.hear(signals(sel, sel.asked(available)))
        members = sel.select(available).members
        update = {k: np.array([np.sin(hash_free(k)), np.cos(hash_free(k)), 1.0]) for k in members}
        if not sel.policy.asks:
            sel.hear(signals(sel, members))
        sel.observe({k: SECONDS[k] for k in members}, updates=update)
        history.append(members)
    return history


def signals(sel: Selector, clients: Iterable[str]) -> dict[str, dict[str, float]]:
    """What clients say of the model: it becomes better, and it is now worse for these of them and now for those."""
    told = {k: (1.5 + np.sin(hash_free(k) * (1 + sel.rounds))) / (1.0 + sel.rounds) for k in clients}
    values = {"loss": told, "accuracy": {k: 1.0 / (1.0 + loss) for k, loss in told.items()}}
    return {name: values[name] for name in sel.policy.signals}


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
    if kind.name in WITH_REPLACEMENT:
        assert kind.size == "at most m"
        assert chosen.weights is not None
        assert set(chosen.weights) == set(chosen.members)
        assert sum(chosen.weights.values()) == pytest.approx(1.0)
    else:
        assert chosen.weights is None


def test_every_registered_policy_is_held_to_the_laws() -> None:
    assert {kind().name for kind in POLICIES.values()} == {*REGISTERED, Fastest.name}
    assert {name: kind().name for name, kind in REGISTERED.items()} == {name: name for name in REGISTERED}


def test_whoever_is_asked_is_there_and_only_policies_that_ask_ask(policy: Callable[[], Policy]) -> None:
    kind = policy()
    sel = selector(kind)
    play(sel, 2)
    some = IDS[2:8]
    asked = sel.asked(some)
    assert set(asked) <= set(some)
    assert bool(asked) == kind.asks
    assert sel.asked(some) == asked


def test_choosing_and_asking_change_nothing(policy: Callable[[], Policy]) -> None:
    sel = selector(policy())
    play(sel, 5)
    before = deepcopy(dict(sel.policy.state()))
    for available in (None, IDS[2:8], IDS[:5]):
        sel.asked(available)
        sel.select(available)
    np.testing.assert_equal(dict(sel.policy.state()), before)


def test_an_open_round_survives_saving(policy: Callable[[], Policy], tmp_path: object) -> None:
    straight, sel = selector(policy(), seed=6), selector(policy(), seed=6)
    play(straight, 4), play(sel, 4)
    for one in (straight, sel):
        one.hear(signals(one, one.asked(IDS[1:9])))
        one.select(IDS[1:9])
    sel.save(tmp_path / "state")
    sel = Selector.load(tmp_path / "state", policy=policy())
    for one in (straight, sel):
        one.observe({k: SECONDS[k] for k in one.pending})
    assert play(sel, 5) == play(straight, 5)


def test_clients_that_join_and_leave_do_not_disturb(policy: Callable[[], Policy]) -> None:
    kind = policy()
    sel = selector(kind, {name: SIZES[name] for name in IDS[:8]})
    play(sel, 4)
    sel.join({name: SIZES[name] for name in IDS[8:]})
    sel.leave(IDS[:2])
    for members in play(sel, 6):
        assert set(members) <= set(IDS[2:])
        check_size(kind, len(members), 4, 10)


def test_silence_of_everybody_does_not_end_a_policy(policy: Callable[[], Policy]) -> None:
    kind = policy()
    sel = selector(kind)
    for _ in range(8):
        members = sel.select().members
        check_size(kind, len(members), 4, len(members))  # 'all' leaves out those who wait after silence
        sel.observe(dict.fromkeys(members))


def test_smaller_rounds(policy: Callable[[], Policy]) -> None:
    kind = policy()
    sel = selector(kind)
    play(sel, 3)
    for few in (1, 2, 3):
        sel.hear(signals(sel, sel.asked(IDS[:few], allow_fewer=True)))
        members = sel.select(IDS[:few], allow_fewer=True).members
        assert set(members) <= set(IDS[:few])
        sel.observe({k: SECONDS[k] for k in members})
    play(sel, 3)


def test_chances_are_chances_and_sum_to_the_size(policy: Callable[[], Policy]) -> None:
    kind = policy()
    sel = selector(kind, dict.fromkeys(IDS, 100.0))
    play(sel, 5)
    problem = sel.problem()
    chances = kind.inclusion(problem.candidates(problem.terms(), np.arange(12)))
    if chances is None:
        return
    assert chances.shape == (12,)
    assert (chances >= 0.0).all()
    assert (chances <= 1.0 + 1e-12).all()
    if kind.size == "exactly m":
        assert chances.sum() == pytest.approx(4.0)
    chosen = sel.select().members
    assert all(chances[IDS.index(member)] > 0.0 for member in chosen)


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


def test_a_dead_client_is_seldom_asked(policy: Callable[[], Policy]) -> None:
    """At most 7 times in 100 rounds of 3 out of 10, where it was 27 times before clients had to wait."""
    sel, asked = Selector({name: SIZES[name] for name in IDS[:10]}, 3, policy()), 0
    for _ in range(100):
        members = sel.select().members
        asked += IDS[4] in members
        answered = [name for name in members if name != IDS[4]]
        sel.observe(dict.fromkeys(answered, 0.2), updates={name: np.full(3, hash_free(name)) for name in answered})
    assert asked <= 7


def test_a_fast_client_is_back_soon_after_it_answers_again(policy: Callable[[], Policy]) -> None:
    """It is silent from round 20 to round 40.  Once it has answered it is picked again within 10 rounds."""
    kind = policy()
    sel, back = Selector({name: SIZES[name] for name in IDS[:10]}, 3, kind), []
    for number in range(1, 121):
        members = sel.select().members
        seconds = {name: SECONDS[name] for name in members if name != IDS[0] or not 20 <= number <= 40}
        sel.observe(seconds, updates={name: np.full(3, hash_free(name)) for name in seconds})
        if number > 40 and IDS[0] in members:
            back.append(number)
    assert back[0] <= 40 + 22  # away for 21 rounds, asked again at most as many later, and picked for its speed or data
    if kind.name not in ("random", "clustered", "clustered-similarity"):  # these go by luck
        assert back[1] - back[0] <= 10


@pytest.mark.parametrize("there", [1, 2, 4])
def test_a_round_of_all_who_are_there_is_fine_for_everybody(policy: Callable[[], Policy], there: int) -> None:
    """With no more candidates than members there is no choice, and where chances are known they are certain."""
    kind = policy()
    sel = Selector(sizes=dict.fromkeys(IDS, 10.0), per_round=4, policy=kind, tau_min=0.05, seed=5)
    for _ in range(3):
        chances = sel.chances(IDS[:there], allow_fewer=True)
        chosen = sel.select(IDS[:there], allow_fewer=True)
        assert set(chosen) <= set(IDS[:there])
        if chances is not None and kind.name not in WITH_REPLACEMENT and kind.size == "exactly m":
            assert sum(chances.values()) == pytest.approx(len(chosen.members))
        sel.observe({member: SECONDS[member] for member in chosen})
