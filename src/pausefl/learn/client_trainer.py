"""One client's local training for any network: parameters, gradients and optimiser state as flat views."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pausefl.learn.client_data import ClientData
from pausefl.learn.models import BATCH_NORMS
from pausefl.learn.optimizer import LocalPlan
from pausefl.learn.record_gradients import RecordGradients
from pausefl.learn.record_noise import BatchNoise, ClientNoise
from pausefl.learn.torch_import import functional, nn, torch
from pausefl.rng import stream
from pausefl.types import IntArray

EVALUATION_BATCH = 100
"""Larger batches fall out of the cache and take twice as long on a CPU."""


def flat_parameters(net: nn.Module) -> torch.Tensor:
    """Return a network's trainable parameters as one vector, in the order that the trainer uses."""
    trained = [p.detach() for p in net.parameters() if p.requires_grad]
    parts = [p.permute(0, 2, 3, 1) if p.dim() == 4 else p for p in trained]
    return torch.cat([part.flatten() for part in parts])


def _as(flat: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """View flat numbers as a parameter; convolutions lie channels-last, the layout in which they are fastest."""
    if parameter.dim() != 4:
        return flat.view(parameter.shape)
    outside, inside, height, width = parameter.shape
    return flat.view(outside, height, width, inside).permute(0, 3, 1, 2)


def own_records(data: ClientData, plan: LocalPlan, seed: int, client: int, minibatch_of: int | None) -> IntArray:
    """Return the records of a client: all, or those of its first minibatch in a round."""
    part = data.parts[client]
    if minibatch_of is None:
        return part
    first = plan.batches(len(part), seed, minibatch_of, client)[0]
    chosen: IntArray = part[first[first >= 0]]
    return chosen


def clipped_losses(outputs: torch.Tensor, labels: torch.Tensor, bound: float) -> torch.Tensor:
    """Return the loss of each record, clipped to 0 … ``bound``; one that is no number counts as the bound."""
    losses = functional.cross_entropy(outputs, labels, reduction="none")
    return losses.nan_to_num(nan=bound, posinf=bound).clamp_(0.0, bound)


class ClientTrainer:
    """Trains one client after the other on the same network object.

    What is shared with the server are the trainable parameters.  Batch-norm statistics are private data: they never
    leave, and the server scores a model with the statistics of its own test batches.
    """

    def __init__(self, net: nn.Module, data: ClientData, plan: LocalPlan, seed: int) -> None:
        # Freeing one block of this size teaches the C library to keep freed memory; else every step hands its
        # activations back to the system and faults them in again, which costs half as much as the training itself.
        torch.empty(30 * 2**18)
        self._data, self._plan, self._seed = data, plan, seed
        self._device = data.train_images.device
        self._net = net.to(self._device)
        parameters = [p for p in net.parameters() if p.requires_grad]
        self.dimension = sum(p.numel() for p in parameters)
        self._flat = torch.empty(self.dimension, device=self._device)
        self._grad = torch.zeros(self.dimension, device=self._device)
        start = 0
        for parameter in parameters:
            part = slice(start, start + parameter.numel())
            _as(self._flat[part], parameter).copy_(parameter.detach())
            parameter.data = _as(self._flat[part], parameter)
            parameter.grad = _as(self._grad[part], parameter)
            start += parameter.numel()
        self._fresh = {name: buffer.clone() for name, buffer in net.named_buffers()}
        self._records: RecordGradients | None = None
        self._norms = [module for module in net.modules() if isinstance(module, BATCH_NORMS)]

    def _forget(self) -> None:
        """Reset all buffers: what they gathered from a client's data may reach neither another client nor a score."""
        for name, buffer in self._net.named_buffers():
            buffer.copy_(self._fresh[name])

    def train(
        self, model: torch.Tensor, client: int, number: int, slots: list[torch.Tensor], steps: torch.Tensor,
        protection: ClientNoise | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """Return what local training adds to the model; ``slots`` and ``steps`` (one row) change in place."""
        private = None if protection is None else self._private_gradient(protection, number, client)
        part = self._data.parts[client]
        batches = self._plan.batches(len(part), self._seed, number, client)
        torch.manual_seed(int(stream(self._seed, "dropout", number, client).integers(2**62)))
        self._net.train()
        self._forget()
        self._flat.copy_(model)
        step = self._plan.optimizer.on(self._flat.unsqueeze(0), self._grad.unsqueeze(0), slots, steps)
        for batch in batches:
            chosen = torch.from_numpy(part[batch[batch >= 0]]).to(self._device)
            if len(chosen) == 1 and self._norms:
                continue  # batch norm has no statistics of a single example
            images, labels = self._data.train_images[chosen], self._data.train_labels[chosen]
            self._grad.zero_()
            if private is None:
                functional.cross_entropy(self._net(images), labels).backward()  # type: ignore[no-untyped-call]
            else:
                private(images, labels)
            step()
        return self._flat - model

    def _private_gradient(
        self, protection: ClientNoise, number: int, client: int
    ) -> Callable[[torch.Tensor, torch.Tensor], None]:
        """Return what puts the noised mean of clipped record gradients into ``_grad``, batch after batch."""
        self._records = records = self._records or RecordGradients(self._net)
        noise = BatchNoise(protection, self._seed, number, client)

        def put(images: torch.Tensor, labels: torch.Tensor) -> None:
            records.add_clipped(images, labels, protection.clip, 1.0 / len(labels))
            noise.add(self._grad, len(labels))

        return put

    def outputs(self, model: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        """Return a model's outputs, with batch norms using the statistics of the batch."""
        self._net.eval()
        self._forget()
        for norm in self._norms:
            norm.train()
        self._flat.copy_(model)
        alone = len(images) == 1 and bool(self._norms)  # batch norm has no statistics of a single example
        with torch.inference_mode():
            result: torch.Tensor = self._net(torch.cat([images, self._data.test_images[:9]]) if alone else images)
        return result[:1] if alone else result

    def score(self, model: torch.Tensor, chunk: int) -> tuple[int, float]:
        """Return correct answers and summed loss on one chunk of the test set."""
        part = slice(chunk * EVALUATION_BATCH, (chunk + 1) * EVALUATION_BATCH)
        outputs, labels = self.outputs(model, self._data.test_images[part]), self._data.test_labels[part]
        loss = functional.cross_entropy(outputs, labels, reduction="sum")
        return int((outputs.argmax(1) == labels).sum()), float(loss)

    def accuracy(self, model: torch.Tensor, client: int) -> float:
        """Return a model's accuracy (percent) on one client's data."""
        hits, part = 0, self._data.parts[client]
        for rows in np.array_split(part, max(1, len(part) // EVALUATION_BATCH)):
            index: IntArray = rows
            chosen = torch.from_numpy(index).to(self._device)
            outputs = self.outputs(model, self._data.train_images[chosen])
            hits += int((outputs.argmax(1) == self._data.train_labels[chosen]).sum())
        return 100.0 * hits / len(part)

    def own_score(
        self, model: torch.Tensor, client: int, bound: float, minibatch_of: int | None
    ) -> tuple[float, float, int]:
        """Return mean clipped loss, accuracy (from 0 to 1) and number of records, of a client's own data."""
        part = own_records(self._data, self._plan, self._seed, client, minibatch_of)
        hits, total = 0, 0.0
        for rows in np.array_split(part, max(1, len(part) // EVALUATION_BATCH)):
            index: IntArray = rows
            chosen = torch.from_numpy(index).to(self._device)
            outputs, labels = self.outputs(model, self._data.train_images[chosen]), self._data.train_labels[chosen]
            hits += int((outputs.argmax(1) == labels).sum())
            total += float(clipped_losses(outputs, labels, bound).cpu().double().sum())
        return total / len(part), hits / len(part), len(part)
