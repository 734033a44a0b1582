"""How long it takes on this machine to make a release of what an app returned, tried when a node starts."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from flwr.app import RecordDict

from pausefl.flower.protocol import arrays_in, record_of
from pausefl.owner.model_update import contributions, difference, released
from pausefl.owner.owner_file import Owner
from pausefl.privacy import Layers, SecureNoise
from pausefl.privacy.mechanisms.tensor_rules import Tensor
from pausefl.system.state_file import state_parts

_TRIED, _TENSORS, _DIMENSIONS = 1 << 15, 1 << 10, 31
"""Numbers that are tried in one tensor; tensors that are tried with one number each; and how many dimensions they have:
each takes time, and a server may send as many.  A table of rows has one more, and every numpy allows 32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseTime:
    """About how many seconds each number takes, whatever it is, and each tensor besides, by the ``mechanism``'s name.

    Tensors are read, checked and written one by one: a hundred thousand numbers in as many tensors take a hundred times
    as long as in one.
    """

    mechanism: str
    each: float
    tensor: float = 0.0

    @staticmethod
    def of(owner: Owner) -> NoiseTime:
        """Try it, on one core: an app can keep all others busy."""
        cores = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, {min(cores)})
            _made(owner, 1, 1)  # the first one loads and prepares what the others find
            each, tensor = _seconds(owner, 1, _TRIED) / _TRIED, _seconds(owner, _TENSORS, 1) / _TENSORS
            return NoiseTime(mechanism=owner.mechanism.name, each=each, tensor=tensor)
        finally:
            os.sched_setaffinity(0, cores)

    def seconds(self, model: Mapping[str, Tensor]) -> float:
        """Return how long a release of this model takes; a letter of a name, which is kept too, counts as a number."""
        numbers = sum(tensor.size + len(name) for name, tensor in model.items())
        return self.each * numbers + self.tensor * len(model)


def _seconds(owner: Owner, tensors: int, size: int) -> float:
    start = time.monotonic()
    _made(owner, tensors, size)
    return time.monotonic() - start


def _made(owner: Owner, tensors: int, size: int) -> None:
    """Do what comes after an app: read what it returned, noise it, keep it and pack it for the server."""
    model = {str(number): np.zeros((size, *[1] * (_DIMENSIONS - 1)), dtype=np.float32) for number in range(tensors)}
    epsilon, layers = max(1.0, owner.mechanism.least_epsilon), Layers.of(model)
    returned = {name: tensor[np.newaxis] for name, tensor in model.items()} if owner.rows else model
    _, trained = arrays_in(RecordDict({"arrays": record_of(returned)}))
    update = contributions(model, trained, layers, 1) if owner.rows else difference(model, trained, layers)
    reply = released(
        model, update, layers, owner.mechanism, epsilon, SecureNoise(), count=owner.examples, rows=owner.rows
    )
    state_parts("reply", {}, reply)
    record_of(reply)
