"""Noise on the clipped sums of a round's batches: a generator per client, consumed step after step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pausefl.learn.torch_import import torch
from pausefl.privacy import SimulatedNoise
from pausefl.rng import stream


class ClientNoise(NamedTuple):
    """How one client trains where single records are protected: their largest norm, and the noise on their sum."""

    clip: float
    deviation: float


class NoisyMean:
    """Turns one client's clipped sums into noised means, for one round.

    Law: the noise is a function of (seed, round, client, step).
    """

    def __init__(self, protection: ClientNoise, seed: int, number: int, client: int) -> None:
        self._noise = SimulatedNoise(stream(seed, "noise", number, client))
        # Neighbours differ in one replaced record: one contribution goes and another comes.
        self._sensitivity = 2.0 * protection.clip
        self._multiplier = protection.deviation / self._sensitivity

    def apply(self, clipped_sum: torch.Tensor, records: int) -> None:
        """Add noise to a sum and divide it by the number of records in the batch, in place."""
        vector = clipped_sum.cpu().numpy().astype(np.float64)
        self._noise.gaussian(vector, self._sensitivity, self._multiplier, coordinates=len(vector))
        vector /= records
        clipped_sum.copy_(torch.from_numpy(vector))
