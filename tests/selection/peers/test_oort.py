"""Oort, Alg. 1 by hand, and what its reference code does not bear."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pausefl.errors import InvalidValueError
from pausefl.selection import Candidates, Oort
from pausefl.selector import Selector

TRIED: dict[str, Any] = {
    "sizes": [10.0, 20.0, 40.0],
    "loss": [2.0, 0.5, 1.0],
    "picks": [1, 1, 1],
    "last_round": [1, 2, 4],
    "mean_seconds": [1.0, 2.0, 4.0],
}


def test_oort_utility_by_hand(round_of: Callable[..., Candidates]) -> None:
    # r = 10·2, 20·0.5, 40·1 = 20, 10, 40; (r - 10)/30 = 1/3, 0, 1.
    # In round 8, 0.1 ln 8 = 0.207944: √(0.207944/L) = 0.456009, 0.322447, 0.228004 for L = 1, 2, 4.
    # T is the fastest of three, 1 second: the factors are 1, (1/2)² and (1/4)².
    one = round_of(1, 8, **TRIED)
    assert Oort().utility(one, np.arange(3)) == pytest.approx([0.789342, 0.0806118, 0.0767503], abs=1e-6)
    # Without a limit on time, and with r clipped at the middle one, 20.
    relaxed = Oort(percentile=100.0, clip=0.5).utility(one, np.arange(3))
    assert relaxed == pytest.approx([0.789342, 0.322447, 1 / 3 + 0.228004], abs=1e-6)
    # (1/2)^1 and (1/4)^1.
    milder = Oort(penalty=1.0).utility(one, np.arange(3))
    assert milder == pytest.approx([0.789342, 0.1612235, 0.307001], abs=1e-6)


def test_oort_a_client_that_told_no_loss_has_the_lowest_utility(round_of: Callable[..., Candidates]) -> None:
    one = round_of(1, 8, **TRIED | {"loss": [2.0, np.nan, 1.0]})
    # r = 20, 20, 40.
    found = Oort(percentile=100.0).utility(one, np.arange(3))
    assert found == pytest.approx([0.456009, 0.322447, 1.228004], abs=1e-6)


def test_oort_a_loss_that_noise_made_negative_teaches_nothing(round_of: Callable[..., Candidates]) -> None:
    # r = 20, 0, 40.
    one = round_of(1, 8, **TRIED | {"loss": [2.0, -50.0, 1.0]})
    found = Oort(percentile=100.0).utility(one, np.arange(3))
    assert found == pytest.approx([0.956009, 0.322447, 1.228004], abs=1e-6)


def test_oort_cut_off_by_hand(round_of: Callable[..., Candidates]) -> None:
    # Utilities 0.789, 0.322, 1.228.  Two places: 0.7 · 0.789 = 0.553 shuts the second client out.
    for number in range(8, 60):
        one = round_of(2, number, **TRIED)
        assert set(Oort(percentile=100.0).pick(one).tolist()) == {0, 2}
    # One place: 0.7 · 1.228 = 0.860 leaves the last alone; with a cut-off of 0 anyone may come.
    ones = [round_of(1, 8, seed=seed, **TRIED) for seed in range(100)]
    assert {int(Oort(percentile=100.0).pick(one)[0]) for one in ones} == {2}
    assert {int(Oort(percentile=100.0, cut_off=0.0).pick(one)[0]) for one in ones} == {0, 1, 2}


@pytest.mark.parametrize(("number", "explored"), [(2, 9), (20, 4), (60, 2)])
def test_oort_exploration_decays_to_its_least(round_of: Callable[..., Candidates], number: int, explored: int) -> None:
    # 0.9·0.95² = 0.812, 0.9·0.95²⁰ = 0.323, and at least 0.2: of 10 places int(1.88), int(6.77) and 8 are exploited.
    picks = np.r_[np.ones(20, dtype=int), np.zeros(15, dtype=int)]
    one = round_of(
        10, number, sizes=np.ones(35), loss=np.where(picks > 0, 1.0, np.nan), picks=picks, last_round=picks,
        mean_seconds=np.where(picks > 0, 1.0, np.nan),
    )  # fmt: skip
    chosen = Oort().pick(one)
    assert len(set(chosen.tolist())) == 10
    assert np.count_nonzero(picks[chosen] == 0) == explored


def test_oort_exploration_ends_when_everybody_was_tried(round_of: Callable[..., Candidates]) -> None:
    """The authors' code indexes past the end of the list when as many are exploited as there are."""
    for m in (1, 2, 3):
        chosen = Oort().pick(round_of(m, 8, **TRIED))
        assert len(set(chosen.tolist())) == m


def test_oort_too_few_untried_are_filled_up(round_of: Callable[..., Candidates]) -> None:
    one = round_of(3, 2, **TRIED | {"picks": [1, 0, 1], "last_round": [1, 0, 1], "loss": [2.0, np.nan, 1.0]})
    assert sorted(Oort().pick(one).tolist()) == [0, 1, 2]


@pytest.mark.parametrize("clients", [1, 2, 3])
def test_oort_bears_few_clients(clients: int) -> None:
    """SymbioticLab/Oort, issue 1."""
    sel = Selector([5.0] * clients, per_round=clients, policy="oort")
    for _ in range(5):
        chosen = sel.select().members
        assert len(chosen) == clients
        sel.hear({"loss": dict.fromkeys(chosen, 1.0)})
        sel.observe(dict.fromkeys(chosen, 0.1))


def test_oort_pacer_by_hand(round_of: Callable[..., Candidates]) -> None:
    policy = Oort(pacer_step=2)
    # The utility of a round is size times loss, 10: rounds 1 and 2 sum to 20, and so do 3 and 4, which is flat.
    # Rounds 5 and 6 sum to 200: a change of 180, which is more than five times 20.
    # Rounds 7 and 8 sum to 100: a change of 100, neither flat nor steep.
    utilities = [10.0, 10.0, 10.0, 10.0, 100.0, 100.0, 50.0, 50.0]
    wanted = [10.0, 10.0, 10.0, 15.0, 15.0, 10.0, 10.0, 10.0]
    for number, (utility, percentile) in enumerate(zip(utilities, wanted, strict=True), start=1):
        one = round_of(1, number, sizes=[10.0, 3.0], loss=[utility / 10.0, 9.0], picks=[1, 1])
        policy.played(one, np.array([0]))
        assert float(policy.state()["paced"]) == percentile


def test_oort_explores_large_clients_more_often(round_of: Callable[..., Candidates]) -> None:
    rounds = 2000
    nobody = {"loss": [np.nan] * 2, "picks": [0, 0], "last_round": [0, 0], "mean_seconds": [np.nan] * 2}
    times = sum(
        Oort().pick(round_of(1, seed + 1, seed=seed, sizes=[1.0, 3.0], **nobody)).tolist() == [1]
        for seed in range(rounds)
    )
    assert abs(times - 0.75 * rounds) < 5 * np.sqrt(rounds * 0.75 * 0.25)


@pytest.mark.parametrize(
    "option",
    [{"exploration": 2.0}, {"decay": -0.1}, {"least_exploration": "0"}, {"percentile": 101.0}, {"pacer_step": 0},
     {"pacer_delta": 0.0}, {"penalty": -1.0}, {"cut_off": float("nan")}, {"clip": 1.1}],
)  # fmt: skip
def test_a_wrong_option_is_refused(option: dict) -> None:
    with pytest.raises(InvalidValueError, match=f"{next(iter(option))} is .*; the usual "):
        Oort(**option)
