"""Images as uint8 arrays, checked: digits ship with scikit-learn, the others live in the data directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pausefl.errors import DataMissingError, InvalidValueError
from pausefl.learn.own_data import own_arrays
from pausefl.rng import stream
from pausefl.system.state_file import read_state, write_state

Pixels = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]

NAMES = ("digits", "mnist", "fashion-mnist", "cifar10")
_HELD_OUT = {"mnist": 50_000, "fashion-mnist": 50_000, "cifar10": 40_000}


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Training and test images (N x channels x height x width, uint8) with labels 0 … classes-1."""

    name: str
    train_images: Pixels
    train_labels: Labels
    test_images: Pixels
    test_labels: Labels

    @property
    def classes(self) -> int:
        """How many labels there are."""
        return int(self.train_labels.max()) + 1


def default_data_dir() -> Path:
    """Return where data sets are kept: $PAUSEFL_DATA, or a folder in the user's cache."""
    if "PAUSEFL_DATA" in os.environ:
        return Path(os.environ["PAUSEFL_DATA"])
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pausefl"


def load_dataset(name: str, data_dir: Path | None = None) -> Dataset:
    """Return a data set; those that are not there yet say how to fetch them."""
    if ":" in name:
        return Dataset(name, **own_arrays(name))
    if name not in NAMES:
        raise InvalidValueError(f"data name is {name!r}, but must be one of {', '.join(NAMES)}; choose one of them")
    if name == "digits":
        return _digits()
    path = stored_path(name, data_dir or default_data_dir())
    if not path.exists():
        raise DataMissingError(f"data set {name!r} is not in {path.parent}; run: pausefl data fetch {name}")
    _, arrays = read_state(path, f"data set {name}")
    return Dataset(name, **{key: arrays[key] for key in ("train_images", "train_labels", "test_images", "test_labels")})


def store_dataset(data: Dataset, data_dir: Path) -> Path:
    """Write a data set into the data directory, checksummed."""
    data_dir.mkdir(parents=True, exist_ok=True)
    path = stored_path(data.name, data_dir)
    arrays = {
        "train_images": data.train_images,
        "train_labels": data.train_labels,
        "test_images": data.test_images,
        "test_labels": data.test_labels,
    }
    write_state(path, f"data set {data.name}", {}, arrays)
    return path


def stored_path(name: str, data_dir: Path) -> Path:
    """Return the file that holds a data set."""
    return data_dir / f"{name}.pausefl"


def training_pool(data: Dataset, size: int | None, seed: int) -> tuple[Pixels, Labels]:
    """Return the images that clients may hold: the paper's pool, or a random part of it.

    Of MNIST the first 50,000 and of CIFAR-10 the first 40,000 images; the remaining 10,000 are held out.
    """
    most = _HELD_OUT.get(data.name, len(data.train_labels))
    if size is None or size == most:
        return data.train_images[:most], data.train_labels[:most]
    if not 1 <= size <= most:
        raise InvalidValueError(f"train_size is {size}, but must be from 1 to {most}; leave it out to take all")
    chosen = stream(seed, "training pool").permutation(most)[:size]
    return data.train_images[chosen], data.train_labels[chosen]


def _digits() -> Dataset:
    from sklearn.datasets import load_digits

    bundle = load_digits()
    pixels = np.round(bundle.images * (255.0 / 16.0)).astype(np.uint8)[:, None]
    labels = bundle.target.astype(np.int64)
    # A fixed fifth for testing; the order of the bundle groups writers.
    order = np.random.Generator(np.random.PCG64(1797)).permutation(len(labels))
    train, test = order[360:], order[:360]
    return Dataset("digits", pixels[train], labels[train], pixels[test], labels[test])
