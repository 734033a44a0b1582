"""Noise on sums of clipped record gradients: a generator per client and round, consumed batch after batch."""

from __future__ import annotations

from typing import NamedTuple

from pausefl.errors import require
from pausefl.learn.torch_import import torch
from pausefl.rng import stream
from pausefl.sim.learner import RecordNoise
from pausefl.types import IntArray


class ClientNoise(NamedTuple):
    """How one client trains where single records are protected: their largest norm, and the noise on their sum."""

    clip: float
    deviation: float


def client_noises(members: IntArray, records: RecordNoise | None) -> list[ClientNoise | None]:
    """Return how each member trains, in their order; None where its records are not protected."""
    if records is None:
        return [None] * len(members)
    given, wanted = len(records.deviations), len(members)
    require(
        given == wanted,
        "deviations",
        f"{given} numbers",
        f"one per member, {wanted}",
        "pass one number for each member",
    )
    return [ClientNoise(records.clip, deviation) for deviation in records.deviations.tolist()]


class BatchNoise:
    """The noise on one client's batches in one round, drawn batch after batch.

    Law: the noise is a function of (seed, round, client, step).  It is simulated: whoever knows the seed takes it off.
    """

    def __init__(self, protection: ClientNoise, seed: int, number: int, client: int) -> None:
        # torch fills a vector in a quarter of the time that numpy's generators take.  A step on a small batch is so
        # short that numpy's noise would take three times as long as the step itself.
        self._generator = torch.Generator()
        self._generator.manual_seed(int(stream(seed, "noise", number, client).integers(2**62)))
        self._deviation = protection.deviation

    def add(self, mean: torch.Tensor, records: int) -> None:
        """Add to a mean over ``records`` what their noised sum brings to it, in place."""
        drawn = torch.randn(mean.shape, generator=self._generator)
        mean.add_(drawn.to(mean.device), alpha=self._deviation / records)
