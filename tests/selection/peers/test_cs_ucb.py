"""CS-UCB and CS-UCB-Q, by hand."""

from collections.abc import Callable

import numpy as np
import pytest

from pausefl.errors import InvalidValueError
from pausefl.selection import Candidates, CsUcb, CsUcbQ
from pausefl.selector import Selector


def test_cs_ucb_index_by_hand(round_of: Callable[..., Candidates]) -> None:
    # After 10 rounds, ln 10 = 2.302585; tau_max = 8; m = 2, so (m+1) ln t = 6.907755.
    # 1 - 2/8 + √(6.907755/8), 1 - 4/8 + √(6.907755/2), 1 - 8/8 + √(6.907755/1)
    one = round_of(2, 11, slowest=8.0, mean_seconds=[2.0, 4.0, 8.0, np.nan], timings=[8, 2, 1, 0])
    assert CsUcb().index(one) == pytest.approx([1.679230, 2.358461, 2.628261, np.inf], abs=2e-6)
    assert CsUcb().pick(one).tolist() == [3, 2]


def test_cs_ucb_tau_max_bounds_the_reward(round_of: Callable[..., Candidates]) -> None:
    # In round 2, ln 1 = 0: the index is the reward alone, and 8 seconds count like 4.
    one = round_of(1, 2, slowest=8.0, mean_seconds=[2.0, 8.0], timings=[1, 1])
    assert CsUcb().index(one) == pytest.approx([0.75, 0.0])
    assert CsUcb(tau_max=4.0).index(one) == pytest.approx([0.5, 0.0])


def test_cs_ucb_q_index_by_hand(round_of: Callable[..., Candidates]) -> None:
    # 2 ln 10 = 4.605170: 0.75 + √(4.605170/1000) = 0.817861; 0.5 + √(4.605170/10) is above 1; nothing known: 1.
    policy = CsUcbQ()
    policy.restore({"queues": np.array([0.4, 0.0, 0.1])})
    one = round_of(1, 11, slowest=8.0, mean_seconds=[2.0, 4.0, np.nan], timings=[1000, 10, 0], sizes=np.ones(3))
    assert policy.index(one) == pytest.approx([0.6089305, 0.5, 0.55], abs=1e-6)
    assert policy.pick(one).tolist() == [0]


def test_cs_ucb_q_queue_is_a_reflected_walk(round_of: Callable[..., Candidates]) -> None:
    # c = 0.5 · 1 · n_k/100 = 0.05, 0.15, 0.30; members 2, 0, 1.
    policy, one = CsUcbQ(), round_of(1, sizes=[10.0, 30.0, 60.0])
    for member, wanted in ((2, [0.05, 0.15, 0.0]), (0, [0.0, 0.3, 0.3]), (1, [0.05, 0.0, 0.6])):
        policy.played(one, np.array([member]))
        assert policy.state()["queues"] == pytest.approx(wanted)


def test_cs_ucb_q_queues_grow_while_a_client_is_away() -> None:
    sel = Selector([1.0] * 4, per_round=1, policy=CsUcbQ())
    for _ in range(3):
        sel.observe(dict.fromkeys(sel.select([0, 1]).members, 0.1))
    queues = sel.policy.state()["queues"]
    assert queues[2:] == pytest.approx([0.375, 0.375])  # three times 0.5 · 1/4
    assert sel.select().members[0] in (2, 3)


def test_cs_ucb_before_anybody_has_answered() -> None:
    sel = Selector([1.0] * 3, per_round=3, policy="cs-ucb")
    sel.observe(dict.fromkeys(sel.select().members))
    assert len(sel.select()) == 3


@pytest.mark.parametrize("kind", [CsUcb, CsUcbQ])
def test_a_wrong_tau_max_is_refused(kind: type) -> None:
    with pytest.raises(InvalidValueError, match=r"tau_max is 0\.0, but must be a finite number above 0"):
        kind(tau_max=0.0)
