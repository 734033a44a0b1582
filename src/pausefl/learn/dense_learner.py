"""The learner for small dense networks: all picked clients at once."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from pausefl.learn.client_data import ClientData
from pausefl.learn.client_trainer import flat_parameters
from pausefl.learn.dense_network import DenseShape, gradient, logits, packed
from pausefl.learn.optimizer import LocalPlan, OptimizerMemory
from pausefl.learn.torch_import import functional, nn, torch
from pausefl.sim.learner import Scores, Vector
from pausefl.types import IntArray

_BLOCK = 2500
_SCORED = 20_000
"""Images scored at once: enough to leave the interpreter alone for long, few enough for any memory."""


class DenseLearner:
    """Trains the picked clients as one stack of networks; a row per client, longest training first."""

    def __init__(self, net: nn.Module, shape: DenseShape, data: ClientData, plan: LocalPlan, seed: int) -> None:
        self._net, self._shape, self._data, self._plan, self._seed = net, shape, data, plan, seed
        self._device = data.train_images.device
        self._train = data.train_images.flatten(1)
        self._test = [packed(block) for block in torch.split(data.test_images.flatten(1), _SCORED)]
        self._memory = OptimizerMemory(len(data.parts), shape.dimension, plan, self._device)
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="score")
        self._begun: tuple[Vector, Future[Scores]] | None = None

    def initial(self) -> Vector:
        """Return the network's fresh parameters."""
        start: Vector = flat_parameters(self._net).cpu().numpy()
        return start

    def train(self, model: Vector, members: IntArray, number: int) -> Vector:
        """Return one row per member: what local training added."""
        examples = [len(self._data.parts[k]) for k in members.tolist()]
        order = np.argsort([-self._plan.steps(n) for n in examples], kind="stable")
        rows = torch.from_numpy(members[order]).to(self._device)
        index, weight, active = self._batches(members[order], number)
        start = self._parameters(model)
        parameters = start.repeat(len(order), 1)
        grad = torch.empty_like(parameters)
        keep = bool(self._memory.slots)
        slots = [slot[rows] for slot in self._memory.slots] if keep else self._fresh(parameters)
        steps = self._memory.steps[rows] if keep else torch.zeros(len(order), device=self._device)
        for step, live in enumerate(active):
            images = self._train.index_select(0, index[:live, step].reshape(-1)).view(live, self._plan.batch, -1)
            labels = self._data.train_labels[index[:live, step]]
            gradient(self._shape, parameters[:live], images, labels, weight[:live, step], grad[:live])
            self._plan.optimizer.step(parameters[:live], grad[:live], [slot[:live] for slot in slots], steps[:live])
        if keep:
            for slot, trained in zip(self._memory.slots, slots, strict=True):
                slot[rows] = trained
            self._memory.steps[rows] = steps
        updates = np.empty((len(order), self._shape.dimension), dtype=np.float32)
        updates[order] = parameters.sub_(start).cpu().numpy()
        return updates

    def announce(self, model: Vector) -> None:
        """Begin to score the model in another thread."""
        self._begun = model, self._aside.submit(self.evaluate, model)

    def train_and_score(self, model: Vector, members: IntArray, number: int) -> tuple[Vector, Future[Scores]]:
        """Train, and score the model meanwhile: scoring only reads, and torch lets other threads run."""
        begun, self._begun = self._begun, None
        scores = begun[1] if begun and begun[0] is model else self._aside.submit(self.evaluate, model)
        return self.train(model, members, number), scores

    def evaluate(self, model: Vector) -> Scores:
        """Score a model on the test set."""
        parameters = self._parameters(model)
        outputs = torch.cat([logits(self._shape, parameters, block) for block in self._test])
        correct = (outputs.argmax(1) == self._data.test_labels).sum()
        loss = functional.cross_entropy(outputs, self._data.test_labels)
        return Scores(100.0 * int(correct) / len(outputs), float(loss))

    def client_accuracies(self, model: Vector) -> npt.NDArray[np.float64]:
        """Return a model's accuracy (percent) on each client's own data."""
        # In blocks, which stay in the cache.
        blocks, parameters = torch.split(self._train, _BLOCK), self._parameters(model)
        outputs = torch.cat([logits(self._shape, parameters, block) for block in blocks])
        right = (outputs.argmax(1) == self._data.train_labels).cpu().numpy()
        return np.array([100.0 * right[part].mean() for part in self._data.parts])

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return the clients' optimiser states."""
        return self._memory.state()

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over the clients' optimiser states."""
        self._memory.restore(state)

    def close(self) -> None:
        """End the scoring thread."""
        self._aside.shutdown(cancel_futures=True)

    def _parameters(self, model: Vector) -> torch.Tensor:
        return torch.from_numpy(model).to(self._device)

    def _fresh(self, like: torch.Tensor) -> list[torch.Tensor]:
        return [torch.zeros_like(like) for _ in range(self._plan.optimizer.slots)]

    def _batches(self, members: IntArray, number: int) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
        """Return image numbers and sample weights (clients x steps x batch), and how many clients train at each."""
        tables = [self._plan.batches(len(self._data.parts[k]), self._seed, number, k) for k in members.tolist()]
        steps = max(len(table) for table in tables)
        index = np.zeros((len(tables), steps, self._plan.batch), dtype=np.int64)
        weight = np.zeros((len(tables), steps, self._plan.batch), dtype=np.float32)
        for i, (k, table) in enumerate(zip(members.tolist(), tables, strict=True)):
            used = table >= 0
            index[i, : len(table)] = np.where(used, self._data.parts[k][table], 0)
            weight[i, : len(table)] = used / used.sum(axis=1, keepdims=True)
        active = [sum(len(table) > step for table in tables) for step in range(steps)]
        return torch.from_numpy(index).to(self._device), torch.from_numpy(weight).to(self._device), active
