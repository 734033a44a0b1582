"""The learners of a run: a small dense network for all picked clients at once, every other network client by client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pausefl.learn.client_data import ClientData
from pausefl.learn.client_trainer import EVALUATION_BATCH, clipped_losses, flat_parameters, own_records
from pausefl.learn.optimizer import LocalPlan, OptimizerMemory
from pausefl.learn.record_clipping import clipped_sums, squared_norms
from pausefl.learn.record_noise import BatchNoise, ClientNoise, client_noises
from pausefl.learn.stacked_networks import DenseShape, Stack, dense_shape, logits, packed
from pausefl.learn.torch_import import functional, nn, torch
from pausefl.learn.torch_process import set_up_torch
from pausefl.learn.workers import Desk, Job, Workers
from pausefl.sim.learner import ClientScores, Learner, RecordNoise, Scores, Vector
from pausefl.types import IntArray

_BLOCK = 2500
_SCORED = 20_000
"""Images scored at once: enough to leave the interpreter alone for long, few enough for any memory."""


def learner_for(net: nn.Module, data: ClientData, plan: LocalPlan, *, seed: int, most: int, jobs: int = 1) -> Learner:
    """Return a learner: all clients at once if the network is dense, else one by one in ``jobs`` processes.

    ``most`` is the largest number of clients that train in one round.
    """
    set_up_torch()
    shape = dense_shape(net)
    if shape is not None:
        return DenseLearner(net, shape, data, plan, seed)
    return ModuleLearner(net, data, plan, seed, most, jobs)


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
        self._squares: torch.Tensor | None = None  # squared norms of the images, once records are protected

    @property
    def passes(self) -> int:
        """How often a record can take part in the training of one round."""
        return self._plan.passes

    def steps(self, client: int) -> int:
        """Return how many local steps a client makes in a round."""
        return self._plan.steps(len(self._data.parts[client]))

    def initial(self) -> Vector:
        """Return the network's fresh parameters."""
        start: Vector = flat_parameters(self._net).cpu().numpy()
        return start

    def train(self, model: Vector, members: IntArray, number: int, records: RecordNoise | None = None) -> Vector:
        """Return one row per member: what local training added."""
        protections = client_noises(members, records)
        examples = [len(self._data.parts[k]) for k in members.tolist()]
        order = np.argsort([-self._plan.steps(n) for n in examples], kind="stable")
        rows = torch.from_numpy(members[order]).to(self._device)
        index, weight, active = self._batches(members[order], number)
        start = self._parameters(model)
        parameters = start.repeat(len(order), 1)
        grad = torch.empty_like(parameters)
        slots, steps = self._memory.of(rows)
        labels = self._data.train_labels[index]
        private = self._private_gradient([protections[i] for i in order], members[order], number, index, weight)
        bound, same = 0, not self._plan.batch  # a client that takes all of its data takes the same at every step
        for step, live in enumerate(active):
            if live != bound or not same:
                images = self._train.index_select(0, index[step, :live].view(-1)).view(live, index.shape[2], -1)
            if live != bound:
                bound, here = live, grad[:live]
                stack = Stack(self._shape, parameters[:live], here)
                update = self._plan.optimizer.on(parameters[:live], here, [slot[:live] for slot in slots], steps[:live])
            if private is None:
                stack.write_gradient(images, labels[step, :live], weight[step, :live])
            else:
                private(step, stack, images, labels[step, :live], here)
            update()
        self._memory.keep(rows, slots, steps)
        trained: Vector = parameters.sub_(start).cpu().numpy()
        if (order[1:] > order[:-1]).all():
            return trained
        updates = np.empty_like(trained)
        updates[order] = trained
        return updates

    def announce(self, model: Vector) -> None:
        """Begin to score the model in another thread."""
        self._begun = model, self._aside.submit(self.evaluate, model)

    def train_and_score(
        self, model: Vector, members: IntArray, number: int, records: RecordNoise | None = None
    ) -> tuple[Vector, Future[Scores]]:
        """Train, and score the model meanwhile: scoring only reads, and torch lets other threads run."""
        begun, self._begun = self._begun, None
        scores = begun[1] if begun and begun[0] is model else self._aside.submit(self.evaluate, model)
        return self.train(model, members, number, records), scores

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

    def client_scores(
        self, model: Vector, members: IntArray, bound: float, minibatch_of: int | None = None
    ) -> ClientScores:
        """Score a model on these clients' own training data, all of them at once."""
        order = np.argsort(members, kind="stable")  # so that the last bits do not depend on the order of members
        parts = [own_records(self._data, self._plan, self._seed, k, minibatch_of) for k in members[order].tolist()]
        counts = np.array([len(part) for part in parts], dtype=np.int64)
        parameters, losses, right = self._parameters(model), [], []
        for block in torch.split(torch.from_numpy(np.concatenate(parts)).to(self._device), _BLOCK):
            outputs, labels = logits(self._shape, parameters, self._train[block]), self._data.train_labels[block]
            losses.append(clipped_losses(outputs, labels, bound))
            right.append(outputs.argmax(1) == labels)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        sums = [np.add.reduceat(torch.cat(one).cpu().double().numpy(), starts) for one in (losses, right)]
        loss, accuracy = np.empty((2, len(order)))
        loss[order], accuracy[order] = sums[0] / counts, sums[1] / counts
        records = np.empty_like(counts)
        records[order] = counts
        return ClientScores(loss, accuracy, records)

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return the clients' optimiser states."""
        return self._memory.state()

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over the clients' optimiser states."""
        self._memory.restore(state)

    def close(self) -> None:
        """End the scoring thread."""
        self._aside.shutdown(cancel_futures=True)

    def _private_gradient(
        self, protections: list[ClientNoise | None], members: IntArray, number: int, index: torch.Tensor,
        weight: torch.Tensor,
    ) -> Callable[..., None] | None:  # fmt: skip
        """Return what writes the noised means of clipped record gradients, step after step; None without protection."""
        protected = [protection for protection in protections if protection is not None]
        if not protected:
            return None
        if self._squares is None:
            self._squares = squared_norms(self._train)
        clip, squares, counts = protected[0].clip, self._squares[index], (weight > 0.0).sum(dim=2).tolist()
        noises = [BatchNoise(p, self._seed, number, k) for p, k in zip(protected, members.tolist(), strict=True)]

        def write(step: int, stack: Stack, images: torch.Tensor, labels: torch.Tensor, grad: torch.Tensor) -> None:
            now = step, slice(len(grad))
            clipped_sums(stack, images, squares[now], labels, weight[now], clip)
            for mean, noise, count in zip(grad, noises, counts[step], strict=False):
                noise.add(mean, count)

        return write

    def _parameters(self, model: Vector) -> torch.Tensor:
        return torch.from_numpy(model).to(self._device)

    def _batches(self, members: IntArray, number: int) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
        """Return image numbers and sample weights (steps x clients x batch), and how many clients train at each."""
        tables = [self._plan.batches(len(self._data.parts[k]), self._seed, number, k) for k in members.tolist()]
        lengths = np.array([len(table) for table in tables])
        steps, width = (max(sizes) for sizes in zip(*(table.shape for table in tables), strict=True))
        index = np.zeros((steps, len(tables), width), dtype=np.int64)
        weight = np.zeros((steps, len(tables), width), dtype=np.float32)
        for i, (k, table) in enumerate(zip(members.tolist(), tables, strict=True)):
            place, used = (slice(table.shape[0]), i, slice(table.shape[1])), table >= 0
            if used.all():
                index[place], weight[place] = self._data.parts[k][table], 1.0 / table.shape[1]
            else:
                index[place] = np.where(used, self._data.parts[k][table], 0)
                weight[place] = used / used.sum(axis=1, keepdims=True)
        active = (lengths > np.arange(steps)[:, None]).sum(axis=1).tolist()
        return torch.from_numpy(index).to(self._device), torch.from_numpy(weight).to(self._device), active


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
            images = data.train_images, data.train_labels, data.test_images, data.test_labels
            for tensor in (self._model, self._updates, *images):
                tensor.share_memory_()  # type: ignore[no-untyped-call]
        self._start: Vector = flat_parameters(net).cpu().numpy()
        self._workers = Workers(jobs, partial(Desk, net, data, plan, seed, self._memory, self._model, self._updates))

    @property
    def passes(self) -> int:
        """How often a record can take part in the training of one round."""
        return self._plan.passes

    def steps(self, client: int) -> int:
        """Return how many local steps a client makes in a round."""
        return self._plan.steps(len(self._data.parts[client]))

    def initial(self) -> Vector:
        """Return the network's fresh parameters."""
        return self._start.copy()

    def train(self, model: Vector, members: IntArray, number: int, records: RecordNoise | None = None) -> Vector:
        """Return one row per member: what local training added."""
        self._model.copy_(torch.from_numpy(model))
        self._workers.run(self._training(members, number, records))
        return self._trained(len(members))

    def announce(self, model: Vector) -> None:
        """The processes score between clients, not before."""

    def train_and_score(
        self, model: Vector, members: IntArray, number: int, records: RecordNoise | None = None
    ) -> tuple[Vector, Future[Scores]]:
        """Train, and score the model in small pieces on whichever process runs out of clients first."""
        self._model.copy_(torch.from_numpy(model))
        answers = self._workers.run([*self._training(members, number, records), *self._scoring()])
        scores: Future[Scores] = Future()
        scores.set_result(self._scores(answers[len(members) :]))
        return self._trained(len(members)), scores

    def evaluate(self, model: Vector) -> Scores:
        """Score a model on the test set."""
        self._model.copy_(torch.from_numpy(model))
        return self._scores(self._workers.run(self._scoring()))

    def _training(self, members: IntArray, number: int, records: RecordNoise | None) -> list[Job]:
        protections = client_noises(members, records)
        # The longest first: the processes end at about the same time.
        order = np.argsort([-self._plan.steps(len(self._data.parts[k])) for k in members.tolist()], kind="stable")
        return [Job("train", place, int(members[place]), number, protections[place]) for place in order.tolist()]

    def _trained(self, count: int) -> Vector:
        updates: Vector = self._updates[:count].cpu().numpy().copy()
        return updates

    def _scoring(self) -> list[Job]:
        return [Job("score", chunk) for chunk in range(-(-len(self._data.test_labels) // EVALUATION_BATCH))]

    def _scores(self, parts: list[Any]) -> Scores:
        count = len(self._data.test_labels)
        return Scores(100.0 * sum(hits for hits, _ in parts) / count, sum(loss for _, loss in parts) / count)

    def client_accuracies(self, model: Vector) -> npt.NDArray[np.float64]:
        """Return a model's accuracy (percent) on each client's own data."""
        self._model.copy_(torch.from_numpy(model))
        return np.array(self._workers.run([Job("accuracy", client=client) for client in range(len(self._data.parts))]))

    def client_scores(
        self, model: Vector, members: IntArray, bound: float, minibatch_of: int | None = None
    ) -> ClientScores:
        """Score a model on these clients' own training data, client by client."""
        self._model.copy_(torch.from_numpy(model))
        whole, number = minibatch_of is None, minibatch_of or 0
        jobs = [Job("own", int(whole), client, number, bound=bound) for client in members.tolist()]
        loss, accuracy, records = np.array(self._workers.run(jobs), dtype=np.float64).reshape(-1, 3).T
        return ClientScores(loss, accuracy, records.astype(np.int64))

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return the clients' optimiser states."""
        return self._memory.state()

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over the clients' optimiser states."""
        self._memory.restore(state)

    def close(self) -> None:
        """End the worker processes."""
        self._workers.close()
