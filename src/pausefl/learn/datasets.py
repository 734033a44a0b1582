"""Data sets as arrays, checked: digits ship with scikit-learn, others lie in the data directory, or are your own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pausefl.errors import DataMissingError, InvalidValueError, did_you_mean
from pausefl.rng import stream
from pausefl.system.cached_text import user_cache
from pausefl.system.import_path import imported, reason
from pausefl.system.state_file import read_state, write_state

Pixels = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]

DATASETS = ("digits", "mnist", "fashion-mnist", "cifar10", "chem97", "chem97-schools")
"""The data sets that have a name; the first needs no fetching."""

_POOL = {"mnist": 50_000, "fashion-mnist": 50_000, "cifar10": 40_000}
_PARTS = ("train_images", "train_labels", "test_images", "test_labels")


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Training and test images (N x channels x height x width) with labels 0 … classes-1.

    Images are uint8; floats are not images but rows of numbers (N x 1 x 1 x columns) that models see as they are.
    ``owners`` says which natural client, 0 … clients-1, holds each training record; most data sets have none.
    """

    name: str
    train_images: Pixels | Rows
    train_labels: Labels
    test_images: Pixels | Rows
    test_labels: Labels
    owners: Labels | None = None


def default_data_dir() -> Path:
    """Return where data sets are kept: $PAUSEFL_DATA, or a folder in the user's cache."""
    if "PAUSEFL_DATA" in os.environ:
        return Path(os.environ["PAUSEFL_DATA"])
    return user_cache()


def load_dataset(name: str, data_dir: Path | None = None) -> Dataset:
    """Return a data set; those that are not there yet say how to fetch them."""
    if ":" in name:
        return Dataset(name, **_own_arrays(name))
    if name not in DATASETS:
        hint = did_you_mean(name, DATASETS, "use one of these names")
        raise InvalidValueError(f"data name is {name!r}, but must be one of {', '.join(DATASETS)}; {hint}")
    if name == "digits":
        return _digits()
    path = stored_path(name, data_dir or default_data_dir())
    if not path.exists():
        raise DataMissingError(f"data set {name!r} is not in {path.parent}; run: pausefl data fetch {name}")
    _, arrays = read_state(path, f"data set {name}")
    return Dataset(name, **{part: arrays[part] for part in _PARTS}, owners=arrays.get("owners"))


def store_dataset(data: Dataset, data_dir: Path) -> Path:
    """Write a data set into the data directory, checksummed."""
    data_dir.mkdir(parents=True, exist_ok=True)
    path = stored_path(data.name, data_dir)
    arrays = {part: getattr(data, part) for part in _PARTS}
    write_state(path, f"data set {data.name}", {}, arrays if data.owners is None else arrays | {"owners": data.owners})
    return path


def stored_path(name: str, data_dir: Path) -> Path:
    """Return the file that holds a data set."""
    return data_dir / f"{name}.pausefl"


def training_pool(data: Dataset, size: int | None, seed: int) -> slice | Labels:
    """Return the numbers of the images that clients may hold: the paper's pool, or a random part of it.

    Of MNIST the first 50,000 and of CIFAR-10 the first 40,000 images; the remaining 10,000 are held out.
    """
    most = _POOL.get(data.name, len(data.train_labels))
    if size is None or size == most:
        return slice(most)
    if not 1 <= size <= most:
        raise InvalidValueError(f"train_size is {size}, but must be from 1 to {most}; leave it out to take all")
    return stream(seed, "training pool").permutation(most)[:size]


def _digits() -> Dataset:
    from sklearn.datasets import load_digits

    bundle = load_digits()
    pixels = np.round(bundle.images * (255.0 / 16.0)).astype(np.uint8)[:, None]
    labels = bundle.target.astype(np.int64)
    # A fixed fifth for testing; the order of the bundle groups writers.
    order = np.random.Generator(np.random.PCG64(1797)).permutation(len(labels))
    train, test = order[360:], order[:360]
    return Dataset("digits", pixels[train], labels[train], pixels[test], labels[test])


def _own_arrays(path: str) -> dict[str, Any]:
    """Call ``package.module:function`` and return its arrays, checked: images as uint8, labels and owners from 0.

    The function takes no arguments and returns (train_images, train_labels, test_images, test_labels), and if it knows
    them the owners of the training images.  Images are N x height x width or N x channels x height x width, or N x
    features, which count as images of one row.
    """
    function = imported(path, "data.name")
    try:
        made = function()
    except Exception as error:  # whatever a function of somebody's own may raise
        raise InvalidValueError(
            f"data.name is {path!r}, but cannot be loaded ({reason(error)}); it must work without arguments"
        ) from error
    if not isinstance(made, tuple) or len(made) not in (len(_PARTS), len(_PARTS) + 1):
        raise InvalidValueError(
            f"data.name is {path!r}, but must return a tuple of {', '.join(_PARTS)}; return these four, or add the "
            "owners of the training images"
        )
    arrays = dict(zip((*_PARTS, "owners"), map(np.asarray, made), strict=False))
    for kind in ("train", "test"):
        images, labels = (arrays[f"{kind}_{what}"] for what in ("images", "labels"))
        arrays[f"{kind}_images"] = _images(path, kind, images)
        arrays[f"{kind}_labels"] = _labels(path, kind, labels, len(images))
    shapes = {arrays[f"{kind}_images"].shape[1:] for kind in ("train", "test")}
    if len(shapes) != 1:
        raise InvalidValueError(
            f"{path} has images of shapes {sorted(shapes)}; give training and test images the same shape"
        )
    if arrays["test_labels"].max() > arrays["train_labels"].max():
        raise InvalidValueError(f"{path} has test labels that are not in training; number labels from 0 in both")
    if "owners" in arrays:
        arrays["owners"] = _owners(path, arrays["owners"], len(arrays["train_labels"]))
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


def _owners(path: str, owners: Any, count: int) -> Any:
    """Return owners as numbers from 0, in the order of their own numbers or names."""
    if owners.shape != (count,) or owners.dtype.kind not in "iuU":
        raise InvalidValueError(
            f"{path} has owners of type {owners.dtype} and shape {owners.shape}, but they must be whole numbers or "
            f"texts, one for each of the {count} training images"
        )
    return np.unique(owners, return_inverse=True)[1].astype(np.int64)
