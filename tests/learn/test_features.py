"""Features are functions of one image alone, and a run gets the same numbers whether or not they were kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pausefl.errors import InvalidValueError
from pausefl.learn import dataset_features as module
from pausefl.learn.client_data import DataSpec, load_client_data
from pausefl.learn.dataset_features import dataset_features
from pausefl.learn.datasets import Dataset, load_dataset, store_dataset
from pausefl.learn.features import FEATURES, features_of, hog


def some_images(count: int, channels: int = 1, side: int = 28, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, channels, side, side), dtype=np.uint8)


@pytest.mark.parametrize("name", FEATURES)
@given(place=st.integers(0, 1100), channels=st.sampled_from([1, 3]), seed=st.integers(0, 99))
def test_an_image_counts_by_itself_alone(name: str, place: int, channels: int, seed: int) -> None:
    """No statistic of the others is in its row, wherever it stands: none was paid for."""
    images = some_images(1101 if place > 499 else place + 2, channels, 12, seed)
    place = min(place, len(images) - 1)
    alone = FEATURES[name](images[place : place + 1])
    assert np.array_equal(FEATURES[name](images)[place], alone[0])


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize(("channels", "side"), [(1, 8), (1, 28), (3, 32)])
def test_rows_are_standard_and_finite(name: str, channels: int, side: int) -> None:
    rows = FEATURES[name](some_images(20, channels, side))
    assert rows.dtype == np.float32 and np.isfinite(rows).all()
    assert np.allclose(rows.mean(axis=1), 0.0, atol=1e-5)
    assert np.allclose(rows.std(axis=1), 1.0, atol=1e-2)
    flat = FEATURES[name](np.full((1, channels, side, side), 77, dtype=np.uint8))
    assert np.abs(flat).max() < 1e-2  # without contrast there is nothing to tell


def test_hog_tells_directions_apart() -> None:
    """A ramp that rises to the right fills the first direction of all cells, one that falls the fifth."""
    ramp = np.tile(np.arange(28, dtype=np.uint8) * 9, (28, 1))
    images = np.stack([ramp, ramp[:, ::-1], ramp.T, ramp[:, ::-1].T])[:, None]
    strongest = hog(images).reshape(4, 8, 16).mean(axis=2).argmax(axis=1)
    assert strongest.tolist() == [0, 4, 2, 6]


def test_hog_has_as_many_cells_as_asked_for() -> None:
    for channels, numbers in ((1, 8 * 25), (3, 8 * 25 + 3 * 25)):
        assert hog(some_images(3, channels), 5).shape == (3, numbers)
    assert np.array_equal(hog(some_images(3), 4), hog(some_images(3)))
    with pytest.raises(InvalidValueError, match="cells is 0"):
        hog(some_images(3), 0)


def test_hog_does_not_depend_on_brightness() -> None:
    image = np.random.default_rng(1).random((1, 1, 28, 28)) * 100.0
    assert np.allclose(hog(image), hog(2.0 * image + 30.0), atol=1e-2)


def test_a_stored_data_set_keeps_its_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = load_dataset("digits")
    data = Dataset("mnist", data.train_images, data.train_labels, data.test_images, data.test_labels)
    store_dataset(data, tmp_path)
    first = dataset_features(data, "hog", tmp_path)
    [kept] = tmp_path.glob("mnist.hog-*.pausefl")
    monkeypatch.setattr(module, "features_of", lambda _: pytest.fail)
    again = dataset_features(data, "hog", tmp_path)
    assert np.array_equal(first.train, again.train) and np.array_equal(first.test, again.test)
    monkeypatch.undo()
    # Of other images, or damaged: worked out anew.
    other = Dataset("mnist", data.train_images[::-1].copy(), data.train_labels, data.test_images, data.test_labels)
    assert np.array_equal(dataset_features(other, "hog", tmp_path).train, first.train[::-1])
    kept.write_bytes(kept.read_bytes()[:-7])
    assert np.array_equal(dataset_features(data, "hog", tmp_path).train, first.train)


def test_a_run_keeps_features_in_the_folder_of_its_data(tmp_path: Path) -> None:
    images = some_images(60)
    store_dataset(Dataset("mnist", images[:40], np.arange(40) % 10, images[40:], np.arange(20) % 10), tmp_path)
    load_client_data(DataSpec("mnist", features="pool"), 2, seed=0, data_dir=tmp_path)
    assert len(list(tmp_path.glob("mnist.pool-*.pausefl"))) == 1


def test_a_folder_that_cannot_be_written_to_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = load_dataset("digits")
    data = Dataset("mnist", data.train_images, data.train_labels, data.test_images, data.test_labels)
    store_dataset(data, tmp_path)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module, "write_state", refuse)
    assert len(dataset_features(data, "pool", tmp_path).train) == len(data.train_labels)
    assert not list(tmp_path.glob("mnist.pool-*"))


def of_wrong_shape(images: np.ndarray) -> np.ndarray:
    return np.zeros((len(images) + 1, 3))


def that_fails(images: np.ndarray) -> np.ndarray:
    raise KeyError(images.shape[1])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("of_wrong_shape", r"returns float64 of shape \(5, 3\) for 4 images"),
        ("that_fails", r"KeyError: 1, at .*test_fea"),
    ],
)
def test_features_of_ones_own_are_checked(name: str, said: str) -> None:
    with pytest.raises(InvalidValueError, match=said):
        features_of(f"{__name__}:{name}")(some_images(4))


def test_images_of_another_form_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="N x channels x height x width"):
        hog(np.zeros((28, 28)))
