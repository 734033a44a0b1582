"""What the engine asks of training; it does not know how it is done."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from pausefl.errors import require
from pausefl.types import FloatArray, IntArray

Vector: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Scores:
    """How good a model is on the test set."""

    accuracy: float  # percent
    loss: float


@dataclass(frozen=True, slots=True, eq=False)
class RecordNoise:
    """How members train where single records are protected: each record's gradient is clipped, each sum of them noised.

    ``clip`` is the largest L2 norm of one record's gradient.  ``deviations`` has one entry per member, in the order of
    members: the standard deviation of the noise on the clipped sum of a batch.
    """

    clip: float
    deviations: FloatArray

    def __post_init__(self) -> None:
        require(0.0 < self.clip < float("inf"), "clip", self.clip, "a finite number above 0", "raise it")
        fine = self.deviations.ndim == 1 and bool(np.all((self.deviations >= 0.0) & np.isfinite(self.deviations)))
        require(
            fine,
            "deviations",
            "an array with other values",
            "finite numbers from 0, one per member",
            "pass such numbers",
        )


@dataclass(frozen=True, slots=True, eq=False)
class ClientScores:
    """How good a model is on the data of some clients, one entry per client.

    ``loss`` is the mean over so many ``records`` of their losses, each clipped first; ``accuracy`` goes from 0 to 1.
    """

    loss: FloatArray
    accuracy: FloatArray
    records: IntArray


class Learner(Protocol):
    """Trains clients from a flat model, and scores it.

    Law: what ``train`` returns depends only on (model, members, round, the clients' own memory); never on the order of
    members, on the number of processes, or on what ran before.  The noise on sums of records is a function of (seed,
    round, client), too.
    """

    @property
    def passes(self) -> int:
        """How often a record can take part in the training of one round."""
        ...

    def steps(self, client: int) -> int:
        """Return how many local steps a client makes in a round; this follows from its number of examples alone."""
        ...

    def initial(self) -> Vector:
        """Return a fresh model, flat."""
        ...

    def train(self, model: Vector, members: IntArray, number: int, records: RecordNoise | None = None) -> Vector:
        """Return one row per member: what local training added to the model in this round.

        With ``records`` every step uses the noised sum of clipped record gradients, divided by the number of records in
        the batch.  What is returned is private then: it tells no more of a record than those sums do.
        """
        ...

    def announce(self, model: Vector) -> None:
        """Hear that this model will be scored with the next training; who can, begins at once."""
        ...

    def train_and_score(
        self, model: Vector, members: IntArray, number: int, records: RecordNoise | None = None
    ) -> tuple[Vector, Future[Scores]]:
        """As ``train``, and score the model that training starts from on whatever cores are idle meanwhile."""
        ...

    def evaluate(self, model: Vector) -> Scores:
        """Score a model on the test set."""
        ...

    def client_accuracies(self, model: Vector) -> npt.NDArray[np.float64]:
        """Return a model's accuracy (percent) on each client's own data."""
        ...

    def client_scores(
        self, model: Vector, members: IntArray, bound: float, minibatch_of: int | None = None
    ) -> ClientScores:
        """Score a model on these clients' own training data; the loss of each record is clipped to 0 … ``bound``.

        With ``minibatch_of`` only the first minibatch that the client has in that round counts.
        """
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
