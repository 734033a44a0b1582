"""The learner for any network: picked clients one by one, spread over worker processes."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pausefl.learn.client_data import ClientData
from pausefl.learn.client_trainer import EVALUATION_BATCH, flat_parameters
from pausefl.learn.optimizer import LocalPlan, OptimizerMemory
from pausefl.learn.torch_import import nn, torch
from pausefl.learn.workers import Desk, Job, Workers
from pausefl.sim.learner import Scores, Vector
from pausefl.types import IntArray


class ModuleLearner:
    """Trains any ``torch.nn.Module``; images in channels-last layout, one thread per process."""

    def __init__(self, net: nn.Module, data: ClientData, plan: LocalPlan, seed: int, most: int, jobs: int = 1) -> None:
        self._data, self._plan = data, plan
        dimension = sum(p.numel() for p in net.parameters() if p.requires_grad)
        device = data.train_images.device
        shared = jobs > 1
        self._memory = OptimizerMemory(len(data.parts), dimension, plan, device, shared)
        self._model = torch.zeros(dimension, device=device)
        self._updates = torch.zeros(most, dimension, device=device)
        if shared:
            for tensor in (
                self._model,
                self._updates,
                data.train_images,
                data.train_labels,
                data.test_images,
                data.test_labels,
            ):
                tensor.share_memory_()  # type: ignore[no-untyped-call]
        self._start: Vector = flat_parameters(net).cpu().numpy()
        self._workers = Workers(jobs, partial(Desk, net, data, plan, seed, self._memory, self._model, self._updates))

    def initial(self) -> Vector:
        """Return the network's fresh parameters."""
        return self._start.copy()

    def train(self, model: Vector, members: IntArray, number: int) -> Vector:
        """Return one row per member: what local training added."""
        self._model.copy_(torch.from_numpy(model))
        self._workers.run(self._training(members, number))
        return self._trained(len(members))

    def announce(self, model: Vector) -> None:
        """The processes score between clients, not before."""

    def train_and_score(self, model: Vector, members: IntArray, number: int) -> tuple[Vector, Future[Scores]]:
        """Train, and score the model in small pieces on whichever process runs out of clients first."""
        self._model.copy_(torch.from_numpy(model))
        answers = self._workers.run([*self._training(members, number), *self._scoring()])
        scores: Future[Scores] = Future()
        scores.set_result(self._scores(answers[len(members) :]))
        return self._trained(len(members)), scores

    def evaluate(self, model: Vector) -> Scores:
        """Score a model on the test set."""
        self._model.copy_(torch.from_numpy(model))
        return self._scores(self._workers.run(self._scoring()))

    def _training(self, members: IntArray, number: int) -> list[Job]:
        # The longest first: the processes end at about the same time.
        order = np.argsort([-self._plan.steps(len(self._data.parts[k])) for k in members.tolist()], kind="stable")
        return [("train", place, int(members[place]), number) for place in order.tolist()]

    def _trained(self, count: int) -> Vector:
        updates: Vector = self._updates[:count].cpu().numpy().copy()
        return updates

    def _scoring(self) -> list[Job]:
        return [("score", chunk, 0, 0) for chunk in range(-(-len(self._data.test_labels) // EVALUATION_BATCH))]

    def _scores(self, parts: list[Any]) -> Scores:
        count = len(self._data.test_labels)
        return Scores(100.0 * sum(hits for hits, _ in parts) / count, sum(loss for _, loss in parts) / count)

    def client_accuracies(self, model: Vector) -> npt.NDArray[np.float64]:
        """Return a model's accuracy (percent) on each client's own data."""
        self._model.copy_(torch.from_numpy(model))
        return np.array(self._workers.run([("accuracy", 0, client, 0) for client in range(len(self._data.parts))]))

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return the clients' optimiser states."""
        return self._memory.state()

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over the clients' optimiser states."""
        self._memory.restore(state)

    def close(self) -> None:
        """End the worker processes."""
        self._workers.close()
