"""From a model to its update and back: what training changed, or what each record adds, bounded and noised."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import numpy as np

from pausefl.errors import InvalidValueError, require, shown
from pausefl.privacy import Layers, Mechanism, Noise
from pausefl.privacy.mechanisms.record_sum import RecordSum
from pausefl.privacy.mechanisms.tensor_rules import Tensor, checked_tensors, narrowed
from pausefl.types import Epsilon

_SINGLE, _LEAST_SINGLE, _MOST_SINGLE = 1.2e-7, 1e-30, float(np.finfo(np.float32).max)
"""A step of single floats beside a number, as a share of it and rounded up; below which number that is no share any
more; and where they end."""


def digest(arrays: Mapping[str, Tensor]) -> str:
    """Return a fingerprint of names, types, shapes and values."""
    total = blake2b(digest_size=20)
    for name, tensor in arrays.items():
        total.update(repr((name, tensor.dtype.str, tensor.shape)).encode())
        total.update(tensor.tobytes())
    return total.hexdigest()


_MOST_DIMENSIONS = 30
"""Of a tensor: rows of records need one more, and older versions of numpy have 32."""


def check_model(model: Mapping[str, Tensor], layers: Layers) -> None:
    """Refuse a model from which no update could be released, before it costs any budget."""
    require(
        bool(layers.released()),
        "model",
        "without tensors that leave",
        "of one tensor or more",
        "let at least one tensor leave",
    )
    for name, tensor in model.items():  # also those that stay: they are kept with the reply, and sent back
        require(
            tensor.ndim <= _MOST_DIMENSIONS, f"dimensions of {shown(name)}", tensor.ndim, f"at most {_MOST_DIMENSIONS}",
            "send less",
        )  # fmt: skip
        require(tensor.size > 0, f"size of {shown(name)}", tensor.size, "1 or more", "leave empty tensors out")
    for name in layers.released():
        if not np.isfinite(model[name]).all():
            raise InvalidValueError(
                f"{shown(name)} holds NaN or infinity, but must be finite; send a model with finite numbers"
            )
    for name in layers.local:
        # Others, records with fields say, do not come back from a kept reply to the byte.
        kind = model[name].dtype
        require(
            kind.kind in "biuf", f"tensor {shown(name)}", str(kind), "of numbers or truth values", "convert it first"
        )


def difference(
    model: Mapping[str, Tensor], trained: Mapping[str, Tensor], layers: Layers, *,
    each: bool = False, mean: bool = False,
) -> dict[str, Tensor]:  # fmt: skip
    """Return trained - model, of the tensors that leave; refuse whatever cannot be released.

    With ``each``, every number stands for itself: one that is not finite becomes 0, and no other changes with it.
    With ``mean``, it is a mean over records, of single or double floats: ``rounding_share`` covers nothing coarser.
    """
    _check_names(model, trained)
    if mean:
        checked_tensors({name: trained[name] for name in layers.released()}, layers)
    update = {}
    for name in layers.released():
        new, old = trained[name], model[name]
        same = np.issubdtype(new.dtype, np.floating) and new.shape == old.shape
        found = f"{new.dtype} {new.shape}"
        require(same, f"tensor {shown(name)}", found, f"of floats, {old.shape}", "return it with the model's shape")
        with np.errstate(over="ignore", invalid="ignore"):
            # NumPy makes a number of the difference of two arrays without dimensions.
            update[name] = np.asarray(new.astype(np.float64) - old.astype(np.float64))
        if each:
            update[name][~np.isfinite(update[name])] = 0.0
        finite = bool(np.isfinite(update[name]).all())
        require(finite, f"tensor {shown(name)}", "NaN or infinity", "finite", "lower the learning rate")
    return update


def contributions(
    model: Mapping[str, Tensor], trained: Mapping[str, Tensor], layers: Layers, most: int
) -> dict[str, Tensor]:  # fmt: skip
    """Return what each record adds to the tensors that leave, a row each; refuse whatever cannot be released.

    They get the model's precision: that of the app's rows would show in the last digits of what leaves.
    """
    _check_names(model, trained)
    names = layers.released()
    tensors = checked_tensors({name: trained[name] for name in names}, layers, rows=True)
    count = len(tensors[0])
    require(count <= most, "records", count, f"at most {most}, as replies.examples says", "give each record one row")
    return {name: rows.astype(model[name].dtype, copy=False) for name, rows in zip(names, tensors, strict=True)}


def row_of(model: Mapping[str, Tensor], added: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what one record adds to the model, in the model's types; refuse other names or shapes."""
    _check_names(model, added)
    for name, old in model.items():
        same = added[name].shape == old.shape
        require(same, f"tensor {shown(name)}", added[name].shape, f"{old.shape}", "return the model's shape")
    return {name: added[name].astype(old.dtype, copy=False) for name, old in model.items()}


