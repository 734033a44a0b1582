"""Which tensors may leave the client, in what shape: a tensor without a rule is refused, not passed through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pausefl.errors import InvalidValueError, require, shown
from pausefl.types import FloatArray

Tensor: TypeAlias = npt.NDArray[Any]
Update: TypeAlias = Mapping[str, Tensor] | Tensor
BatchNorm: TypeAlias = Literal["keep-local", "noise", "refuse"]

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


@dataclass(frozen=True, slots=True)
class Layers:
    """The tensors that an update must have, and which of them never leave.

    Args:
        shapes: The shape of each tensor, by name.
        local: The names of tensors that never leave.

    Names and shapes come from the model, which the server knows, so they reveal nothing about the data.

    >>> model = {"fc.weight": np.zeros((2, 3)), "bn.weight": np.ones(2), "bn.running_mean": np.zeros(2)}
    >>> sorted(Layers.of(model, batch_norm="keep-local").local)
    ['bn.running_mean', 'bn.weight']
    >>> Layers.of(model)
    Traceback (most recent call last):
    pausefl.errors.InvalidValueError: batch_norm is 'refuse', but the model has 'bn.running_mean'; set it to 'keep-local' or 'noise'
    """  # noqa: E501

    shapes: Mapping[str, tuple[int, ...]]
    local: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        unknown = sorted(self.local - set(self.shapes))
        require(not unknown, "local", unknown, "names of tensors of the model", "spell them as the model does")

    @classmethod
    def of(cls, model: Mapping[str, Tensor], *, batch_norm: BatchNorm = "refuse") -> Layers:
        """Take names and shapes from a model, and the rule for its batch norms.

        A batch norm is recognised by its running statistics (PyTorch's names); ``keep-local`` keeps these and the
        layer's own weight and bias on the client.  ``noise`` treats them like any other tensor, except the integer
        counter, which stays on the client.  A batch norm that tracks no statistics looks like any other layer and is
        noised.  For the names of other frameworks, build ``Layers`` with ``local`` yourself.
        """
        policies = ("keep-local", "noise", "refuse")
        require(batch_norm in policies, "batch_norm", batch_norm, f"one of {policies}", "'refuse' is the default")
        statistics = [name for name in model if name.rpartition(".")[2] in _STATISTICS]
        if statistics and batch_norm == "refuse":
            raise InvalidValueError(
                f"batch_norm is 'refuse', but the model has {shown(statistics[0])}; set it to 'keep-local' or 'noise'"
            )
        if batch_norm == "keep-local":
            prefixes = {name.rpartition(".")[0] for name in statistics}
            local = {name for name in model if name.rpartition(".")[0] in prefixes}
        else:
            local = {name for name in statistics if name.rpartition(".")[2] == "num_batches_tracked"}
        for name in model:
            if name not in local:
                _plain(name, model[name])
        return cls({name: tuple(tensor.shape) for name, tensor in model.items()}, frozenset(local))

    def released(self) -> list[str]:
        """Return the names of the tensors that leave, in the model's order."""
        return [name for name in self.shapes if name not in self.local]


def pack(update: Update, layers: Layers | None) -> FloatArray:
    """Return a fresh float64 vector of everything that is to leave, or refuse."""
    tensors = checked_tensors(update, layers)
    vector = np.concatenate([tensor.ravel() for tensor in tensors], dtype=np.float64)
    if not np.isfinite(vector).all():
        raise InvalidValueError(
            "update holds NaN or infinity, but must be finite; release nothing, and lower the learning rate"
        )
    return vector


def checked_tensors(update: Update, layers: Layers | None, *, rows: bool = False) -> list[Tensor]:
    """Return the tensors that leave, in the model's order, or refuse; with ``rows`` each has a row per record."""
    if not isinstance(update, Mapping):
        require(layers is None, "layers", layers, "left out for a flat array", "pass the update as a mapping by name")
        tensor = _plain("update", update)
        if rows:
            require(
                tensor.ndim == 2, "records", tensor.shape, "a row per record", "pass such a table, or a mapping by name"
            )
        else:
            require(tensor.ndim == 1, "update", tensor.shape, "flat", "flatten it, or pass a mapping by name")
        return [tensor]
    if layers is None:
        raise InvalidValueError("layers is None, but a mapping needs rules by name; pass layers=Layers.of(model)")
    stray = [name for name in update if name not in layers.shapes]
    require(not stray, "update", stray, "of the model's tensors only", "give every tensor a rule in layers")
    names = layers.released()
    missing = [name for name in names if name not in update]
    require(
        not missing,
        "update",
        missing,
        "complete",
        "add the missing tensors, because their absence tells about the data",
    )
    require(bool(names), "update", "empty", "of one tensor or more", "let at least one tensor leave")
    tensors = {name: _plain(name, update[name]) for name in names}
    count = len(tensors[names[0]]) if rows and tensors[names[0]].ndim else 0
    for name, tensor in tensors.items():
        shape, wanted = tensor.shape, (count, *layers.shapes[name]) if rows else layers.shapes[name]
        require(shape == wanted, f"shape of {shown(name)}", shape, f"{wanted}", "pass tensors with the model's shapes")
    return list(tensors.values())


def unpack(vector: FloatArray, update: Update, layers: Layers | None) -> dict[str, Tensor] | Tensor:
    """Return the vector in the form and precision of the update it came from, without what stays local.

    Narrowing it costs no privacy: of what is randomised already any function may be released.
    """
    if not isinstance(update, Mapping) or layers is None:
        return narrowed(vector, np.asarray(update).dtype)
    parts, start = {}, 0
    for name in layers.released():
        tensor = np.asarray(update[name])
        parts[name] = narrowed(vector[start : start + tensor.size].reshape(tensor.shape), tensor.dtype)
        start += tensor.size
    return parts


def narrowed(values: FloatArray, kind: np.dtype[Any]) -> Tensor:
    """Return values in a precision that may be narrower; what it cannot hold becomes the largest it can."""
    most = float(np.finfo(kind).max)
    return np.clip(values, -most, most).astype(kind) if kind != values.dtype else values


def _plain(name: str, tensor: object) -> Tensor:
    """Return the tensor without the methods of a subclass, whose copies would not get the noise, or refuse it."""
    if not isinstance(tensor, np.ndarray) or isinstance(tensor, np.ma.MaskedArray):
        raise InvalidValueError(
            f"{shown(name)} is a {type(tensor).__name__}, but must be a plain numpy array; convert it first"
        )
    tensor = np.asarray(tensor)
    if tensor.dtype != np.float32 and tensor.dtype != np.float64:  # asked here: to name a type takes long
        require(False, f"type of {shown(name)}", str(tensor.dtype), "float32 or float64", "keep other tensors local")
    require(tensor.size > 0, f"size of {shown(name)}", tensor.size, "1 or more", "leave empty tensors out of the model")
    return tensor
