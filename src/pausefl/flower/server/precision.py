"""The model keeps its types, whatever arithmetic a strategy averages in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import ArrayRecord

from pausefl.flower.arrays import record_of


def in_precision_of(model: ArrayRecord, arrays: ArrayRecord) -> ArrayRecord:
    """Return the arrays in the model's types: Flower's FedAdam makes float64 of float32, and apps do not."""
    if set(arrays) != set(model):
        return arrays
    return record_of({name: _like(arrays[name].numpy(), array.numpy()) for name, array in model.items()})


def _like(values: npt.NDArray[Any], model: npt.NDArray[Any]) -> npt.NDArray[Any]:
    kind = model.dtype
    if values.dtype == kind:
        return values
    if kind.kind not in "iub" or values.shape != model.shape:
        with np.errstate(over="ignore"):
            return values.astype(kind)
    # A mean of counters, say: the nearest whole number there is, and the model's own where there is none.
    low, high = (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    wide = np.rint(np.asarray(values, dtype=np.float64))
    inside = (wide > low) & (wide < high)  # float(high) may lie beyond high, but nothing below it does
    whole = np.where(inside, wide, 0.0).astype(kind)
    whole = np.where(wide <= low, np.array(low, dtype=kind), whole)
    whole = np.where(wide >= high, np.array(high, dtype=kind), whole)
    return np.where(np.isnan(wide), model, whole)
