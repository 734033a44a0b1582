"""The model keeps its types, whatever arithmetic a strategy averages in."""

from __future__ import annotations

from flwr.app import ArrayRecord

from pausefl.flower.update import record_of


def in_precision_of(model: ArrayRecord, arrays: ArrayRecord) -> ArrayRecord:
    """Return the arrays in the model's types: Flower's FedAdam makes float64 of float32, and apps do not."""
    if set(arrays) != set(model):
        return arrays
    return record_of({name: array.numpy().astype(model[name].dtype) for name, array in arrays.items()})
