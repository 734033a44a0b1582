"""Power of choice, by hand: who is asked, and who of them takes part."""

from collections.abc import Callable

import numpy as np
import pytest

from pausefl.errors import InvalidValueError
from pausefl.selection import Candidates, CPowD, PowD, RPowD
from pausefl.selector import Selector


def test_pow_d_takes_the_highest_losses_of_those_that_were_asked(round_of: Callable[..., Candidates]) -> None:
    """FLGo ranked the asked clients but indexed all of them: with d < K the wrong clients took part."""
    for number in range(1, 40):
        asked = PowD(d=3).ask(round_of(2, number, sizes=np.ones(8)))
        assert len(set(asked.tolist())) == 3
        loss = np.full(8, 100.0)  # of those that nobody asked
        loss[asked] = [1.0, 3.0, 2.0]
        chosen = PowD(d=3).pick(round_of(2, number, sizes=np.ones(8), loss=loss))
        assert chosen.tolist() == [asked[1], asked[2]]


def test_pow_d_candidates_are_drawn_in_proportion_to_data(round_of: Callable[..., Candidates]) -> None:
    rounds = 4000
    times = sum(PowD(d=1).ask(round_of(1, n, sizes=[1.0, 3.0])).tolist() == [1] for n in range(rounds))
    assert abs(times - 0.75 * rounds) < 5 * np.sqrt(rounds * 0.75 * 0.25)  # 1 false alarm in 1,000,000


def test_pow_d_through_the_selector_asks_only_d_clients() -> None:
    sel = Selector([1.0] * 10, per_round=2, policy=PowD(d=5))
    asked = sel.asked()
    assert len(asked) == 5
    sel.hear({"loss": {client: float(client) for client in asked}})
    assert set(sel.select().members) == set(sorted(asked)[-2:])


def test_pow_d_default_is_twice_m_and_at_most_everybody(round_of: Callable[..., Candidates]) -> None:
    assert len(PowD().ask(round_of(3, sizes=np.ones(20)))) == 6
    assert len(PowD().ask(round_of(3, sizes=np.ones(5)))) == 5


def test_pow_d_a_silent_client_comes_last(round_of: Callable[..., Candidates]) -> None:
    chosen = PowD(d=3).pick(round_of(2, sizes=np.ones(3), loss=[np.nan, 0.1, 0.2]))
    assert chosen.tolist() == [2, 1]


def test_cpow_d_chooses_like_pow_d_by_the_loss_of_a_minibatch(round_of: Callable[..., Candidates]) -> None:
    assert (CPowD.minibatch, PowD.minibatch, RPowD.minibatch) == (True, False, False)
    loss = [3.0, 1.0, 2.0, 5.0, 4.0]
    for number in range(1, 20):
        one = round_of(2, number, sizes=np.arange(1.0, 6.0), loss=loss)
        assert CPowD(d=3).ask(one).tolist() == PowD(d=3).ask(one).tolist()
        assert CPowD(d=3).pick(one).tolist() == PowD(d=3).pick(one).tolist()


def test_rpow_d_unknown_losses_are_infinite_and_nobody_is_asked(round_of: Callable[..., Candidates]) -> None:
    chosen = RPowD(d=3).pick(round_of(2, sizes=np.ones(3), loss=[np.nan, 5.0, 9.0]))
    assert chosen.tolist() == [0, 2]
    assert not RPowD().asks
    assert PowD().asks


def test_rpow_d_chances_by_hand(round_of: Callable[..., Candidates]) -> None:
    # Of the six pairs out of 4, three hold the first client; of the others two hold the second, and one the third.
    one = round_of(1, sizes=np.ones(4), loss=[2.0, 4.0, 1.0, 3.0])
    assert RPowD(d=2).inclusion(one) == pytest.approx([1 / 6, 3 / 6, 0.0, 2 / 6])
    # Two that told nothing tie in front: together they have the chances of the first two.
    tied = round_of(1, sizes=np.ones(4), loss=[np.nan, 4.0, 1.0, np.nan])
    assert RPowD(d=2).inclusion(tied) == pytest.approx([2.5 / 6, 1 / 6, 0.0, 2.5 / 6])
    assert RPowD(d=2).inclusion(round_of(1, sizes=[1.0, 2.0, 3.0], loss=[1.0, 2.0, 3.0])) is None


@pytest.mark.parametrize("kind", [PowD, CPowD, RPowD])
@pytest.mark.parametrize("d", [0, -1, 2.5, True, "3"])
def test_a_wrong_d_is_refused(kind: type, d: object) -> None:
    with pytest.raises(InvalidValueError, match=r"d is .* must be a whole number from 1"):
        kind(d=d)


def test_fewer_than_m_cannot_be_asked() -> None:
    with pytest.raises(InvalidValueError, match="d is 2, but must be at least m, which is 3"):
        Selector([1.0] * 5, per_round=3, policy=PowD(d=2)).select()
