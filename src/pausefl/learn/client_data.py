"""What each client learns from: a data set or its features, dealt out to clients, as tensors on the training device."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

import numpy as np

from pausefl.errors import InvalidValueError, require
from pausefl.learn.dataset_features import dataset_features
from pausefl.learn.datasets import Dataset, Labels, Pixels, Rows, load_dataset, training_pool
from pausefl.learn.partition import by_labels, by_sizes, iid, natural
from pausefl.learn.torch_import import torch
from pausefl.rng import stream
from pausefl.types import IntArray

Partition: TypeAlias = Literal["iid", "sizes", "labels", "natural"]


@dataclass(frozen=True, slots=True)
class DataSpec:
    """Which data set, as pixels or as ``features``, how much of it, and how it is dealt out."""

    name: str
    features: str = "none"
    train_size: int | None = None
    partition: Partition = "iid"
    concentration: float = 3.0
    dominant: float = 0.25

    def __post_init__(self) -> None:
        known = get_args(Partition)
        require(
            self.partition in known, "partition", self.partition, f"one of {', '.join(known)}", "'iid' is the default"
        )

    def parts(self, data: Dataset, chosen: slice | Labels, clients: int, rng: np.random.Generator) -> list[IntArray]:
        """Return which of the chosen examples each client holds."""
        if self.partition == "natural":
            return natural(_owners(data, clients)[chosen], clients)
        labels = data.train_labels[chosen]
        if self.partition == "sizes":
            return by_sizes(labels, clients, rng, self.concentration, self.dominant)
        if self.partition == "labels":
            return by_labels(labels, clients, rng, self.concentration)
        return iid(labels, clients, rng)


@dataclass(frozen=True, slots=True, eq=False)
class ClientData:
    """All images as tensors, and which belong to whom; features count as images of one row."""

    train_images: torch.Tensor
    train_labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor
    parts: list[IntArray]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        channels, height, width = self.train_images.shape[1:]
        return channels, height, width

    @property
    def classes(self) -> int:
        """How many labels there are."""
        return int(self.train_labels.max()) + 1

    @property
    def sizes(self) -> IntArray:
        """How many examples each client has."""
        return np.array([len(part) for part in self.parts], dtype=np.int64)


def load_client_data(
    spec: DataSpec, clients: int, *, seed: int, data_dir: Path | None = None, device: str = "cpu"
) -> ClientData:
    """Return a data set as the clients hold it; data sets that were fetched are looked for in ``data_dir``."""
    where = _usable_device(device)
    dataset = load_dataset(spec.name, data_dir)
    chosen = training_pool(dataset, spec.train_size, seed)
    labels = dataset.train_labels[chosen]
    parts = spec.parts(dataset, chosen, clients, stream(seed, "partition"))
    if spec.features == "none":
        train, test = (_inputs(images, where) for images in (dataset.train_images[chosen], dataset.test_images))
    else:
        rows = dataset_features(dataset, spec.features, data_dir)
        train, test = (torch.from_numpy(part)[:, None, None].to(where) for part in (rows.train[chosen], rows.test))
    layout = torch.channels_last
    return ClientData(
        train.contiguous(memory_format=layout),
        torch.from_numpy(np.array(labels)).to(where),
        test.contiguous(memory_format=layout),
        torch.from_numpy(np.array(dataset.test_labels)).to(where),
        parts,
    )


def _inputs(images: Pixels | Rows, device: torch.device) -> torch.Tensor:
    """Return what models see of images: pixels are scaled, rows of numbers are taken as they are."""
    if images.dtype == np.uint8:
        return normalised(cast(Pixels, images), device)
    return torch.from_numpy(np.ascontiguousarray(images)).to(device)


def normalised(images: Pixels, device: torch.device) -> torch.Tensor:
    """Return pixels as floats in -1 … 1 (mean 0.5, deviation 0.5), worked out once."""
    pixels = torch.from_numpy(np.ascontiguousarray(images)).to(device, torch.float32)
    return pixels.div_(127.5).sub_(1.0)


def _owners(data: Dataset, clients: int) -> Labels:
    """Return who holds each training record, if the data set says so and there are so many clients."""
    if data.owners is None:
        raise InvalidValueError(
            f"data.partition is 'natural', but data set {data.name!r} does not say who holds which record; choose iid, "
            "sizes or labels, or return owners from a function of your own"
        )
    there = int(data.owners.max()) + 1
    require(
        clients == there, "network.clients", clients, f"{there}, the number of natural clients of {data.name}",
        "set it to that number, or use another data.partition",
    )  # fmt: skip
    return data.owners


def _usable_device(name: str) -> torch.device:
    """Return a device by its name in a configuration, once it has been tried."""
    if name.partition(":")[0] not in ("cpu", "cuda", "mps"):
        raise InvalidValueError(f"learning.device is {name!r}, but must be cpu, cuda or mps; use 'cpu'")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InvalidValueError(
            f"learning.device is {name!r}, but cannot be used ({str(error).splitlines()[0]}); use 'cpu'"
        ) from None
    return device
