"""What the wrapper adds to a Flower round: selection and bookkeeping, without training, network or waiting.

Processor time, so that neither the disk nor other work on the machine counts; wall time stands beside it.
"""

from __future__ import annotations

import tempfile
import time
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
from pausefl.types import FloatArray

NODES, PER_ROUND, ROUNDS = 1000, 10, 28


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


def wrapper_milliseconds(coordinates: int, checkpoint: Path | None, history: int = 2) -> tuple[float, float]:
    """Processor and wall time of a round, the median of those after ``history``, less what FedAvg alone takes.

    The first asks all nodes for their names, and compiles.
    """
    grid, model = MemoryGrid(dict.fromkeys(range(NODES), answer)), arrays(coordinates)
    strategy = Stopwatch(
        FedAvg(fraction_evaluate=0.0), pausefl.Selector(np.ones(NODES), PER_ROUND), poll=0.001, checkpoint=checkpoint
    )
    taken: list[FloatArray] = []

    def lap(number: int, _: ArrayRecord) -> None:
        taken.append(strategy.spent)

    strategy.start(grid, model, num_rounds=history + ROUNDS, evaluate_fn=lap)
    rounds = np.diff([*taken, strategy.spent], axis=0)[history:]
    plain = np.median([plain_seconds(grid, model) for _ in range(9)], axis=0)
    processor, wall = 1e3 * (np.median(rounds, axis=0) - plain)
    return float(processor), float(wall)


def main() -> bool:
    """Print the figures; return whether the bound was met."""
    with tempfile.TemporaryDirectory() as folder:
        measured = [
            ("selection and bookkeeping", wrapper_milliseconds(2410, None), True),
            ("with a durable checkpoint, 2,410 coordinates", wrapper_milliseconds(2410, Path(folder) / "small"), True),
            ("the same, after 1,000 rounds of history", wrapper_milliseconds(2410, Path(folder) / "old", 1000), True),
            (
                "with a durable checkpoint, 1,000,000 coordinates",
                wrapper_milliseconds(1_000_000, Path(folder) / "large"),
                False,
            ),
        ]
    figures = []
    for name, (processor, wall), asked in measured:
        wanted = ("< 20 ms", processor < 20.0) if asked else ()
        figures += [
            Figure(name, f"{processor:.1f} ms", *wanted),
            Figure("   by the clock on the wall", f"{wall:.1f} ms"),
        ]
    return show(f"Flower: {NODES} nodes, {PER_ROUND} per round, what a round costs beside FedAvg", figures)


if __name__ == "__main__":
    main()
