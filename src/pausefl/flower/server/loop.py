"""The rounds one after the other, as Flower plays them, from any round on, with a checkpoint after each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from logging import INFO, WARNING
from typing import Any, Protocol

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from flwr.supercore import log

from pausefl.flower.server.grid import TimedGrid
from pausefl.types import Seconds

_METRICS = ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp")
_LEAST_TTL: Seconds = 300.0
"""Requests expire with their round: no client pays for one that nobody waits for.  Clocks may differ by this much."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What the caller of ``start`` asked for."""

    rounds: int
    timeout: Seconds
    train_config: ConfigRecord
    evaluate_config: ConfigRecord
    evaluate: Callable[[int, ArrayRecord], MetricRecord | None] | None


@dataclass(slots=True, eq=False)
class Progress:
    """How far a run has come: complete rounds, the model, and Flower's result so far."""

    round: int
    arrays: ArrayRecord
    result: Result

    @staticmethod
    def fresh(arrays: ArrayRecord) -> Progress:
        """Return the progress of a run that has not begun."""
        return Progress(0, arrays, Result(arrays=arrays))

    @staticmethod
    def of(number: int, arrays: ArrayRecord, metrics: Mapping[str, Mapping[str, Any]]) -> Progress:
        """Build it from a checkpoint."""
        result = Result(arrays=arrays)
        for name in _METRICS:
            kept = {int(at): MetricRecord(_numbers(values)) for at, values in metrics.get(name, {}).items()}
            setattr(result, name, kept)
        return Progress(number, arrays, result)

    def metrics(self) -> dict[str, dict[str, Any]]:
        """Return this round's metrics ready for JSON, which knows no infinity; with the first round's, also round 0's.

        Before the first round only the server evaluates, and that is repeated if the first round is.
        """
        numbers = (0, 1) if self.round == 1 else (self.round,)
        return {
            name: {
                str(at): {key: _plain(value) for key, value in record.items()}
                for at in numbers
                if (record := getattr(self.result, name).get(at)) is not None
            }
            for name in _METRICS
        }


class Rounds(Protocol):
    """What the loop needs of a strategy."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return a round's messages."""
        ...

    def exchange(self, grid: TimedGrid, messages: Iterable[Message], timeout: Seconds) -> Iterable[Message]:
        """Send them, and return the replies."""
        ...

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the new model."""
        ...

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the messages of an evaluation."""
        ...

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return the clients' metrics."""
        ...

    def over(self) -> str | None:
        """Say why no round can be played any more; None while one can."""
        ...

    def save(self, progress: Progress) -> None:
        """Write a checkpoint."""
        ...


def play(strategy: Rounds, grid: TimedGrid, progress: Progress, plan: Plan) -> Result:
    """Play on from ``progress``; end early when too few clients have budget left."""
    result, start = progress.result, time.monotonic()
    if progress.round == 0:
        _evaluate(plan, 0, progress)
    while progress.round < plan.rounds and strategy.over() is None:
        number = progress.round + 1
        log(INFO, "")
        log(INFO, "[ROUND %s/%s]", number, plan.rounds)
        messages = list(strategy.configure_train(number, progress.arrays, plan.train_config, grid))
        if not messages and strategy.over() is not None:
            break  # as the clients said when they were asked who they are
        for message in messages:
            message.metadata.ttl = min(message.metadata.ttl, max(plan.timeout, _LEAST_TTL))
        replies = strategy.exchange(grid, messages, plan.timeout)
        arrays, metrics = strategy.aggregate_train(number, replies)
        if arrays is not None:
            result.arrays = progress.arrays = arrays
        if metrics is not None:
            result.train_metrics_clientapp[number] = metrics
        asked = list(strategy.configure_evaluate(number, progress.arrays, plan.evaluate_config, grid))
        for message in asked:
            message.metadata.ttl = min(message.metadata.ttl, max(plan.timeout, _LEAST_TTL))
        if asked:
            answered = grid.send_and_receive(asked, timeout=plan.timeout)
            metrics = strategy.aggregate_evaluate(number, answered)
            if metrics is not None:
                result.evaluate_metrics_clientapp[number] = metrics
        _evaluate(plan, number, progress)
        progress.round = number
        strategy.save(progress)
    if progress.round < plan.rounds:
        log(WARNING, "pausefl: %s; the run ends after round %s, with its model", strategy.over(), progress.round)
    log(INFO, "pausefl: %s rounds, %.1f s", progress.round, time.monotonic() - start)
    return result


def _evaluate(plan: Plan, number: int, progress: Progress) -> None:
    found = None if plan.evaluate is None else plan.evaluate(number, progress.arrays)
    if found is not None:
        log(INFO, "\t└──> round %s: %s", number, found)
        progress.result.evaluate_metrics_serverapp[number] = found


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: [_number(one) for one in v] if isinstance(v, list) else _number(v) for key, v in values.items()}


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    # NumPy's floats are floats, but their repr is not a number's.
    return repr(float(value)) if isinstance(value, (float, np.floating)) else int(value)
