"""The features of a whole data set, worked out once: those of a fetched one are kept beside it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np

from pausefl.errors import InvalidValueError, StateFileError
from pausefl.learn.datasets import Dataset, default_data_dir, stored_path
from pausefl.learn.features import FEATURES, Matrix, features_of
from pausefl.system.state_file import read_state, write_state

_VERSION = 1
"""Raise it whenever a function in ``FEATURES`` gives other numbers: what was kept before is then left alone."""


@dataclass(frozen=True, slots=True, eq=False)
class FeatureRows:
    """A row of numbers for each training and each test image."""

    train: Matrix
    test: Matrix


def dataset_features(data: Dataset, name: str, data_dir: Path | None = None) -> FeatureRows:
    """Return the features of a data set; functions of the user's own may change, so theirs are not kept."""
    if name in FEATURES and data.train_images.dtype != np.uint8:
        raise InvalidValueError(
            f"learning.features is {name!r}, but {data.name} holds rows of numbers and no images; set it to 'none'"
        )
    compute = features_of(name)
    place = stored_path(data.name, data_dir or default_data_dir())
    if name not in FEATURES or not place.exists():
        return FeatureRows(compute(data.train_images), compute(data.test_images))
    kept = place.with_name(f"{data.name}.{name}-{_VERSION}.pausefl")
    sums = [crc32(np.ascontiguousarray(images).view(np.uint8).data) for images in (data.train_images, data.test_images)]
    kind = f"features of {data.name}"
    try:
        header, arrays = read_state(kept, kind)
        if header["images"] == sums:
            return FeatureRows(arrays["train"], arrays["test"])
    except StateFileError:
        pass  # not there, or damaged: worked out anew
    rows = FeatureRows(compute(data.train_images), compute(data.test_images))
    with suppress(OSError):  # a folder that cannot be written to costs time, and nothing else
        write_state(kept, kind, {"images": sums}, {"train": rows.train, "test": rows.test})
    return rows
