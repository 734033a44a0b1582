"""Which fixed features bear a whole-update budget best: ``python -m benchmarks.features mnist fashion-mnist cifar10``.

A model is trained by its plan, with 300 clients and 15 per round, on the images that clients may hold, and scored on
images that are neither in that pool nor in the test set.  So a choice by these figures has not seen the test set.  All
features but the last are functions of one image.  The last subtracts a mean, which is paid for from the same budget.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from scipy import fft

from pausefl.learn import features
from pausefl.learn.client_data import ClientData
from pausefl.learn.datasets import Dataset, load_dataset, training_pool
from pausefl.learn.features import Features, Images, Matrix
from pausefl.learn.learners import learner_for
from pausefl.learn.models import build_model
from pausefl.learn.optimizer import LocalPlan, Optimizer
from pausefl.learn.partition import iid
from pausefl.privacy import FixedHorizon, PrivUnit, SimulatedNoise, suggest
from pausefl.privacy.aggregation import Aggregation
from pausefl.selector import Selector
from pausefl.sim.engine import Simulation
from pausefl.sim.latency import two_groups
from pausefl.sim.network import Network

CLIENTS, PER_ROUND, BUDGETS, SEEDS = 300, 15, (40.0, 10.0, 4.0), (100, 101, 102)
CELLS, POWER = 4, np.float32(0.4)
CHARGED = 0.4
"""The share of the budget that pays for a mean."""


def main(names: list[str]) -> None:
    for name in names:
        data = load_dataset(name)
        pool = training_pool(data, None, 0)
        assert isinstance(pool, slice)
        if pool.stop >= len(data.train_labels):
            sys.exit(f"benchmarks: all training images of {name} are in its pool, so none are held out")
        print(f"\n{name}: accuracy on {len(data.train_labels) - pool.stop} held-out images, mean of {len(SEEDS)} seeds")
        print("| features | numbers per image | ms per 1,000 images | no noise | budget 40 | budget 10 | budget 4 |")
        print("|---|---|---|---|---|---|---|")
        for label, compute in (COLOUR if data.train_images.shape[1] > 1 else GREY).items():
            _row(label, compute, data, pool.stop)
        if data.train_images.shape[1] == 1:
            _row(f"hog without its mean, which costs {CHARGED:.0%}", features.hog, data, pool.stop, CHARGED)


def _row(label: str, compute: Features, data: Dataset, held_out_from: int, charged: float = 0.0) -> None:
    start = time.perf_counter()
    rows = compute(data.train_images)
    speed = 1e6 * (time.perf_counter() - start) / len(rows)
    bare = _accuracy(rows, data, held_out_from, None, 0.0, SEEDS[0])
    scores = [
        statistics.mean(_accuracy(rows, data, held_out_from, budget, charged, seed) for seed in SEEDS)
        for budget in BUDGETS
    ]
    figures = " | ".join(f"{score:.1f} %" for score in (bare, *scores))
    print(f"| {label} | {rows.shape[1]} | {speed:.0f} | {figures} |", flush=True)


def _accuracy(
    rows: Matrix, data: Dataset, held_out_from: int, budget: float | None, charged: float, seed: int
) -> float:
    labels = data.train_labels
    parts = iid(labels[:held_out_from], CLIENTS, np.random.default_rng(seed))
    if charged and budget is not None:
        rows = rows - _mean_that_is_paid_for(rows, parts, charged * budget, seed)
        budget *= 1.0 - charged
    images = torch.from_numpy(rows)[:, None, None]
    kept, out = slice(held_out_from), slice(held_out_from, None)
    clients = ClientData(
        images[kept], torch.from_numpy(labels[kept]), images[out], torch.from_numpy(labels[out]), parts
    )  # fmt: skip
    net = build_model("softmax", clients.shape, clients.classes, seed)
    local = LocalPlan(Optimizer("sgd", 0.1), batch=0, epochs=8, optimizer_state="fresh")
    learner = learner_for(net, clients, local, seed=seed, most=PER_ROUND)
    examples = len(parts[0])
    plan = suggest(CLIENTS, PER_ROUND, len(learner.initial()), budget or 1.0, examples=examples)
    rounds, releases = (100, 100) if budget is None else (plan.rounds, plan.releases)
    selector = Selector(
        clients.sizes, PER_ROUND, "random", schedule=FixedHorizon(budget or 1.0, releases), tau_min=0.05, seed=seed
    )  # fmt: skip
    simulation = Simulation(
        selector, Network(two_groups(CLIENTS), seed), learner=learner, seed=seed, evaluate_every=rounds,
        mechanism=None if budget is None else PrivUnit(l2=1.0),
        aggregation=Aggregation() if budget is None else Aggregation(step=plan.step, average=0.9),
    )  # fmt: skip
    *_, last = simulation.play(rounds, pause_every=rounds)
    simulation.close()
    return float(last["accuracy"])


def _mean_that_is_paid_for(rows: Matrix, parts: list[np.ndarray], epsilon: float, seed: int) -> Matrix:
    """Return the mean of what each client releases of the mean of its own rows."""
    # A standardised row is never longer than this.
    mechanism = PrivUnit(l2=float(np.sqrt(rows.shape[1])), norm="private")
    noise = SimulatedNoise(np.random.default_rng([seed, 1]))
    told = [np.asarray(mechanism.release(rows[part].mean(axis=0), epsilon, noise).update) for part in parts]
    return np.asarray(np.mean(told, axis=0), dtype=np.float32)


def _hog(*cells: int) -> Features:
    """Histograms of orientation in cells x cells windows, of one or of several sizes."""
    return lambda images: np.hstack([features.hog(images, one) for one in cells])


def _grey(images: Images) -> Matrix:
    return features.hog(images.mean(axis=1, keepdims=True))


def _pooled(maps_of: Callable[[Matrix], list[tuple[Matrix, int]]]) -> Features:
    """Average maps (N x maps x height x width) in so many cells a side, and standardise each image by itself."""

    def compute(images: Images) -> Matrix:
        rows = []
        for block in features._blocks(images):
            found = [features._in_cells(maps, cells) ** POWER for maps, cells in maps_of(block)]
            rows.append(features._standard(np.hstack(found)))
        return np.concatenate(rows)

    return compute


def _filtered(maps: Matrix, filters: np.ndarray) -> Matrix:
    """Return the size of what each filter (given by its Fourier transform) makes of each map."""
    spectrum = fft.fft2(maps)[:, :, None] * filters.astype(np.complex64)
    return np.asarray(np.abs(fft.ifft2(spectrum, overwrite_x=True)).reshape(len(maps), -1, *maps.shape[2:]))


def _random_convolutions() -> Features:
    drawn = np.random.default_rng(0).normal(size=(8, 5, 5))
    drawn -= drawn.mean(axis=(1, 2), keepdims=True)
    drawn /= np.sqrt((drawn**2).sum(axis=(1, 2), keepdims=True))
    return _pooled(lambda block: [(_filtered(block, np.fft.fft2(drawn, block.shape[2:])), CELLS)])


def _wavelets(shape: tuple[int, ...], scale: float, directions: int) -> np.ndarray:
    """Morlet wavelets as Fourier transforms: a Gaussian around one frequency, and nothing at zero."""
    down, across = np.meshgrid(*(2.0 * np.pi * np.fft.fftfreq(side) for side in shape), indexing="ij")
    made = []
    for angle in np.pi * np.arange(directions) / directions:
        here = (down - 2.4 / scale * np.sin(angle)) ** 2 + (across - 2.4 / scale * np.cos(angle)) ** 2
        peak, low = np.exp(-here * scale**2 / 2.0), np.exp(-(down**2 + across**2) * scale**2 / 2.0)
        made.append(peak - low * peak[0, 0])
    return np.array(made)


def _scattering(block: Matrix) -> list[tuple[Matrix, int]]:
    """Mallat's scattering of the first order: sizes of wavelets of two scales."""
    return [(_filtered(block, _wavelets(block.shape[2:], scale, 8)), CELLS) for scale in (1.2, 2.4)]


GREY: dict[str, Features] = {
    "hog, 4 x 4 cells (`hog`)": features.hog,
    "hog, 3 x 3 cells": _hog(3),
    "hog, 5 x 5 cells": _hog(5),
    "hog, 4 x 4 and 2 x 2 cells": _hog(4, 2),
    "8 random convolutions of 5 x 5, 4 x 4 cells": _random_convolutions(),
    "scattering, first order, 4 x 4 cells": _pooled(_scattering),
}
COLOUR: dict[str, Features] = {
    "hog of the grey image": _grey,
    "hog and the colours of cells (`hog`)": features.hog,
    "the same, 4 x 4 and 2 x 2 cells": _hog(4, 2),
    "the same, 5 x 5 cells": _hog(5),
}

if __name__ == "__main__":
    main(sys.argv[1:])
