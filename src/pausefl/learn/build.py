"""Puts a learner together from names and numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from pausefl.errors import InvalidValueError
from pausefl.learn._torch import nn, torch
from pausefl.learn.datasets import load_dataset, training_pool
from pausefl.learn.dense_gradient import dense_shape
from pausefl.learn.dense_learner import DenseLearner
from pausefl.learn.models import build_model
from pausefl.learn.module_learner import ModuleLearner
from pausefl.learn.optimizer import Optimizer
from pausefl.learn.partition import by_labels, by_sizes, iid
from pausefl.learn.training import ClientData, LocalPlan, normalised
from pausefl.rng import stream
from pausefl.sim.learner import Learner
from pausefl.types import IntArray


def build_learner(
    *, data: str, data_dir: Path | None, train_size: int | None, partition: str, concentration: float, dominant: float,
    clients: int, model: str, optimizer: Literal["adam", "sgd"], lr: float, momentum: float, batch: int, epochs: int,
    max_steps: int | None, optimizer_state: Literal["keep", "fresh"], device: str, seed: int, most: int, jobs: int,
    refuse_batch_norm: bool,
) -> tuple[Learner, IntArray]:  # fmt: skip
    """Return a learner and the number of examples of each client."""
    torch.set_num_threads(1)  # more processes help on small machines, more threads do not
    where = _device(device)
    clients_data = _client_data(data, data_dir, train_size, partition, concentration, dominant, clients, seed, where)
    classes = int(clients_data.train_labels.max()) + 1
    net = build_model(model, clients_data.shape, classes, int(stream(seed, "model").integers(2**62)))
    norms = [m for m in net.modules() if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d))]
    if norms and refuse_batch_norm:
        raise InvalidValueError("privacy.batch_norm is 'refuse', but the model has batch norms; choose 'keep-local'")
    plan = LocalPlan(Optimizer(optimizer, lr, momentum), batch, epochs, max_steps, optimizer_state)
    return learner_for(net, clients_data, plan, seed=seed, most=most, jobs=jobs), clients_data.sizes


def learner_for(net: nn.Module, data: ClientData, plan: LocalPlan, *, seed: int, most: int, jobs: int = 1) -> Learner:
    """Return the fastest learner for a network: stacked if it is dense, else client by client in ``jobs`` processes."""
    shape = dense_shape(net)
    if shape is not None:
        return DenseLearner(net, shape, data, plan, seed)
    return ModuleLearner(net, data, plan, seed, most, jobs)


def _client_data(
    name: str, data_dir: Path | None, train_size: int | None, partition: str, concentration: float, dominant: float,
    clients: int, seed: int, device: torch.device,
) -> ClientData:  # fmt: skip
    dataset = load_dataset(name, data_dir)
    images, labels = training_pool(dataset, train_size, seed)
    rng = stream(seed, "partition")
    if partition == "sizes":
        parts = by_sizes(labels, clients, rng, concentration, dominant)
    elif partition == "labels":
        parts = by_labels(labels, clients, rng, concentration)
    else:
        parts = iid(labels, clients, rng)
    layout = torch.channels_last
    return ClientData(
        normalised(images, device).contiguous(memory_format=layout),
        torch.from_numpy(np.array(labels)).to(device),
        normalised(dataset.test_images, device).contiguous(memory_format=layout),
        torch.from_numpy(np.array(dataset.test_labels)).to(device),
        parts,
    )


def _device(name: str) -> torch.device:
    if name.partition(":")[0] not in ("cpu", "cuda", "mps"):
        raise InvalidValueError(f"learning.device is {name!r}, but must be cpu, cuda or mps; use 'cpu'")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidValueError(f"learning.device is {name!r}, but cannot be used ({reason}); use 'cpu'") from None
    return device
