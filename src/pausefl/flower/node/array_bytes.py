"""What leaves the box: the bytes of a model's tensors one after the other, and nothing that must be parsed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pausefl.errors import InvalidValueError
from pausefl.privacy.mechanisms.tensor_rules import Layers, Tensor, checked_tensors


def size_of(model: Mapping[str, Tensor]) -> int:
    """Return how many bytes there are."""
    return sum(tensor.nbytes for tensor in model.values())


def to_bytes(
    model: Mapping[str, Tensor], trained: Mapping[str, Tensor], *, records: bool = False, mean: bool = False
) -> bytes:
    """Return what was trained, in the order and the types of the model; refuse other names or shapes.

    With ``records`` every tensor has a row for each record, and all have as many.  With ``mean`` it holds a mean over
    records, and floats coarser than single ones are refused here: outside, all are of the model's type.
    """
    if set(model) != set(trained):
        raise InvalidValueError(f"the app returned {len(trained)} tensors, but must return the model's {len(model)}")
    count = (trained[next(iter(model))].shape[:1] or (0,)) if records else ()
    for name, old in model.items():
        wanted = (*count, *old.shape)
        if trained[name].shape != wanted:
            raise InvalidValueError(f"tensor {name!r} is {trained[name].shape}, but must be {wanted}")
    if mean:
        checked_tensors(trained, Layers.of(model))
    with np.errstate(all="ignore"):  # whatever the app has set: one record that overflows must not fail all the others
        return b"".join(trained[name].astype(old.dtype, casting="same_kind").tobytes() for name, old in model.items())


def from_bytes(
    model: Mapping[str, Tensor], given: bytes | memoryview, *, records: bool = False
) -> dict[str, Tensor]:  # fmt: skip
    """Return the tensors; names, types and shapes are the model's, whoever wrote the bytes."""
    size = size_of(model)
    count = len(given) // size if records else 1
    if len(given) != count * size:
        raise InvalidValueError(f"the app returned {len(given)} bytes, but the model has {size}")
    tensors, place, rows = {}, 0, (count,) if records else ()
    for name, old in model.items():
        tensors[name] = np.frombuffer(given, old.dtype, count * old.size, place).reshape((*rows, *old.shape))
        place += count * old.nbytes
    return tensors
