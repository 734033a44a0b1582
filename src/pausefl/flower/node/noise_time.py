"""How long the noise of a release takes on this machine, tried when a node starts."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from pausefl.owner.model_update import released
from pausefl.owner.owner_file import Owner
from pausefl.privacy import Layers, SecureNoise

_TRIED = 1 << 15
"""Numbers that are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseTime:
    """About how many seconds the noise of ``each`` number takes, whatever it is, by the name of the ``mechanism``."""

    mechanism: str
    each: float

    @staticmethod
    def of(owner: Owner) -> NoiseTime:
        """Try it."""
        _noised(owner, 1)  # the first one loads and prepares what the others find
        start = time.monotonic()
        _noised(owner, _TRIED)
        return NoiseTime(mechanism=owner.mechanism.name, each=(time.monotonic() - start) / _TRIED)


def _noised(owner: Owner, size: int) -> None:
    model = {"one": np.zeros(size)}
    update = {"one": np.zeros((1, size))} if owner.rows else model
    epsilon, layers = max(1.0, owner.mechanism.least_epsilon), Layers.of(model)
    released(model, update, layers, owner.mechanism, epsilon, SecureNoise(), count=owner.examples, rows=owner.rows)
