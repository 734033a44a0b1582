"""A data set of your own: a function that returns arrays, named by its import path."""

from __future__ import annotations

from typing import Any

import numpy as np

from pausefl.errors import InvalidValueError
from pausefl.system.import_path import imported, reason

_PARTS = ("train_images", "train_labels", "test_images", "test_labels")


def own_arrays(path: str) -> dict[str, Any]:
    """Call ``package.module:function`` and return its four arrays, checked: images as uint8, labels from 0.

    The function takes no arguments and returns (train_images, train_labels, test_images, test_labels).  Images are N x
    height x width or N x channels x height x width, or N x features, which count as images of one row.
    """
    function = imported(path, "data.name")
    try:
        made = function()
    except Exception as error:  # whatever a function of somebody's own may raise
        raise InvalidValueError(
            f"data.name is {path!r}, but cannot be loaded ({reason(error)}); it is called without arguments"
        ) from error
    if not isinstance(made, tuple) or len(made) != len(_PARTS):
        raise InvalidValueError(f"data.name is {path!r}, but must return a tuple of {', '.join(_PARTS)}; return four")
    arrays = dict(zip(_PARTS, map(np.asarray, made), strict=True))
    for kind in ("train", "test"):
        images, labels = (arrays[f"{kind}_{what}"] for what in ("images", "labels"))
        arrays[f"{kind}_images"] = _images(path, kind, images)
        arrays[f"{kind}_labels"] = _labels(path, kind, labels, len(images))
    shapes = {arrays[f"{kind}_images"].shape[1:] for kind in ("train", "test")}
    if len(shapes) != 1:
        raise InvalidValueError(f"{path} has images of shapes {sorted(shapes)}; training and test must agree")
    if arrays["test_labels"].max() > arrays["train_labels"].max():
        raise InvalidValueError(f"{path} has test labels that are not in training; number labels from 0 in both")
    return arrays


def _images(path: str, kind: str, images: Any) -> Any:
    if images.dtype != np.uint8 or images.ndim not in (2, 3, 4) or images.size == 0:
        raise InvalidValueError(
            f"{path} has {kind} images of type {images.dtype} and shape {images.shape}, but they must be uint8, N x "
            "height x width or N x channels x height x width; scale features to 0 … 255"
        )
    if images.ndim == 2:
        return images[:, None, None, :]
    return images[:, None] if images.ndim == 3 else images


def _labels(path: str, kind: str, labels: Any, count: int) -> Any:
    if labels.shape != (count,) or labels.dtype.kind not in "iu" or labels.min() < 0:
        raise InvalidValueError(
            f"{path} has {kind} labels of type {labels.dtype} and shape {labels.shape}, but they must be whole numbers "
            f"from 0, one for each of the {count} images"
        )
    return labels.astype(np.int64)
