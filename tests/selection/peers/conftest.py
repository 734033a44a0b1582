"""Rounds written out by hand: the columns that a policy looks at, and nothing else."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pausefl.rng import number_keys, stream, tickets
from pausefl.selection import Candidates, Objective


@pytest.fixture
def round_of() -> Callable[..., Candidates]:
    def make(m: int, number: int = 1, slowest: float = 0.0, seed: int = 0, **columns: Any) -> Candidates:
        arrays = {name: np.asarray(values) for name, values in columns.items()}
        count = len(next(iter(arrays.values())))
        ucb = arrays.get("ucb", np.ones(count))
        return Candidates(
            objective=Objective(ucb, np.zeros(count), m),
            rows=np.arange(count),
            all_ids=range(count),
            columns={name: lambda values=values: values for name, values in arrays.items()},
            set_range=1.0,
            round_number=number,
            slowest_seen=slowest,
            tickets=lambda at: tickets(seed, "tickets", number, number_keys(0, count)[at]),
            stream=lambda purpose: stream(seed, purpose, number),
        )

    return make
