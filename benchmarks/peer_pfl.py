# mypy: ignore-errors
"""The task of `benchmarks.peers` in Apple's pfl: `python -m benchmarks.peer_pfl sgd|adam` prints one line of JSON.

Runs in an environment that has pfl and torch; nothing of pausefl is imported here.  pfl gets its fastest setting:
tensors in memory, cut into batches once, torch's fused optimisers, no metrics sent anywhere.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn import functional

USERS, SAMPLES, PER_ROUND, BATCH, LR = 300, 200, 15, 20, 0.01
WARM_UP, ROUNDS = 5, 40


def task_data() -> tuple[torch.Tensor, torch.Tensor]:
    """Return random images with a faint pattern per label, so that training must lower the loss; user by user."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, USERS * SAMPLES)
    images = rng.standard_normal((len(labels), 784), dtype=np.float32)
    images += 0.1 * rng.standard_normal((10, 784), dtype=np.float32)[labels]
    return torch.from_numpy(images).view(-1, 1, 28, 28), torch.from_numpy(labels)


def whole_loss(net: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the mean loss on everybody's data."""
    with torch.no_grad():
        return float(functional.cross_entropy(net(images), labels))


class Net(nn.Sequential):
    """784-32-16-10, with the two methods that pfl asks for."""

    def __init__(self) -> None:
        super().__init__(
            nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 10)
        )  # fmt: skip
        self.steps = self.seen = 0

    def loss(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.seen += len(images)
        return functional.cross_entropy(self(images), labels)

    def metrics(self, images: torch.Tensor, labels: torch.Tensor) -> dict:
        from pfl.metrics import Weighted

        return {"loss": Weighted(whole_loss(self, images, labels) * len(images), len(images))}


def main(kind: str) -> dict[str, float]:
    # Here and not above: the other side takes the task from this file and has no pfl.
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  (pfl draws users from the global generator)
    images, labels = task_data()
    users = [PyTorchTensorDataset(pair) for pair in zip(images.split(SAMPLES), labels.split(SAMPLES), strict=True)]
    data = FederatedDataset(users.__getitem__, get_user_sampler("random", range(USERS)))
    torch.manual_seed(0)
    net = Net()
    before = nn.utils.parameters_to_vector(net.parameters()).detach().clone()
    loss_before = whole_loss(net, images, labels)
    times: list[float] = []

    class Clock(TrainingProcessCallback):
        def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
            times.append(time.process_time())
            return False, Metrics()

    local = partial({"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[kind], fused=True)
    FederatedAveraging().run(
        # The first iteration is always evaluated; it is part of the warm-up.
        NNAlgorithmParams(WARM_UP + ROUNDS, 10**9, PER_ROUND, None),
        SimulatedBackend(data, data),
        PyTorchModel(net, local, torch.optim.SGD(net.parameters(), lr=1.0)),
        NNTrainHyperParams(local_batch_size=BATCH, local_num_epochs=1, local_learning_rate=LR),
        NNEvalHyperParams(local_batch_size=None),
        [Clock()],
        send_metrics_to_platform=False,
    )
    after = nn.utils.parameters_to_vector(net.parameters()).detach()
    return {
        "seconds": statistics.median(np.diff(times[WARM_UP - 1 :]).tolist()),
        "parameters": len(after),
        "moved": float((after - before).norm()),
        "steps": net.steps / (WARM_UP + ROUNDS),
        "samples": net.seen / (WARM_UP + ROUNDS),
        "loss_before": loss_before,
        "loss_after": whole_loss(net, images, labels),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
