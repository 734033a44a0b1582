"""What of an inner strategy's state is kept."""

from __future__ import annotations

import numpy as np
from flwr.serverapp.strategy import (
    FedAdam,
    FedAvgM,
)

from pausefl.flower.inner import inner_state, restore_inner


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
