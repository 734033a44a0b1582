"""What the engine asks of training; it does not know how it is done."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from pausefl.types import IntArray

Vector: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Scores:
    """How good a model is on the test set."""

    accuracy: float  # percent
    loss: float


class Learner(Protocol):
    """Trains clients from a flat model, and scores it.

    Law: what ``train`` returns depends only on (model, members, round, the clients' own memory); never on the order of
    members, on the number of processes, or on what ran before.
    """

    def initial(self) -> Vector:
        """Return a fresh model, flat."""
        ...

    def train(self, model: Vector, members: IntArray, number: int) -> Vector:
        """Return one row per member: what local training added to the model in this round."""
        ...

    def announce(self, model: Vector) -> None:
        """Hear that this model will be scored with the next training; who can, begins at once."""
        ...

    def train_and_score(self, model: Vector, members: IntArray, number: int) -> tuple[Vector, Future[Scores]]:
        """As ``train``, and score the model that training starts from on whatever cores are idle meanwhile."""
        ...

    def evaluate(self, model: Vector) -> Scores:
        """Score a model on the test set."""
        ...

    def client_accuracies(self, model: Vector) -> npt.NDArray[np.float64]:
        """Return a model's accuracy (percent) on each client's own data."""
        ...

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return the clients' memory, for a checkpoint."""
        ...

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over a checkpoint's memory."""
        ...

    def close(self) -> None:
        """End whatever runs in the background."""
        ...
