"""What the wrapper adds to a Flower round: selection and bookkeeping, without training, network or waiting.

Processor time, so that neither the disk nor other work on the machine counts; wall time stands beside it.
"""

from __future__ import annotations

import os
import tempfile
import time
from hashlib import blake2b
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

import pausefl
from benchmarks.measure import Figure, show
from pausefl.flower import PauseStrategy
from pausefl.flower.protocol import RECORD, Note
from pausefl.flower.server.timed_grid import TimedGrid
from pausefl.flower.testing import MemoryGrid
from pausefl.system.state_file import sync_folder
from pausefl.types import FloatArray

PER_ROUND, ROUNDS = 10, 28
SMALL, LARGE = 2410, 1_000_000
"""Coordinates of the models."""


def answer(message: Message) -> Message:
    """Reply at once with the arrays received: no training, so that only the wrapper takes time."""
    node = message.metadata.dst_node_id
    content = RecordDict({RECORD: Note(str(node), 1).record()})
    if "arrays" in message.content:
        content["arrays"] = message.content["arrays"]
        content["metrics"] = MetricRecord({"num-examples": 1})
    return Message(content, reply_to=message)


def arrays(coordinates: int) -> ArrayRecord:
    return ArrayRecord({"w": Array(np.zeros(coordinates, dtype=np.float32))})


class Stopwatch(PauseStrategy):
    """Adds up what is spent in the wrapper's own steps, the inner strategy's included: processor and wall seconds."""

    spent = np.zeros(2)

    def configure_train(self, server_round, arrays, config, grid):  # type: ignore[no-untyped-def]
        start = now()
        messages = list(super().configure_train(server_round, arrays, config, grid))
        self.spent = self.spent + now() - start
        return messages

    def aggregate_train(self, server_round, replies):  # type: ignore[no-untyped-def]
        start = now()
        found = super().aggregate_train(server_round, replies)
        self.spent = self.spent + now() - start
        return found

    def save(self) -> None:
        start = now()
        super().save()
        self.spent = self.spent + now() - start


def now() -> FloatArray:
    return np.array([time.process_time(), time.perf_counter()])


def plain_seconds(grid: MemoryGrid, model: ArrayRecord) -> FloatArray:
    """FedAvg's own share: configuring and aggregating the same number of nodes."""
    inner = FedAvg(fraction_evaluate=0.0)
    view = MemoryGrid(dict.fromkeys(list(grid.nodes)[:PER_ROUND], answer))
    start = now()
    messages = list(inner.configure_train(1, model, ConfigRecord(), view))
    taken = now() - start
    replies = TimedGrid(view).exchange(messages, 1.0).replies
    start = now()
    inner.aggregate_train(1, replies)
    return taken + now() - start


def round_times(nodes: int, coordinates: int, checkpoint: Path | None, history: int = 2) -> FloatArray:
    """Processor and wall seconds of a round, the median of those after ``history``, less what FedAvg alone takes.

    The first asks all nodes for their names, and compiles.
    """
    grid, model = MemoryGrid(dict.fromkeys(range(nodes), answer)), arrays(coordinates)
    strategy = Stopwatch(
        FedAvg(fraction_evaluate=0.0), pausefl.Selector(np.ones(nodes), PER_ROUND), poll=0.001, checkpoint=checkpoint
    )
    taken: list[FloatArray] = []

    def lap(number: int, _: ArrayRecord) -> None:
        taken.append(strategy.spent)

    strategy.start(grid, model, num_rounds=history + ROUNDS, evaluate_fn=lap)
    rounds = np.diff([*taken, strategy.spent], axis=0)[history:]
    plain = np.median([plain_seconds(grid, model) for _ in range(9)], axis=0)
    return np.asarray(np.median(rounds, axis=0) - plain)


def disk_milliseconds(checkpoint: Path) -> float:
    """Processor time of what no checkpoint can do without: its bytes hashed, and two files written and flushed."""
    content, line = checkpoint.read_bytes(), bytes(1500)
    first, second = (checkpoint.with_name(f"{checkpoint.name}.{ending}") for ending in ("line", "bytes"))
    taken = []
    for _ in range(9):
        start = time.process_time()
        blake2b(content)
        for path, part in ((first, line), (second, content)):
            with path.open("wb", buffering=0) as file:
                file.write(part)
                os.fsync(file.fileno())
        second.replace(checkpoint)
        sync_folder(checkpoint.parent)
        taken.append(time.process_time() - start)
    return 1e3 * float(np.median(taken))


def round_seconds(nodes: int) -> float:
    """Processor seconds of a round of so many nodes, with a durable checkpoint, less what FedAvg alone takes."""
    with tempfile.TemporaryDirectory() as folder:
        return float(round_times(nodes, SMALL, Path(folder) / "checkpoint")[0])


def main() -> bool:
    """Print the figures; return whether the bounds were met."""
    rows = [
        ("1,000 nodes, without a checkpoint", 1000, SMALL, 2, None),
        ("1,000 nodes", 1000, SMALL, 2, 5.0),
        ("1,000 nodes, after 1,000 rounds of history", 1000, SMALL, 1000, 5.0),
        ("10,000 nodes", 10_000, SMALL, 2, 40.0),
        (f"1,000 nodes, {LARGE:,} coordinates", 1000, LARGE, 2, 25.0),
    ]
    figures = []
    for name, nodes, coordinates, history, most in rows:
        with tempfile.TemporaryDirectory() as folder:
            path = None if most is None else Path(folder) / "checkpoint"
            processor, wall = 1e3 * round_times(nodes, coordinates, path, history)
            asked = () if most is None else (f"<= {most:g} ms", bool(processor <= most))
            figures.append(Figure(name, f"{processor:.1f} ms", *asked))
            figures.append(Figure("   by the clock on the wall", f"{wall:.1f} ms"))
            if path is not None:
                figures.append(
                    Figure("   the checkpoint's bytes, hashed and flushed", f"{disk_milliseconds(path):.1f} ms")
                )
    title = (
        f"Flower: what a round of {PER_ROUND} costs beside FedAvg, with a durable checkpoint of {SMALL:,} coordinates"
    )
    return show(title, figures)


if __name__ == "__main__":
    main()
