"""What of an inner strategy's state is kept."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedAvgM,
)

from pausefl.errors import InvalidValueError
from pausefl.flower import PauseStrategy
from pausefl.flower.server.inner_strategy import inner_state, restore_inner
from pausefl.selector import Selector
from pausefl.system.state_file import read_state, write_state


def test_moments_survive_a_checkpoint_in_their_own_form():
    one, other = FedAvgM(), FedAvgM()
    one.momentum_vector = [np.arange(3.0), np.zeros(())]
    adam = FedAdam()
    adam.m_t = {"a|b": np.ones(2), "c": np.zeros(1)}
    restore_inner(other, inner_state(one))
    assert [array.tolist() for array in other.momentum_vector] == [[0.0, 1.0, 2.0], 0.0]
    back = FedAdam()
    restore_inner(back, inner_state(adam))
    assert {name: array.tolist() for name, array in back.m_t.items()} == {"a|b": [1.0, 1.0], "c": [0.0]}


def test_a_bare_array_is_kept_too(tmp_path):
    """A strategy of one's own, say, that keeps its moment flat."""

    class Flat(FedAvg):
        def __init__(self, moment):
            super().__init__()
            self.moment, self.names = moment, np.array([object()], dtype=object)

    for moment in (np.arange(6.0).reshape(2, 3), np.array(3.5), np.zeros(0), np.array([True])):
        wrapper = DifferentialPrivacyServerSideFixedClipping(Flat(moment), 0.1, 1.0, 2)
        write_state(tmp_path / "inner", "inner", {}, inner_state(wrapper))
        back = Flat(None)
        restore_inner(
            DifferentialPrivacyServerSideFixedClipping(back, 0.1, 1.0, 2), read_state(tmp_path / "inner", "inner")[1]
        )
        assert type(back.moment) is np.ndarray
        assert (back.moment.shape, back.moment.dtype) == (moment.shape, moment.dtype)
        assert np.array_equal(back.moment, moment)


def test_an_account_that_no_checkpoint_holds_is_refused_with_one(tmp_path):
    class Accountant:
        """As Flower's, which need further packages."""

        def compose(self, event, count=1): ...

        def get_epsilon(self, delta): ...

    inner = FedAvg()
    inner.accountant = Accountant()
    wrapped = DifferentialPrivacyServerSideFixedClipping(inner, 0.1, 1.0, 2)
    PauseStrategy(wrapped, Selector([1, 1, 1], 2))
    with pytest.raises(InvalidValueError, match="accountant of the inner strategy is a Accountant"):
        PauseStrategy(wrapped, Selector([1, 1, 1], 2), checkpoint=tmp_path / "run.state")
