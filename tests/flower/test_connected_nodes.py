"""Who is connected, for a selector that goes by ids of nodes."""

from __future__ import annotations

import pytest

import pausefl
from pausefl.errors import InvalidValueError, NotEnoughClientsError
from pausefl.flower import connected
from pausefl.flower.testing import MemoryGrid


def test_nodes_that_are_on_their_way_are_waited_for(tools):
    clock, grid = tools.Clock(), MemoryGrid({2**63 + 1: lambda message: None})

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if clock.now > 103.0:
            grid.nodes[5] = lambda message: None

    assert connected(grid, 2, clock=clock, sleep=sleep) == {2**63 + 1: 1.0, 5: 1.0}
    assert clock.now == pytest.approx(103.0, abs=0.2)
    assert connected(grid) == connected(grid, 2)
    assert set(pausefl.Selector(connected(grid, 2), per_round=2).select()) == {2**63 + 1, 5}


def test_too_few_are_an_error_that_says_what_to_do(tools):
    clock = tools.Clock()
    with pytest.raises(NotEnoughClientsError, match=r"connected nodes are 1 after 9 seconds, but must be at least 3; .*"
                       r"--federation-config 'num-supernodes=3'"):  # fmt: skip
        connected(MemoryGrid({1: lambda message: None}), 3, wait=9.0, clock=clock, sleep=clock.sleep)
    assert clock.now == pytest.approx(109.0, abs=0.2)


@pytest.mark.parametrize("wrong", [{"least": 0}, {"least": 1.5}, {"least": True}, {"wait": -1.0}, {"wait": "long"}])
def test_senseless_numbers_are_refused(wrong):
    with pytest.raises(InvalidValueError):
        connected(MemoryGrid({1: lambda message: None}), **wrong)
