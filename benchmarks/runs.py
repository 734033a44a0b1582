"""Whole runs, each beside what it cannot do without: the matrix products of its rounds, alone.

All seconds are those of the processor, over all threads of the process, so that other work on the machine does not
count.  A run loads its data, plays its rounds and writes its folder.  Needs ``pausefl data fetch mnist``.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional

from benchmarks.measure import Figure, show
from pausefl.errors import DataMissingError
from pausefl.learn import features
from pausefl.learn.datasets import load_dataset
from pausefl.learn.learners import DenseLearner
from pausefl.learn.stacked_networks import DenseShape, packed
from pausefl.learn.torch_process import set_up_torch
from pausefl.runs.build import build
from pausefl.runs.config import Config
from pausefl.runs.play import run
from pausefl.studies.load import load_study
from pausefl.studies.trained import TrainedStudy

TURNS = int(os.environ.get("PAUSEFL_BENCH_TURNS", "3"))
SHORT, LONG = 20, 60
WHOLE_UPDATE = Path(str(sys.modules["pausefl"].__file__)).parent / "studies" / "beyond" / "whole-update.toml"
STARTS = {
    "import pausefl": "import pausefl",
    "  and the command line": "import pausefl.cli.run",
    "  and what a run without training needs": "import pausefl.runs.play",
    "  and torch, with what trains": "import pausefl.runs.play, pausefl.learn.learners",
}
Job = Callable[[], object]


def main() -> bool:
    set_up_torch()
    figures = _start_up()
    try:
        images = load_dataset("mnist").train_images
    except DataMissingError as error:
        return show("Whole runs", [*figures, Figure(f"whole runs: not measured, {error}", "")])
    part = images[:10_000]
    one = statistics.median(_seconds(lambda: features.hog(part)) for _ in range(TURNS))
    taken = 70_000 / len(part) * one
    figures.append(Figure("hog of 70,000 images of MNIST", f"{taken:.1f} s", "≤ 10 s", taken <= 10.0))
    study = load_study(str(WHOLE_UPDATE))
    for clients, per_round, rounds, most in ((300, 15, 40, 3.0), (3000, 50, 60, 6.0)):
        sizes = f"network.clients={clients}", f"selection.per_round={per_round}", f"run.rounds={rounds}"
        config = _config(study, "pause", *sizes)
        _play(config)  # features are kept from here on
        products = _products(config)
        taken, least = (statistics.median(turns) for turns in _in_turns(lambda: _play(config), products))  # noqa: B023
        name = f"whole-update run, K={clients:,}, m={per_round}, {rounds} rounds"
        figures += [
            Figure(name, f"{taken:.2f} s", f"≤ {most:g} s", taken <= most),
            Figure("  to the matrix products of its rounds", f"{taken / (rounds * least):.1f} x"),
        ]
    return show(f"Whole runs (processor seconds, medians of {TURNS})", [*figures, *_published()])


def _published() -> list[Figure]:
    """Time a few rounds of the published study and extrapolate, since the whole of it takes minutes."""
    study, figures, whole = load_study("published-mnist"), [], 0.0
    # The three others pick as many as pause does, and picking takes next to nothing.
    for policy, alike, most in (("pause", 4, 3.2), ("all", 1, 4.1), ("all (no privacy)", 1, 3.4)):
        short, long = (_config(study, policy, f"run.rounds={rounds}") for rounds in (SHORT, LONG))
        products = _products(long)
        few, many, least = (
            min(turns) for turns in _in_turns(lambda: _play(short), lambda: _play(long), products)  # noqa: B023
        )  # fmt: skip
        each = (many - few) / (LONG - SHORT)
        whole += alike * 5 * (few + (300 - SHORT) * each)
        ratio = each / least
        figures += [
            Figure(f"published-mnist, {policy}: milliseconds per round", f"{1e3 * each:.1f}"),
            Figure("  to the matrix products of a round", f"{ratio:.1f} x", f"≤ {most} x", ratio <= most),
        ]
    return [*figures, Figure("published-mnist, all 30 runs on two cores, extrapolated", f"{whole / 2:.0f} s")]


def _products(config: Config) -> Job:
    """Return what multiplies the matrices of one round: of training, and of scoring the test set."""
    simulation = build(config)
    learner = simulation._learner
    assert isinstance(learner, DenseLearner)
    shape, plan, data = learner._shape, learner._plan, learner._data
    members = len(data.parts) if simulation.selector.policy.size == "all" else config.selection.per_round
    examples = len(data.parts[0])
    simulation.close()
    job = _matrices(shape, members, plan.batch or examples, plan.steps(examples))
    test, parameters = packed(data.test_images.flatten(1)), torch.randn(1, shape.dimension)
    first, bias = shape.layers(parameters)[0]

    def multiply() -> None:
        job()
        functional.linear(test, first[0], bias[0])  # the other layers are next to nothing

    return multiply


def _matrices(shape: DenseShape, members: int, batch: int, steps: int) -> Job:
    parameters = torch.randn(members, shape.dimension)
    layers, grads = shape.layers(parameters), shape.layers(torch.empty_like(parameters))
    inputs = [torch.randn(members, batch, width) for width in shape.widths]

    def multiply() -> None:
        for _ in range(steps):
            for (w, _b), h in zip(layers, inputs, strict=False):
                torch.bmm(h, w.transpose(1, 2))
            for place in reversed(range(len(layers))):
                error = inputs[place + 1]
                torch.bmm(error.transpose(1, 2), inputs[place], out=grads[place][0])
                if place:
                    torch.bmm(error, layers[place][0])

    return multiply


def _config(study: object, policy: str, *overrides: str) -> Config:
    assert isinstance(study, TrainedStudy)
    return study.config(policy, 0, "full", overrides)


def _play(config: Config) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(config, Path(folder) / "run")


def _in_turns(*jobs: Job) -> list[list[float]]:
    for job in jobs:
        job()
    turns = [[_seconds(job) for job in jobs] for _ in range(TURNS)]
    return [list(times) for times in zip(*turns, strict=True)]


def _seconds(job: Job) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start


def _start_up() -> list[Figure]:
    """Time what a command imports, in processes of their own."""
    figures = []
    for name, code in STARTS.items():
        said = f"{code}; import time; print(time.process_time())"
        taken = [
            float(subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True).stdout)
            for _ in range(TURNS)
        ]
        figures.append(Figure(f"start: {name}", f"{min(taken):.2f} s"))
    return figures
