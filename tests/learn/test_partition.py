import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pausefl.errors import InvalidValueError
from pausefl.learn.partition import by_labels, by_sizes, iid, natural


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.integers(30, 200), st.integers(2, 10), st.integers(0, 99), st.sampled_from("isl"))
def test_parts_are_disjoint_cover_everything_and_are_never_empty(
    clients: int, images: int, classes: int, seed: int, kind: str
) -> None:
    labels = np.random.default_rng(seed).integers(0, classes, images)
    labels[:classes] = np.arange(classes)

    def deal() -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        if kind == "i":
            return iid(labels, clients, rng)
        return by_sizes(labels, clients, rng, 3.0, 0.25) if kind == "s" else by_labels(labels, clients, rng, 0.3)

    parts = deal()
    assert len(parts) == clients
    assert min(len(part) for part in parts) >= 1
    assert sorted(np.concatenate(parts).tolist()) == list(range(images))
    assert all((a == b).all() for a, b in zip(parts, deal(), strict=True))


def test_sizes_vary_and_a_quarter_is_one_label() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 30_000)
    parts = by_sizes(labels, 30, rng, 3.0, 0.25)
    sizes = np.array([len(part) for part in parts])
    assert sizes.max() > 2 * sizes.min()
    top = [np.bincount(labels[part], minlength=10).max() / len(part) for part in parts]
    assert np.mean(top) == pytest.approx(0.25, abs=0.01)


def test_labels_are_skewed() -> None:
    labels = np.random.default_rng(0).integers(0, 10, 20_000)
    parts = by_labels(labels, 20, np.random.default_rng(1), 0.1)
    top = [np.bincount(labels[part], minlength=10).max() / len(part) for part in parts]
    assert np.mean(top) > 0.4


def test_more_clients_than_images_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="clients is 9"):
        iid(np.zeros(5, dtype=np.int64), 9, np.random.default_rng(0))


def test_natural_clients_keep_what_they_have() -> None:
    owners = np.random.default_rng(0).integers(0, 7, 500)
    parts = natural(owners, 7)
    assert all((owners[part] == client).all() for client, part in enumerate(parts))
    assert (np.sort(np.concatenate(parts)) == np.arange(500)).all()
    with pytest.raises(
        InvalidValueError, match="each of the 9 natural clients keeps an image; leave it out, because 2 would have none"
    ):
        natural(owners, 9)
