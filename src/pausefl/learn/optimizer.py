"""Local optimisers on flat parameters, many clients at once: a row per client.

Reference: Kingma and Ba (2015) for Adam, as PyTorch implements it; each row keeps its own step count, since clients'
states are kept from round to round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pausefl.errors import require
from pausefl.learn._torch import adam, torch


@dataclass(frozen=True, slots=True)
class Optimizer:
    """What one local step does to parameters, given their gradient."""

    kind: Literal["adam", "sgd"] = "adam"
    lr: float = 0.01
    momentum: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def __post_init__(self) -> None:
        require(self.kind in ("adam", "sgd"), "optimizer", self.kind, "'adam' or 'sgd'", "choose one of them")
        require(0.0 < self.lr < float("inf"), "lr", self.lr, "a finite number above 0", "the paper uses 0.01 with adam")
        require(0.0 <= self.momentum < 1.0, "momentum", self.momentum, "from 0 to below 1", "0 switches it off")

    @property
    def slots(self) -> int:
        """How many numbers are remembered per parameter."""
        return 2 if self.kind == "adam" else int(self.momentum > 0.0)

    def step(
        self, parameters: torch.Tensor, gradient: torch.Tensor, memory: list[torch.Tensor], steps: torch.Tensor
    ) -> None:
        """Update parameters (rows x d) and ``steps``, which counts each row's steps so far, in place."""
        if self.kind == "sgd":
            steps += 1
            direction = gradient
            if memory:
                direction = memory[0].mul_(self.momentum).add_(gradient)
            parameters.add_(direction, alpha=-self.lr)
            return
        # One pass over all numbers, which counts the step itself; each row has its own count.
        columns = (parameters, gradient, *memory, steps)
        rows, grads, first, second, counts = (list(column.unbind()) for column in columns)
        decay, slow = self.betas
        adam(
            rows, grads, first, second, [], counts, fused=True, amsgrad=False, maximize=False, beta1=decay, beta2=slow,
            lr=self.lr, weight_decay=0.0, eps=self.eps,
        )  # fmt: skip
