"""Names for the values that travel between rooms."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

ClientId: TypeAlias = int | str
Seconds: TypeAlias = float
Epsilon: TypeAlias = float

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
KeyArray: TypeAlias = npt.NDArray[np.uint64]


class BudgetSchedule(Protocol):
    """How a client's lifetime budget is spread over its releases; the rewards and the selector need no more."""

    @property
    def budget(self) -> Epsilon:
        """What the client may leak in all."""
        ...

    @property
    def limit(self) -> int | None:
        """How many releases there can ever be; None if they never end."""
        ...

    def spent(self, plays: npt.ArrayLike) -> FloatArray:
        """What the first ``plays`` releases leak in all."""
        ...
