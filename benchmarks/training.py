"""Training: our engine against a straightforward torch loop, in one run, on data of the same shape (random pixels).

The loop is what one would write first: one process, one thread, picked clients one after the other, tensors in memory,
default layout, torch's own Adam, the same noise; both score the whole test set every round.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.measure import Figure, medians, show
from pausefl.learn.client_data import ClientData
from pausefl.learn.learners import learner_for
from pausefl.learn.models import build_model, mlp, softmax
from pausefl.learn.optimizer import LocalPlan, Optimizer
from pausefl.privacy import Geometric, Laplace
from pausefl.selector import Selector
from pausefl.sim.engine import Simulation
from pausefl.sim.latency import two_groups
from pausefl.sim.learner import RecordNoise
from pausefl.sim.network import Network

ROUNDS = int(os.environ.get("PAUSEFL_BENCH_ROUNDS", "20"))
BLOCK = min(10, ROUNDS)


def main() -> bool:
    figures = []
    for name, model, shape, images, clients, per_round, jobs, least, most in (
        ("mlp, K=30, m=5, 2,000 images", "mlp", (1, 28, 28), 2000, 30, 5, 1, 3.0, 0.04),
        ("mlp, K=300, m=15, 50,000 images", "mlp", (1, 28, 28), 50_000, 300, 15, 1, 3.0, 0.08),
        ("cnn3, K=30, m=5, 40,000 images, two cores", "cnn3", (3, 32, 32), 40_000, 30, 5, 2, 2.8, 5.0),
    ):
        data = _random_data(shape, images, clients)
        plain = _Loop(model, data, per_round)
        ours, simulation = _ours(model, data, per_round, jobs)
        slow, fast = _alternate(plain.round, ours)
        memory = _tree_memory()
        simulation.close()
        figures += [
            Figure(
                f"{name}: times faster than a plain loop", f"{slow / fast:.1f} x", f"≥ {least} x", slow >= least * fast
            ),
            Figure("  seconds per round (the loop)", f"{fast:.3f} ({slow:.3f})", f"≤ {most}", fast <= most),
            Figure("  memory of all processes", f"{memory / 2**30:.2f} GiB", "< 3 GiB", memory < 3 * 2**30),
        ]
    figures += _record_privacy()
    return show(f"Training (medians of {ROUNDS} rounds)", figures)


def _alternate(slow: Callable[[int], object], fast: Callable[[int], object]) -> tuple[float, float]:
    """Time both in turns, in blocks of ten rounds; ours runs nothing ahead at the end of a block."""
    times: tuple[list[float], list[float]] = ([], [])
    for block in range(-(-ROUNDS // BLOCK)):
        for job, taken in zip((slow, fast), times, strict=True):
            for number in range(BLOCK):
                start = time.perf_counter()
                job(block * BLOCK + number)
                taken.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def _random_data(shape: tuple[int, int, int], images: int, clients: int) -> ClientData:
    torch.manual_seed(0)
    layout = torch.channels_last
    return ClientData(
        torch.randn(images, *shape).contiguous(memory_format=layout), torch.randint(0, 10, (images,)),
        torch.randn(10_000, *shape).contiguous(memory_format=layout), torch.randint(0, 10, (10_000,)),
        np.array_split(np.random.default_rng(0).permutation(images), clients),
    )  # fmt: skip


def _ours(model: str, data: ClientData, per_round: int, jobs: int) -> tuple[Callable[[int], object], Simulation]:
    net = build_model(model, data.shape, 10, seed=0)
    learner = learner_for(net, data, LocalPlan(), seed=0, most=per_round, jobs=jobs)
    clients = len(data.parts)
    selector = Selector(data.sizes, per_round, "random", schedule=Geometric(200.0, 0.04), tau_min=0.05)
    mechanism = Laplace(unit="coordinate", width=0.003)
    simulation = Simulation(selector, Network(two_groups(clients), 0), learner=learner, mechanism=mechanism)
    records = simulation.play(ROUNDS + BLOCK, pause_every=BLOCK)
    return lambda _: next(records), simulation


class _Loop:
    """The straightforward way."""

    def __init__(self, model: str, data: ClientData, per_round: int) -> None:
        torch.set_num_threads(1)
        self.train_images, self.test_images = (x.contiguous() for x in (data.train_images, data.test_images))
        self.data, self.per_round = data, per_round
        self.rng = np.random.default_rng(0)
        self.server = build_model(model, data.shape, 10, seed=0)
        self.nets = {k: build_model(model, data.shape, 10, seed=0) for k in range(len(data.parts))}
        self.optimizers = {k: torch.optim.Adam(net.parameters(), lr=0.01) for k, net in self.nets.items()}

    def round(self, _: int) -> float:
        start = nn.utils.parameters_to_vector(self.server.parameters()).detach()
        total = torch.zeros_like(start)
        for client in self.rng.choice(len(self.data.parts), self.per_round, replace=False).tolist():
            net, optimizer = self.nets[client], self.optimizers[client]
            net.load_state_dict(self.server.state_dict())
            net.train()
            order = self.rng.permutation(self.data.parts[client])
            for first in range(0, min(len(order), 2000), 20):
                chosen = torch.from_numpy(order[first : first + 20])
                optimizer.zero_grad()
                functional.cross_entropy(net(self.train_images[chosen]), self.data.train_labels[chosen]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            update = nn.utils.parameters_to_vector(net.parameters()).detach() - start
            noise = torch.from_numpy(self.rng.laplace(0.0, 0.003, len(update)).astype(np.float32))
            total += (update.clamp(-0.0015, 0.0015) + noise) / self.per_round
        nn.utils.vector_to_parameters(start + total, self.server.parameters())
        self.server.eval()
        with torch.no_grad():
            right = sum(
                int((self.server(self.test_images[i : i + 100]).argmax(1) == self.data.test_labels[i : i + 100]).sum())
                for i in range(0, 10_000, 100)
            )
        return right / 100


def _record_privacy() -> list[Figure]:
    """What it costs to protect single records: rounds with and without, in turns; a round trains and scores.

    The convolutions have no batch norm: a network with batch norms, such as cnn3, cannot protect records.
    """
    features, digits = (1, 1, 500), (1, 28, 28)
    whole, small = LocalPlan(Optimizer("sgd"), batch=0), LocalPlan()
    figures = []
    for name, build, shape, images, clients, per_round, plan, most in (
        ("softmax, K=30, m=5, 60,000 images, one step", softmax, features, 60_000, 30, 5, whole, 2.2),
        ("mlp, K=30, m=5, 2,000 images", mlp, digits, 2000, 30, 5, small, 2.2),
        ("mlp, K=300, m=15, 50,000 images", mlp, digits, 50_000, 300, 15, small, 2.2),
        ("small convolutions, K=30, m=2, 6,000 images", _convolutions, digits, 6000, 30, 2, small, 4.0),
    ):
        data = _random_data(shape, images, clients)
        learner = learner_for(build(shape, 10), data, plan, seed=0, most=per_round)
        model, members = learner.initial(), np.arange(per_round)
        records = RecordNoise(1.0, np.ones(per_round))

        def play(protected: RecordNoise | None, score: bool) -> None:
            if score:
                learner.train_and_score(model, members, 1, protected)[1].result()  # noqa: B023 - called at once
            else:
                learner.train(model, members, 1, protected)  # noqa: B023

        jobs = [partial(play, protected, score) for score in (True, False) for protected in (None, records)]
        plain, private, plain_training, private_training = medians(*jobs, repeats=ROUNDS)
        learner.close()
        said = f"{name}: a round that protects records, to one that does not"
        figures += [
            Figure(said, f"{private / plain:.2f} x", f"≤ {most} x", private <= most * plain),
            Figure("  its training alone", f"{private_training / plain_training:.2f} x"),
        ]
    return figures


def _convolutions(shape: tuple[int, int, int], classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(shape[0], 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 25, 32), nn.ReLU(), nn.Linear(32, classes),
    )  # fmt: skip


def _tree_memory() -> int:
    """Return the proportional set size of this process and its children, in bytes (Linux)."""
    total = 0
    for folder in Path("/proc").iterdir():
        try:
            status = (folder / "status").read_text()
            parent = int(status.split("PPid:")[1].split()[0])
            if folder.name == str(os.getpid()) or parent == os.getpid():
                total += int((folder / "smaps_rollup").read_text().split("Pss:")[1].split()[0]) * 1024
        except (OSError, IndexError, ValueError):
            continue
    return total
