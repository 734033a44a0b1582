"""A small network and everybody's share of the digits: nothing here knows of Flower or of privacy."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

TEST = 360


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layers(x)
        return scores


def _digits() -> tuple[Tensor, Tensor]:
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return torch.tensor(pixels[order] / 16.0, dtype=torch.float32), torch.tensor(labels[order])


def test_data() -> tuple[Tensor, Tensor]:
    x, y = _digits()
    return x[:TEST], y[:TEST]


def client_data(partition: int, partitions: int) -> tuple[Tensor, Tensor]:
    x, y = _digits()
    return x[TEST + partition :: partitions], y[TEST + partition :: partitions]


def made_up_data(examples: int) -> tuple[Tensor, Tensor]:
    return torch.rand(examples, 64), torch.randint(10, (examples,))


def sizes(partitions: int) -> list[int]:
    rest = len(_digits()[1]) - TEST
    return [len(range(partition, rest, partitions)) for partition in range(partitions)]


def train(net: Net, x: Tensor, y: Tensor, epochs: int = 2, rate: float = 0.1) -> float:
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    loss = torch.zeros(())
    for _ in range(epochs):
        for part in torch.split(torch.randperm(len(y)), 20):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x[part]), y[part])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return loss.item()


def accuracy(net: Net, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return float((net(x).argmax(dim=1) == y).double().mean())