def released(
    model: Mapping[str, Tensor], update: Mapping[str, Tensor] | RecordSum, layers: Layers, mechanism: Mechanism,
    epsilon: Epsilon, noise: Noise, *, clip: float | None = None, count: int = 1, rows: bool = False,
) -> dict[str, Tensor]:  # fmt: skip
    """Return model + noised update, clipped tighter if asked; tensors that stay local come back as they were sent.

    Where single records are protected, ``update`` is the sum of what they add, or has a row for each, and the sum of
    these is divided by ``count``; without ``rows`` the app has done that already.
    """
    if isinstance(update, RecordSum):
        like = {name: model[name] for name in layers.released()}
        made = mechanism.release_sum(update, like, epsilon, noise, layers=layers)
    elif rows:
        made = mechanism.release_records(dict(update), count, epsilon, noise, layers=layers, clip=clip)
    elif mechanism.guarantee.unit == "record":
        share = rounding_share(model, layers, mechanism.guarantee.bound, count)
        mean = {name: np.asarray(tensor * share) for name, tensor in update.items()}
        made = mechanism.release_mean(mean, count, epsilon, noise, layers=layers, clip=clip)
    else:
        made = mechanism.release(dict(update), epsilon, noise, layers=layers, clip=clip)
    noised = made.update
    if not isinstance(noised, dict):
        raise InvalidValueError(
            f"release is a {type(noised).__name__}, but must be a dict by name; return one from the mechanism's release"
        )
    sums = {name: np.asarray(model[name].astype(np.float64) + tensor) for name, tensor in noised.items()}
    return {
        name: np.asarray(narrowed(sums[name], tensor.dtype)) if name in sums else tensor
        for name, tensor in model.items()
    }


def rounding_share(model: Mapping[str, Tensor], layers: Layers, bound: float, count: int) -> float:
    """Return by what a mean over records is to be multiplied that an app has added to the model, in single floats.

    The larger the numbers of a model, the coarser the steps on which the sum is rounded, and the server chooses them.
    One record may then move a number by a whole step more than its clip allows, however small its share of the mean is.
    Multiplied by this, which follows from public numbers alone, it moves the mean by no more than the clip does.

    The model's own type is of no account: the server chooses it, and an app may load doubles as single floats.

    Law: a number is rounded by half a step at most, so two sums of a model w and of means no longer than ``bound`` are
    rounded by no more than a step of w and one of ``bound``, as lengths.  Three more of ``bound`` are for the mean on
    its way, e.g. when it becomes single floats and is multiplied by a learning rate.
    """
    with np.errstate(all="ignore"):
        numbers = [np.maximum(np.abs(model[name].astype(np.float64)), _LEAST_SINGLE) for name in layers.released()]
        reach = float(np.sqrt(sum(float(np.square(part).sum()) for part in numbers))) + 4.0 * bound
    return 2.0 * bound / (2.0 * bound + count * _SINGLE * reach) if reach < _MOST_SINGLE else 0.0


def _check_names(model: Mapping[str, Tensor], trained: Mapping[str, Tensor]) -> None:
    strange = sorted(set(trained) ^ set(model))
    require(not strange, "tensors", strange, "those of the model", "return every tensor, and no other")
