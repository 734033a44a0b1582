"""Softmax regression on fixed features, and everybody's share of the digits: nothing here knows of Flower.

Noise grows with the number of parameters, and features that nobody trained cost no budget: a small model on them learns
under a promise about each record, or about the whole update.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import softmax

from pausefl.learn.features import Matrix, hog

TEST = 360
SHAPE = 129, 10
"""A column of weights per digit: 128 features, and a one in place of a bias."""


@cache
def pictures() -> tuple[Matrix, Matrix]:
    """The pixels of all digits, and their labels, in a fixed random order."""
    from sklearn.datasets import load_digits  # here, so that a refusal need not load it

    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return pixels[order], labels[order]


def prepared(pixels: Matrix, labels: Matrix) -> tuple[Matrix, Matrix]:
    """The features of each picture, and a one in the column of its label."""
    rows = np.pad(hog(pixels.reshape(-1, 1, 8, 8)), ((0, 0), (0, 1)), constant_values=1.0)
    return rows, np.eye(10, dtype=np.float32)[labels]


@cache
def digits() -> tuple[Matrix, Matrix]:
    return prepared(*pictures())


def record_lines(partition: int, partitions: int) -> str:
    """A client's digits as a file of records: a label and 64 pixels in each line."""
    pixels, labels = (part[TEST + partition :: partitions] for part in pictures())
    rows = np.column_stack([labels, pixels]).astype(int).tolist()
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def one_record(line: bytes) -> tuple[Matrix, Matrix]:
    """The digit in one line of such a file."""
    label, *pixels = map(int, line.split(b","))
    return prepared(np.array([pixels], dtype=float), np.array([label]))


def test_data() -> tuple[Matrix, Matrix]:
    x, y = digits()
    return x[:TEST], y[:TEST]


def client_data(partition: int, partitions: int) -> tuple[Matrix, Matrix]:
    x, y = digits()
    return x[TEST + partition :: partitions], y[TEST + partition :: partitions]


def made_up_data(examples: int) -> tuple[Matrix, Matrix]:
    rng = np.random.default_rng(0)
    return rng.random((examples, SHAPE[0]), dtype=np.float32), rng.random((examples, SHAPE[1]), dtype=np.float32)


def contributions(weights: Matrix, x: Matrix, y: Matrix) -> Matrix:
    """What each record adds to the model, a row for each: a step against the gradient of its own loss.

    A row depends on its own record and on the model, and on no other record.  The mod clips each row, so nothing is
    clipped here.
    """
    wrong = softmax(x @ weights, axis=1) - y
    rows: Matrix = -x[:, :, np.newaxis] * wrong[:, np.newaxis, :]
    return rows


def train(weights: Matrix, x: Matrix, y: Matrix, steps: int = 8, rate: float = 0.1) -> Matrix:
    for _ in range(steps):
        weights = weights - rate * (x.T @ (softmax(x @ weights, axis=1) - y)) / len(x)
    return weights


def accuracy(weights: Matrix, x: Matrix, y: Matrix) -> float:
    return float(((x @ weights).argmax(axis=1) == y.argmax(axis=1)).mean())
