"""Flower's arrays as numpy tensors by name, and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict

from pausefl.errors import require
from pausefl.privacy.mechanisms.layers import Tensor


def arrays_in(content: RecordDict) -> tuple[str, dict[str, Tensor]]:
    """Return key and tensors of the one array record there must be."""
    records = content.array_records
    require(len(records) == 1, "array records", len(records), "exactly 1", "send the model, and nothing else")
    key, record = next(iter(records.items()))
    return key, {name: array.numpy() for name, array in record.items()}


def record_of(arrays: Mapping[str, Tensor]) -> ArrayRecord:
    """Return the tensors as Flower sends them."""
    return ArrayRecord({name: Array(np.asarray(tensor, order="C")) for name, tensor in arrays.items()})
