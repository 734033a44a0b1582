"""Draws without replacement in proportion to weights, whose numbers belong to the clients."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from pausefl.selection import Candidates
from pausefl.selection.peers.keyed_draws import drawn, highest, tied_ranks, uniforms


def test_efraimidis_and_spirakis_draws_have_the_chances_of_draws_one_after_the_other(
    round_of: Callable[..., Candidates],
) -> None:
    weights = np.array([1.0, 2.0, 3.0])
    rounds = 6000
    seen = Counter(
        tuple(drawn(round_of(2, n, sizes=weights), "t", 2, np.arange(3), np.log(weights)).tolist())
        for n in range(rounds)
    )
    # By hand: first i with w_i/6, then j with w_j/(6 - w_i).
    wanted = {(0, 1): 2 / 30, (0, 2): 3 / 30, (1, 0): 2 / 24, (1, 2): 6 / 24, (2, 0): 3 / 18, (2, 1): 6 / 18}
    for pair, chance in wanted.items():
        # 5 standard deviations for each of 6 pairs: a false alarm in fewer than 1 of 100,000 runs.
        assert abs(seen[pair] - rounds * chance) < 5 * np.sqrt(rounds * chance * (1 - chance))


def test_weights_beyond_the_range_of_floats_are_no_trouble(round_of: Callable[..., Candidates]) -> None:
    chosen = drawn(round_of(2, sizes=np.ones(4)), "t", 3, np.arange(4), np.array([-np.inf, 5000.0, -5000.0, -np.inf]))
    assert chosen[:2].tolist() == [1, 2]
    assert chosen[2] in (0, 3)


def test_numbers_lie_inside_and_differ_by_purpose_and_round(round_of: Callable[..., Candidates]) -> None:
    one = uniforms(round_of(1, 1, sizes=np.ones(2000)), "a")
    assert one.min() > 0.0
    assert one.max() < 1.0
    assert abs(one.mean() - 0.5) < 5 * np.sqrt(1 / 12 / 2000)
    for other in (
        uniforms(round_of(1, 1, sizes=np.ones(2000)), "b"),
        uniforms(round_of(1, 2, sizes=np.ones(2000)), "a"),
    ):
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(2000)


def test_ranks_with_ties() -> None:
    higher, tied = tied_ranks(np.array([2.0, np.inf, 2.0, 1.0, np.inf]))
    assert higher.tolist() == [2, 0, 2, 4, 0]
    assert tied.tolist() == [2, 2, 2, 1, 2]


def test_the_highest_come_first(round_of: Callable[..., Candidates]) -> None:
    assert highest(round_of(1, sizes=np.ones(4)), np.array([1.0, 4.0, 3.0, 2.0]), 3).tolist() == [1, 2, 3]
    assert highest(round_of(1, sizes=np.ones(4)), np.array([5.0, 6.0]), 1, np.array([3, 2])).tolist() == [2]


@pytest.mark.parametrize("count", [0, 2, 5])
def test_fewer_than_wanted_are_all_drawn(round_of: Callable[..., Candidates], count: int) -> None:
    assert len(drawn(round_of(1, sizes=np.ones(5)), "t", count, np.array([1, 3]))) == min(count, 2)
