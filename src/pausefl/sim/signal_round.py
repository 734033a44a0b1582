"""The signals of a round: how well the model does on the clients' own data, as they tell it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pausefl.privacy import SimulatedNoise
from pausefl.privacy.mechanisms.base import Unit
from pausefl.privacy.signals import Signals
from pausefl.rng import stream
from pausefl.sim.learner import Learner, Vector
from pausefl.types import Epsilon, FloatArray, IntArray


def told_signals(
    learner: Learner, model: Vector, rows: IntArray, epsilons: Sequence[Epsilon], number: int, *,
    names: Sequence[str], settings: Signals, unit: Unit, seed: int, minibatch: bool,
) -> dict[str, FloatArray]:  # fmt: skip
    """Return, for each signal by name, what these clients tell in round ``number``, each at its own epsilon.

    It is about the model that the round starts from, on all of a client's training data, or on one minibatch.  The
    noise is named by (seed, "signal", round, client).
    """
    scores = learner.client_scores(model, rows, settings.bound, number if minibatch else None)
    told = {name: np.empty(len(rows)) for name in names}
    for place, (client, epsilon) in enumerate(zip(rows.tolist(), epsilons, strict=True)):
        noise = SimulatedNoise(stream(seed, "signal", number, client))
        for name in names:
            value, records = float(getattr(scores, name)[place]), int(scores.records[place])
            told[name][place] = settings.release(name, value, epsilon, noise, unit=unit, records=records)
    return told
