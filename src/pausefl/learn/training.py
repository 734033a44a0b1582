"""What all learners share: the clients' data as tensors, their batches, and what they remember between rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pausefl.errors import require
from pausefl.learn._torch import torch
from pausefl.learn.optimizer import Optimizer
from pausefl.rng import stream
from pausefl.types import IntArray


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """How a client trains in one round."""

    optimizer: Optimizer = field(default_factory=Optimizer)
    batch: int = 20
    epochs: int = 1
    max_steps: int | None = 100
    optimizer_state: Literal["keep", "fresh"] = "keep"

    def __post_init__(self) -> None:
        for name in ("batch", "epochs", "max_steps"):
            value = getattr(self, name)
            require(value is None or value >= 1, name, value, "a whole number from 1", "train at least one step")

    def steps(self, examples: int) -> int:
        """Return how many local steps a client with this many examples makes."""
        steps = self.epochs * -(-examples // self.batch)
        return steps if self.max_steps is None else min(steps, self.max_steps)

    def batches(self, examples: int, seed: int, number: int, client: int) -> IntArray:
        """Return the examples of each step (steps x batch), a fresh shuffle per epoch; -1 fills a short last batch."""
        rng = stream(seed, "batches", number, client)
        per_epoch = -(-examples // self.batch)
        steps = self.steps(examples)
        table = np.full((-(-steps // per_epoch), per_epoch * self.batch), -1, dtype=np.int64)
        for row in table:
            row[:examples] = rng.permutation(examples)
        return table.reshape(-1, self.batch)[:steps]


@dataclass(frozen=True, slots=True, eq=False)
class ClientData:
    """All images as normalised tensors, and which belong to whom."""

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
    def sizes(self) -> IntArray:
        """How many examples each client has."""
        return np.array([len(part) for part in self.parts], dtype=np.int64)


def normalised(images: npt.NDArray[np.uint8], device: torch.device) -> torch.Tensor:
    """Return pixels as floats in -1 … 1 (mean 0.5, deviation 0.5), worked out once."""
    pixels = torch.from_numpy(np.ascontiguousarray(images)).to(device, torch.float32)
    return pixels.div_(127.5).sub_(1.0)


class Memory:
    """The optimiser state of every client: a row each, zeros until it first takes part."""

    def __init__(
        self, clients: int, dimension: int, plan: LocalPlan, device: torch.device, shared: bool = False
    ) -> None:
        kept = plan.optimizer.slots if plan.optimizer_state == "keep" else 0
        self.slots = [torch.zeros(clients, dimension, device=device) for _ in range(kept)]
        self.steps = torch.zeros(clients, device=device)
        if shared:
            for tensor in (*self.slots, self.steps):
                tensor.share_memory_()  # type: ignore[no-untyped-call]

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the rows that are in use."""
        rows = torch.nonzero(self.steps).flatten()
        arrays = {"rows": rows.cpu().numpy(), "steps": self.steps[rows].cpu().numpy()}
        return arrays | {f"slot{i}": slot[rows].cpu().numpy() for i, slot in enumerate(self.slots)}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what ``state`` returned."""
        rows = torch.from_numpy(np.array(state["rows"]))
        for tensor, name in ((self.steps, "steps"), *((slot, f"slot{i}") for i, slot in enumerate(self.slots))):
            tensor.zero_()
            tensor[rows] = torch.from_numpy(np.array(state[name])).to(tensor.device)
