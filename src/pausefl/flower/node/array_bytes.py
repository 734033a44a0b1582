"""What leaves the box: the bytes of a model's tensors one after the other, and nothing that must be understood."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pausefl.errors import InvalidValueError
from pausefl.privacy.mechanisms.tensor_rules import Tensor


def size_of(model: Mapping[str, Tensor]) -> int:
    """Return how many bytes there are."""
    return sum(tensor.nbytes for tensor in model.values())


def to_bytes(model: Mapping[str, Tensor], trained: Mapping[str, Tensor]) -> bytes:
    """Return what was trained, in the order and the types of the model; refuse other names or shapes."""
    if set(model) != set(trained):
        raise InvalidValueError(f"the app returned {len(trained)} tensors, but must return the model's {len(model)}")
    for name, old in model.items():
        if trained[name].shape != old.shape:
            raise InvalidValueError(f"tensor {name!r} is {trained[name].shape}, but must be {old.shape}")
    return b"".join(trained[name].astype(old.dtype, casting="same_kind").tobytes() for name, old in model.items())


def from_bytes(model: Mapping[str, Tensor], given: bytes | memoryview) -> dict[str, Tensor]:
    """Return the tensors; names, types and shapes are the model's, whoever wrote the bytes."""
    if len(given) != size_of(model):
        raise InvalidValueError(f"the app returned {len(given)} bytes, but the model has {size_of(model)}")
    tensors, place = {}, 0
    for name, old in model.items():
        tensors[name] = np.frombuffer(given, old.dtype, old.size, place).reshape(old.shape)
        place += old.nbytes
    return tensors
