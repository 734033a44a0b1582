"""How clients train in a round: the optimiser on flat parameters (a row per client), its steps, what it remembers.

Reference: Kingma and Ba (2015) for Adam, as PyTorch implements it; each row keeps its own step count, since clients'
states are kept from round to round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pausefl.errors import require
from pausefl.learn.torch_import import torch
from pausefl.rng import stream
from pausefl.types import IntArray


@dataclass(frozen=True, slots=True)
class Optimizer:
    """What one local step does to parameters, given their gradient."""

    kind: Literal["adam", "sgd"] = "adam"
    lr: float = 0.01
    momentum: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def __post_init__(self) -> None:
        require(self.kind in ("adam", "sgd"), "optimizer", self.kind, "'adam' or 'sgd'", "the paper uses 'adam'")
        require(0.0 < self.lr < float("inf"), "lr", self.lr, "a finite number above 0", "the paper uses 0.01 with adam")
        require(0.0 <= self.momentum < 1.0, "momentum", self.momentum, "from 0 to below 1", "0 switches it off")

    @property
    def slots(self) -> int:
        """How many numbers are remembered per parameter."""
        return 2 if self.kind == "adam" else int(self.momentum > 0.0)

    def on(
        self, parameters: torch.Tensor, gradient: torch.Tensor, memory: list[torch.Tensor], steps: torch.Tensor
    ) -> Callable[[], None]:
        """Return what makes one step whenever it is called.

        It updates parameters (rows x d), memory and ``steps``, which counts each row's steps so far, in place.
        """
        if self.kind == "sgd":

            def step() -> None:
                steps.add_(1)
                direction = memory[0].mul_(self.momentum).add_(gradient) if memory else gradient
                parameters.add_(direction, alpha=-self.lr)

            return step
        # Each row has its own count.  The rows are listed once, and not at every step as by torch.optim.
        rows, grads, first, second, counts = (
            list(column.unbind()) for column in (parameters, gradient, *memory, steps)
        )
        decay, slow = self.betas

        def adam_step() -> None:
            steps.add_(1)
            torch._fused_adam_(
                rows, grads, first, second, [], counts, amsgrad=False, maximize=False, beta1=decay, beta2=slow,
                lr=self.lr, weight_decay=0.0, eps=self.eps,
            )  # fmt: skip

        return adam_step


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """How a client trains in one round; a ``batch`` of 0 is all of its data."""

    optimizer: Optimizer = field(default_factory=Optimizer)
    batch: int = 20
    epochs: int = 1
    max_steps: int | None = 100
    optimizer_state: Literal["keep", "fresh"] = "keep"

    def __post_init__(self) -> None:
        require(self.batch >= 0, "batch", self.batch, "a whole number from 0", "0 takes all of a client's data")
        for name in ("epochs", "max_steps"):
            value = getattr(self, name)
            require(value is None or value >= 1, name, value, "a whole number from 1", "train at least one step")

    @property
    def passes(self) -> int:
        """How often an example can take part in one round: the batches of an epoch are disjoint."""
        return self.epochs if self.max_steps is None else min(self.epochs, self.max_steps)

    def steps(self, examples: int) -> int:
        """Return how many local steps a client with this many examples makes."""
        steps = self.epochs * -(-examples // (self.batch or examples))
        return steps if self.max_steps is None else min(steps, self.max_steps)

    def batches(self, examples: int, seed: int, number: int, client: int) -> IntArray:
        """Return the examples of each step (steps x batch), a fresh shuffle per epoch; -1 fills a short last batch."""
        steps = self.steps(examples)
        if not self.batch:
            return np.tile(np.arange(examples), (steps, 1))
        rng = stream(seed, "batches", number, client)
        per_epoch = -(-examples // self.batch)
        table = np.full((-(-steps // per_epoch), per_epoch * self.batch), -1, dtype=np.int64)
        for row in table:
            row[:examples] = rng.permutation(examples)
        return table.reshape(-1, self.batch)[:steps]


class OptimizerMemory:
    """The optimiser state of every client: a row each, zeros until it first takes part."""

    def __init__(
        self, clients: int, dimension: int, plan: LocalPlan, device: torch.device, shared: bool = False
    ) -> None:
        kept = plan.optimizer.slots if plan.optimizer_state == "keep" else 0
        self._fresh = torch.zeros(plan.optimizer.slots, 1, dimension, device=device)
        self._slots = [torch.zeros(clients, dimension, device=device) for _ in range(kept)]
        self._steps = torch.zeros(clients, device=device)
        if shared:
            for tensor in (*self._slots, self._steps):
                tensor.share_memory_()  # type: ignore[no-untyped-call]

    def of(self, clients: torch.Tensor | slice) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return slots (a row per client) and step counts; zeros if nothing is kept, views of the rows of a slice."""
        steps = self._steps[clients]
        if self._slots:
            return [slot[clients] for slot in self._slots], steps
        return [slot.repeat(len(steps), 1) for slot in self._fresh], torch.zeros_like(steps)

    def keep(self, clients: torch.Tensor, slots: list[torch.Tensor], steps: torch.Tensor) -> None:
        """Remember what training made of these rows, if anything is kept."""
        if self._slots:
            for slot, trained in zip((*self._slots, self._steps), (*slots, steps), strict=True):
                slot[clients] = trained

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the rows that are in use."""
        rows = torch.nonzero(self._steps).flatten()
        arrays = {"rows": rows.cpu().numpy(), "steps": self._steps[rows].cpu().numpy()}
        return arrays | {f"slot{i}": slot[rows].cpu().numpy() for i, slot in enumerate(self._slots)}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what ``state`` returned."""
        rows = torch.from_numpy(np.array(state["rows"]))
        for tensor, name in ((self._steps, "steps"), *((slot, f"slot{i}") for i, slot in enumerate(self._slots))):
            tensor.zero_()
            tensor[rows] = torch.from_numpy(np.array(state[name])).to(tensor.device)
