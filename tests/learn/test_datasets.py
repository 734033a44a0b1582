from pathlib import Path

import numpy as np
import pytest

from pausefl.errors import DataMissingError, InvalidValueError, StateFileError
from pausefl.learn.datasets import Dataset, load_dataset, store_dataset, stored_path, training_pool


def tiny(name: str) -> Dataset:
    rng = np.random.default_rng(0)
    return Dataset(
        name,
        rng.integers(0, 256, (12, 1, 28, 28), dtype=np.uint8),
        rng.integers(0, 10, 12),
        rng.integers(0, 256, (4, 1, 28, 28), dtype=np.uint8),
        rng.integers(0, 10, 4),
    )


def test_digits_ship_with_the_package() -> None:
    data = load_dataset("digits")
    assert data.train_images.shape == (1437, 1, 8, 8)
    assert data.test_images.shape == (360, 1, 8, 8)
    assert data.train_images.dtype == np.uint8
    assert set(np.unique(data.train_labels)) == set(range(10))
    assert set(np.unique(data.test_labels)) == set(range(10))


def test_what_is_missing_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match="run: pausefl data fetch mnist"):
        load_dataset("mnist", tmp_path)
    with pytest.raises(InvalidValueError, match="must be one of digits"):
        load_dataset("minst", tmp_path)


def test_stored_data_comes_back_and_damage_shows(tmp_path: Path) -> None:
    data = tiny("mnist")
    store_dataset(data, tmp_path)
    again = load_dataset("mnist", tmp_path)
    assert (again.train_images == data.train_images).all()
    assert (again.test_labels == data.test_labels).all()
    path = stored_path("mnist", tmp_path)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(StateFileError, match="checksum"):
        load_dataset("mnist", tmp_path)


def test_training_pool() -> None:
    data = load_dataset("digits")
    chosen = training_pool(data, 100, seed=3)
    assert len(data.train_labels[chosen]) == 100
    assert (training_pool(data, 100, seed=3) == chosen).all()
    assert not (training_pool(data, 100, seed=4) == chosen).all()
    assert len(data.train_labels[training_pool(data, None, seed=0)]) == len(data.train_labels)
    with pytest.raises(InvalidValueError, match="train_size is 9999"):
        training_pool(data, 9999, seed=0)
