"""A model as one flat vector and back, and a part of the way from one model to another."""

from __future__ import annotations

import numpy as np
from flwr.app import ArrayRecord

from pausefl.flower.protocol import record_of, views_of
from pausefl.flower.server.inner_strategy import in_types_of
from pausefl.types import FloatArray


def flat_model(record: ArrayRecord) -> FloatArray:
    """Return all tensors as one vector."""
    return np.concatenate([np.asarray(tensor, dtype=np.float64).ravel() for tensor in views_of(record).values()])


def shaped(vector: FloatArray, model: ArrayRecord) -> ArrayRecord:
    """Return a vector as tensors of the model's names, shapes and types."""
    ends = np.cumsum([tensor.size for tensor in views_of(model).values()])
    parts = zip(views_of(model).items(), np.split(vector, ends[:-1]), strict=True)
    return in_types_of(model, record_of({name: part.reshape(tensor.shape) for (name, tensor), part in parts}))


def stepped(model: ArrayRecord, goal: ArrayRecord, step: float) -> ArrayRecord:
    """Return the model after a step towards the goal: 1 is all the way, to the bit.

    Only floats take steps; counters and truth values are the goal's.  A goal with other tensors is returned as it is.
    """
    if step == 1.0 or set(goal) != set(model):
        return goal
    moved = views_of(goal)
    for name, old in views_of(model).items():
        if old.dtype.kind == "f":
            wide = old.astype(np.float64)
            moved[name] = np.asarray(wide + step * (moved[name].astype(np.float64) - wide)).astype(old.dtype)
    return record_of(moved)
