"""Active federated learning, Alg. 1 by hand."""

from collections.abc import Callable

import numpy as np
import pytest

from pausefl.errors import InvalidValueError
from pausefl.selection import ActiveFL, Candidates


def test_afl_value_is_the_root_of_the_size_times_the_mean_loss(round_of: Callable[..., Candidates]) -> None:
    """Plato divided by the root: then the first client would be kept, with 3 against 0.1."""
    # √1 · 3 = 3 and √100 · 1 = 10; half of two is dropped.
    for number in range(1, 20):
        one = round_of(1, number, sizes=[1.0, 100.0], loss=[3.0, 1.0])
        assert ActiveFL(dropped=0.5, uniform=0.0).pick(one).tolist() == [1]


def test_afl_alg_1_line_2_drops_three_quarters(round_of: Callable[..., Candidates]) -> None:
    """Another implementation dropped a quarter."""
    # Values √4·3 = 6, √9·1 = 3, √16·0.5 = 2, √25·0.2 = 1: of four clients, one is kept.
    for number in range(1, 20):
        one = round_of(1, number, sizes=[4.0, 9.0, 16.0, 25.0], loss=[3.0, 1.0, 0.5, 0.2])
        assert ActiveFL(uniform=0.0).pick(one).tolist() == [0]


def test_afl_alg_1_chances_by_hand(round_of: Callable[..., Candidates]) -> None:
    # Values 100·1 and 100·2: weights e^1 and e^2.
    one = round_of(1, sizes=[1e4, 1e4], loss=[1.0, 2.0])
    assert ActiveFL(dropped=0.0).inclusion(one) == pytest.approx([0.26894142, 0.73105858])
    # Weights e^1, e^2, e^0 for the first place; the second is uniform among the other two.
    two = round_of(2, sizes=[1e4, 1e4, 1e4], loss=[1.0, 2.0, 0.0])
    chances = ActiveFL(dropped=0.0, uniform=0.5).inclusion(two)
    assert chances == pytest.approx([0.62236424, 0.83262048, 0.54501529])
    # Two draws by unequal values have no closed form.
    assert ActiveFL(dropped=0.0, uniform=0.0).inclusion(two) is None


def test_afl_alg_1_lines_5_and_6_nine_by_value_and_one_uniformly(round_of: Callable[..., Candidates]) -> None:
    # Of 40 clients the last 10 are kept, and 9 places of 10 are theirs; the last place is open to all.
    outsiders = 0
    for number in range(1, 200):
        one = round_of(10, number, sizes=np.ones(40), loss=np.arange(40.0))
        kept = [position for position in ActiveFL().pick(one).tolist() if position >= 30]
        assert len(kept) in (9, 10)
        outsiders += len(kept) == 9
    assert outsiders / 199 == pytest.approx(30 / 31, abs=5 * np.sqrt(30 / 31 / 31 / 199))


def test_afl_too_few_left_are_filled_up_uniformly(round_of: Callable[..., Candidates]) -> None:
    chosen = ActiveFL().pick(round_of(4, sizes=np.ones(8), loss=np.arange(8.0)))
    assert len(set(chosen.tolist())) == 4
    assert {6, 7} <= set(chosen.tolist())


def test_afl_a_client_that_told_nothing_has_the_highest_value(round_of: Callable[..., Candidates]) -> None:
    one = round_of(1, sizes=[1.0, 1.0, 1.0, 1.0], loss=[300.0, np.nan, 100.0, 200.0])
    chances = ActiveFL(dropped=0.5, uniform=0.0).inclusion(one)
    assert chances == pytest.approx([0.5, 0.5, 0.0, 0.0])


@pytest.mark.parametrize("option", [{"dropped": 1.5}, {"sharpness": -1.0}, {"uniform": float("nan")}])
def test_a_wrong_option_is_refused(option: dict) -> None:
    with pytest.raises(InvalidValueError, match=f"{next(iter(option))} is .*; the usual value is"):
        ActiveFL(**option)
