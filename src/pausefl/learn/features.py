"""Fixed features of images: nobody trained them, so they cost no budget, and a small model on them bears much noise.

Each image is turned into numbers by itself alone.  No mean and no scale of a data set is used: either would be a
statistic of private data that nobody paid for.  Plain numpy, so that an app on a client can call the same functions.

Reference: Dalal and Triggs, "Histograms of Oriented Gradients for Human Detection" (2005).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from pausefl.errors import InvalidValueError, require
from pausefl.system.import_path import imported, reason

Images: TypeAlias = npt.NDArray[np.uint8] | npt.NDArray[np.floating[Any]]
Matrix: TypeAlias = npt.NDArray[np.float32]
Features: TypeAlias = Callable[[Images], Matrix]
"""Takes images (N x channels x height x width) and returns a row of numbers for each."""

_BLOCK = 500
"""Images at a time: their gradients stay in the cache."""
_DIRECTIONS, _CELLS, _POWER = 8, 4, 0.4
_COMMON = 0.7
"""The share of a cell's mean that is taken off.  All of it is better for digits, but worse for clothes."""
_TINY = 1e-4
"""Less contrast than this share of the full one is none."""


def pool(images: Images) -> Matrix:
    """Return smooth averages of the pixels in 7 x 7 cells (4 x 4 for small images) of each channel.

    >>> pool(np.zeros((2, 1, 28, 28), dtype=np.uint8)).shape
    (2, 49)
    """
    cells = 7 if min(images.shape[2:]) >= 14 else 4
    return _joined(_standard(_in_cells(block, cells)) for block in _blocks(images))


def hog(images: Images, cells: int = _CELLS) -> Matrix:
    """Return how strongly the brightness rises in each of 8 directions, in cells x cells overlapping windows.

    Of a colour image, at each pixel the channel that changes most counts, and the mean colour of each cell is added.
    More cells tell more, but a model on them has more parameters, which need a larger budget.

    >>> hog(np.zeros((2, 1, 28, 28), dtype=np.uint8)).shape, hog(np.zeros((2, 3, 32, 32), dtype=np.uint8)).shape
    ((2, 128), (2, 176))
    """
    require(cells >= 1, "cells", cells, "1 or more", "4 suits small images")
    return _joined(_hog_of(block, images.shape[1] > 1, cells) for block in _blocks(images))


def hog_centred(images: Images) -> Matrix:
    """Return ``hog`` less most of the mean of each cell over its directions, as long as before.

    How busy a cell is then counts less than where its edges point.  Most images are alike in the former, which makes
    gradients long and tells classes little: under heavy noise this is worth two points of accuracy on MNIST, and none
    on Fashion-MNIST.

    >>> hog_centred(np.zeros((2, 1, 28, 28), dtype=np.uint8)).shape
    (2, 128)
    """
    rows = hog(images)
    edges = rows[:, : _DIRECTIONS * _CELLS**2].reshape(len(rows), _DIRECTIONS, -1)  # a view
    before = np.linalg.norm(rows, axis=1, keepdims=True)
    edges -= np.float32(_COMMON) * edges.mean(axis=1, keepdims=True)
    return cast(Matrix, rows * (before / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(_TINY))))


FEATURES: dict[str, Features] = {"pool": pool, "hog": hog, "hog-centred": hog_centred}
"""The features that have a name."""


def features_of(name: str) -> Features:
    """Return features by their name in a configuration; ``package.module:function`` names some of your own."""
    if name in FEATURES:
        return FEATURES[name]
    function = imported(name, "learning.features")

    def checked(images: Images) -> Matrix:
        try:
            made = np.asarray(function(images))
        except Exception as error:  # whatever a function of somebody's own may raise
            raise InvalidValueError(
                f"learning.features is {name!r}, but fails on images of shape {images.shape[1:]} "
                f"({reason(error, function)}); it must accept an array of N x channels x height x width"
            ) from error
        if made.ndim != 2 or len(made) != len(images) or made.dtype.kind != "f" or not np.isfinite(made).all():
            raise InvalidValueError(
                f"learning.features is {name!r}, but returns {made.dtype} of shape {made.shape} for {len(images)} "
                "images; it must return a row of finite floats for each"
            )
        return cast(Matrix, made.astype(np.float32))

    return checked


def _hog_of(block: Matrix, coloured: bool, cells: int) -> Matrix:
    across, down = np.zeros_like(block), np.zeros_like(block)
    across[..., 1:-1] = block[..., 2:] - block[..., :-2]
    down[..., 1:-1, :] = block[..., 2:, :] - block[..., :-2, :]
    if coloured:
        strongest = (across**2 + down**2).argmax(axis=1)[:, None]
        across, down = (np.take_along_axis(part, strongest, axis=1) for part in (across, down))
    across, down = across[:, 0], down[:, 0]
    size = np.hypot(across, down)
    # Each gradient is shared between the two directions that it lies between.
    place = np.arctan2(down, across) * np.float32(_DIRECTIONS / (2.0 * np.pi))
    first = np.floor(place)
    share = size * (place - first)
    number = first.astype(np.intp) % _DIRECTIONS
    maps = np.zeros((len(block), _DIRECTIONS, *size.shape[1:]), dtype=np.float32)
    image, row, column = np.ogrid[: size.shape[0], : size.shape[1], : size.shape[2]]
    maps[image, number, row, column] = size - share
    maps[image, (number + 1) % _DIRECTIONS, row, column] += share
    edges = _standard(_in_cells(maps, cells) ** np.float32(_POWER))
    return np.hstack([edges, _standard(_in_cells(block, cells))]) if coloured else edges


def _in_cells(maps: Matrix, cells: int) -> Matrix:
    """Average each map (N x maps x height x width) in cells x cells windows; return a row per image."""
    rows, columns = (_windows(side, cells) for side in maps.shape[2:])
    return cast(Matrix, np.matmul(rows.T, np.matmul(maps, columns)).reshape(len(maps), -1))


def _windows(side: int, cells: int) -> Matrix:
    """Return one Hann window per cell (side x cells), each twice as wide as a cell, with weights that add up to 1."""
    width = 2.0 * side / cells
    middle = (np.arange(cells) + 0.5) * side / cells - 0.5
    away = np.arange(side)[:, None] - middle
    window = np.where(np.abs(away) < width / 2, 1.0 + np.cos(2.0 * np.pi * away / width), 0.0)
    return cast(Matrix, (window / window.sum(axis=0)).astype(np.float32))


def _standard(rows: Matrix) -> Matrix:
    """Give each image's own numbers a mean of 0 and a deviation of 1; an image without any contrast is all zeros."""
    rows = rows - rows.mean(axis=1, keepdims=True)
    return cast(Matrix, rows / (rows.std(axis=1, keepdims=True) + np.float32(_TINY)))


def _blocks(images: Images) -> Iterable[Matrix]:
    if images.ndim != 4:
        raise InvalidValueError(
            f"images have the shape {images.shape}, but must be N x channels x height x width; reshape them"
        )
    # Shares of 255, the scale of _TINY; otherwise the scale does not matter.
    for start in range(0, len(images), _BLOCK):
        yield images[start : start + _BLOCK].astype(np.float32) / np.float32(255.0)


def _joined(parts: Iterable[Matrix]) -> Matrix:
    return np.concatenate(list(parts))
